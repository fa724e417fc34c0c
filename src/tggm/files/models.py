"""From an estimator to its file and back."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np

import tggm
from tggm.settings import one_of
from tggm.storage.container import ModelFileError, decode, encode
from tggm.storage.files import read_regular, write_atomically
from tggm.tables import Preparation, preparation_from_json, preparation_to_json
from tggm.tables.baselines import Baselines
from tggm.tables.preparation import FitRecord

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

BACKENDS = ("jax", "numpy")


class Stateful(Protocol):
    """What an estimator offers to be stored."""

    def to_state(self) -> tuple[Mapping[str, np.ndarray], Mapping[str, Any]]:
        """Learned arrays, and everything else as JSON-able values."""

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Self:
        """The estimator that gave this state; ValueError, KeyError or TypeError if there is none."""

    def table_preparation(self) -> Preparation | None:
        """How the columns of a table become its inputs, None if it takes arrays."""

    def adopt_table(self, preparation: Preparation) -> None:
        """Take tables from now on."""


class TableModel(NamedTuple):
    """An estimator and, if it was fitted to a table, how that table's columns become its inputs."""

    model: "BaseEstimator"
    preparation: Preparation | None


def numpy_classes() -> dict[str, Any]:
    """What predicts without JAX, by the name of the estimator that was stored."""
    from tggm.deployment.predictors import NumPyClassifier, NumPyRegressor

    return {"TGGMClassifier": NumPyClassifier, "TGGMRegressor": NumPyRegressor}


def known_classes() -> dict[str, Any]:
    """Estimators that can be stored, by name: a file chooses among these and cannot name others."""
    from tggm import estimators

    exported = {name: getattr(estimators, name) for name in getattr(estimators, "__all__", ())}
    return {name: value for name, value in exported.items() if hasattr(value, "from_state")}


def save(model: Stateful, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file, atomically.

    Parameters
    ----------
    model : estimator
        A fitted `TGGMRegressor` or `TGGMClassifier`.
    path : path
        Usually ending in ``.tggm``; an existing file is replaced.

    Raises
    ------
    TypeError
        If `model` is of another class, or holds settings that JSON cannot (a callable, an object).
    """
    write_atomically(Path(path), model_file(model))


def model_file(model: Stateful, baselines: Baselines | None = None, fitted: FitRecord | None = None) -> bytes:
    """Return the content of the file that `save` writes, with what `tggm fit` stores beside the model."""
    name = type(model).__name__
    if known_classes().get(name) is not type(model):
        raise TypeError(
            f"`model` must be one of {', '.join(known_classes())}; got {type(model).__qualname__}."
        )
    arrays, meta = model.to_state()
    description: dict[str, Any] = {"class": name, "version": tggm.__version__, "state": dict(meta)}
    preparation = model.table_preparation()
    if preparation is not None:
        preparation = replace(preparation, baselines=baselines, fitted=fitted)
        description["table"] = preparation_to_json(preparation)
    try:
        return encode(arrays, description)
    except (TypeError, ValueError) as error:
        raise TypeError(f"this {name} cannot be stored: {error}") from error


def load(path: str | os.PathLike[str], *, backend: str = "jax") -> Any:
    """Read an estimator written by `save`; it predicts bit-identically.

    A model that was fitted to a table, in Python or by `tggm fit`, takes tables with the same columns.

    Parameters
    ----------
    path : path
        As given to `save`.
    backend : {"jax", "numpy"}
        With "numpy" the result predicts by NumPy alone and cannot be trained: JAX need not be installed.

    Raises
    ------
    ModelFileError
        If the file is damaged, was not written by `save`, or comes from a newer version. The file is
        checked in full before anything is built from it, and nothing in it is executed. With "numpy", also if
        its model is of a kind that only JAX can compute.
    OSError
        If there is no such file, or it cannot be read.
    """
    by_numpy = one_of("backend", backend, BACKENDS) == "numpy"
    source = Path(path)
    classes = numpy_classes() if by_numpy else known_classes()
    return parse_model(read_regular(source), str(source), classes).model


def load_table_model(path: str | os.PathLike[str]) -> TableModel:
    """Return a model and the description of its table, None if it was not fitted to a table."""
    source = Path(path)
    return parse_model(read_regular(source), str(source))


def parse_model(content: bytes, source: str, classes: Mapping[str, Any] | None = None) -> TableModel:
    """The model in the content of a file; messages call it `source`. It is of one of these classes."""
    try:
        arrays, description = decode(content)
        model = _build(arrays, description, known_classes() if classes is None else classes)
        preparation = _preparation(description, model)
        if preparation is not None:
            model.adopt_table(preparation)
        return TableModel(model, preparation)
    except ModelFileError as error:
        raise ModelFileError(f"{source} is not a usable model file: {error}.") from error.__cause__


def _build(arrays: dict[str, np.ndarray], model: dict[str, Any], classes: Mapping[str, Any]) -> Any:
    name, state = model.get("class"), model.get("state")
    if not isinstance(name, str) or name not in classes:
        raise ModelFileError(f"it holds a {name!r}, which this version does not know")
    if not isinstance(state, dict):
        raise ModelFileError("it describes no state")
    if set(model) - {"class", "version", "state", "table"} or not isinstance(model.get("version", ""), str):
        raise ModelFileError("its description has more than a class, a version, a state and a table")
    try:
        return classes[name].from_state(arrays, state)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelFileError(
            f"its contents do not make a {name} ({type(error).__name__}: {error})"
        ) from error


def _preparation(description: dict[str, Any], model: "BaseEstimator") -> Preparation | None:
    """The table section of a file, after checking that it fits the model."""
    if "table" not in description:
        return None
    try:
        preparation = preparation_from_json(description["table"])
    except (ValueError, ArithmeticError) as error:
        raise ModelFileError(f"its table section is not valid ({error})") from None
    width = len(preparation.feature_names)
    if width != model.n_features_in_ or preparation.target.task != model.task:
        raise ModelFileError(
            f"its table section makes {width} inputs for {preparation.target.task}, but its model takes "
            f"{model.n_features_in_}"
        )
    return preparation
