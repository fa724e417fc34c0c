"""Save fitted estimators to model files and load them.

A file names its class; only estimators of this library are looked up, and nothing in a file is executed. A
model that was fitted to a table has one more entry in its header, ``table``: how the columns become inputs.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tggm
from tggm.settings import one_of
from tggm.storage import ModelFileError, decode, encode, read_regular, write_atomically
from tggm.tables import Preparation, preparation_from_json, preparation_to_json

BACKENDS = ("jax", "numpy")
__all__ = ["ModelFileError", "load", "load_table_model", "model_file", "parse_model", "save"]


class TableModel(NamedTuple):
    """Hold an estimator and, if it was fitted to a table, how the columns become its inputs."""

    model: Any
    preparation: Preparation | None


def numpy_classes() -> dict[str, Any]:
    """Return the classes that predict without JAX, by the name of the stored estimator."""
    from tggm.deployment import NumPyClassifier, NumPyRegressor

    return {"TGGMClassifier": NumPyClassifier, "TGGMRegressor": NumPyRegressor}


def known_classes() -> dict[str, Any]:
    """Return the estimators that can be stored, by name; a file cannot name others."""
    from tggm import estimators

    exported = {name: getattr(estimators, name) for name in getattr(estimators, "__all__", ())}
    return {name: value for name, value in exported.items() if hasattr(value, "from_state")}


def save(model: Any, path: str | os.PathLike[str], *, preparation: Preparation | None = None) -> None:
    """Write a fitted estimator to one file, atomically.

    Parameters
    ----------
    model : estimator
        A fitted `TGGMRegressor` or `TGGMClassifier`.
    path : path
        Usually ending in ``.tggm``; an existing file is replaced.
    preparation : Preparation, optional
        How the columns of a table become the inputs of `model`; by default that of the model.

    Raises
    ------
    TypeError
        If `model` is of another class, or has settings that JSON cannot hold (a callable, an object).
    """
    write_atomically(Path(path), model_file(model, preparation))


def model_file(model: Any, preparation: Preparation | None = None) -> bytes:
    """Return the content of the file that `save` writes."""
    name = type(model).__name__
    if known_classes().get(name) is not type(model):
        raise TypeError(
            f"`model` must be one of {', '.join(known_classes())}; got {type(model).__qualname__}."
        )
    arrays, meta = model.to_state()
    description: dict[str, Any] = {"class": name, "version": tggm.__version__, "state": dict(meta)}
    preparation = model.table_preparation() if preparation is None else preparation
    if preparation is not None:
        description["table"] = preparation_to_json(preparation)
    try:
        return encode(arrays, description)
    except (TypeError, ValueError) as error:
        raise TypeError(f"this {name} cannot be stored: {error}") from error


def load(path: str | os.PathLike[str], *, backend: str = "jax") -> Any:
    """Read an estimator written by `save`; its predictions are bit-identical.

    A model that was fitted to a table takes tables with the same columns.

    Parameters
    ----------
    path : path
        The file that `save` wrote.
    backend : {"jax", "numpy"}
        With "numpy" the model predicts without JAX and cannot be trained.

    Raises
    ------
    ModelFileError
        If the file is damaged, was not written by `save`, or comes from a newer version; with "numpy",
        also if only JAX can compute the model.
    OSError
        If the file does not exist or cannot be read.
    """
    by_numpy = one_of("backend", backend, BACKENDS) == "numpy"
    classes = numpy_classes() if by_numpy else known_classes()
    model, preparation = parse_model(read_regular(Path(path)), str(Path(path)), classes)
    if preparation is not None:
        model.adopt_table(preparation)
    return model


def load_table_model(path: str | os.PathLike[str]) -> TableModel:
    """Read a model that takes numbers, and how a table becomes numbers (None for a model of arrays)."""
    return parse_model(read_regular(Path(path)), str(Path(path)))


def parse_model(content: bytes, source: str, classes: Mapping[str, Any] | None = None) -> TableModel:
    """Return the model in the content of a file; error messages name `source`."""
    try:
        arrays, description = decode(content)
        model = _build(arrays, description, known_classes() if classes is None else classes)
        return TableModel(model, _preparation(description, model))
    except ModelFileError as error:
        raise ModelFileError(f"{source} is not a usable model file: {error}.") from error.__cause__


def _build(arrays: dict[str, np.ndarray], model: dict[str, Any], classes: Mapping[str, Any]) -> Any:
    name, state = model.get("class"), model.get("state")
    if not isinstance(name, str) or name not in classes:
        raise ModelFileError(f"it holds a {name!r}, which is not an estimator of this version")
    if not isinstance(state, dict):
        raise ModelFileError("its description has no state")
    if set(model) - {"class", "version", "state", "table"} or not isinstance(model.get("version", ""), str):
        raise ModelFileError("its description has entries other than class, version, state and table")
    try:
        return classes[name].from_state(arrays, state)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelFileError(
            f"its contents are not a valid {name} ({type(error).__name__}: {error})"
        ) from error


def _preparation(description: dict[str, Any], model: Any) -> Preparation | None:
    """Return the table section of a file after checking that it fits the model."""
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
