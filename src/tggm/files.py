"""Save fitted estimators to model files and load them.

A file names its class; only estimators of this library are looked up, and nothing in a file is executed. A
model that was fitted to a table has one more entry in its header, ``table``: how the columns become inputs.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tggm
from tggm.settings import one_of
from tggm.storage import ModelFileError, decode, encode, read_file, write_atomically
from tggm.tables import Preparation, preparation_from_json, preparation_to_json
from tggm.tables.baselines import Baselines
from tggm.tables.schema import FitRecord

__all__ = ["ModelFileError", "load", "model_file", "parse_model", "save"]


def loaders(backend: str = "jax") -> dict[str, Any]:
    """Return the functions that restore estimators, by class name; a file cannot name others."""
    if backend == "numpy":
        from tggm.deployment import NumPyClassifier, NumPyRegressor

        return {"TGGMClassifier": NumPyClassifier.from_state, "TGGMRegressor": NumPyRegressor.from_state}
    from tggm import estimators

    kinds: tuple[Any, ...] = (estimators.TGGMClassifier, estimators.TGGMRegressor)
    return {kind.__name__: partial(estimators.from_state, kind) for kind in kinds}


def save(model: Any, path: str | os.PathLike[str]) -> None:
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
        If `model` is of another class, or has settings that JSON cannot hold (a callable, an object).
    """
    write_atomically(Path(path), model_file(model))


def model_file(model: Any, baselines: Baselines | None = None, fitted: FitRecord | None = None) -> bytes:
    """Return the content of the file that `save` writes, with what `tggm fit` stores besides the model."""
    from tggm import estimators

    name = type(model).__name__
    arrays, meta = estimators.to_state(model)
    description: dict[str, Any] = {"class": name, "version": tggm.__version__, "state": dict(meta)}
    preparation = estimators.table_description(model)
    if preparation is not None:
        preparation = replace(preparation, baselines=baselines, fitted=fitted)
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
    one_of("backend", backend, ("jax", "numpy"))
    return parse_model(Path(path), str(Path(path)), backend)[0]


def parse_model(given: bytes | Path, source: str, backend: str = "jax") -> tuple[Any, Preparation | None]:
    """Return the model in a file or its content, and the description of its table (None for arrays).

    Error messages name `source`.
    """
    try:
        arrays, description = decode(given if isinstance(given, bytes) else read_file(given))
        table = None
        if "table" in description:
            try:
                table = preparation_from_json(description["table"])
            except (ValueError, ArithmeticError) as error:
                raise ModelFileError(f"its table section is not valid ({error})") from None
        return _build(arrays, description, table, loaders(backend)), table
    except ModelFileError as error:
        raise ModelFileError(f"{source} is not a usable model file: {error}.") from error.__cause__


def _build(
    arrays: Mapping[str, np.ndarray], model: Mapping[str, Any], table: Preparation | None,
    known: Mapping[str, Any],
) -> Any:  # fmt: skip
    name, state = model.get("class"), model.get("state")
    if not isinstance(name, str) or name not in known:
        raise ModelFileError(f"it holds a {name!r}, which is not an estimator of this version")
    if not isinstance(state, dict):
        raise ModelFileError("its description has no state")
    if set(model) - {"class", "version", "state", "table"} or not isinstance(model.get("version", ""), str):
        raise ModelFileError("its description has entries other than class, version, state and table")
    try:
        found = known[name](arrays, state, table)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        reason = f"its contents are not a valid {name} ({type(error).__name__}: {error})"
        raise ModelFileError(reason) from error
    if table is not None:
        inputs, width = len(table.feature_names), len(found.fitted_.scales.x.shift)
        if width != inputs or table.target.task != found.task:
            task = table.target.task
            raise ModelFileError(f"its table makes {inputs} inputs for {task}; its model takes {width}")
    return found
