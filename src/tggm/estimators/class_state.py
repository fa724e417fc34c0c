"""A fitted classifier as arrays and JSON-able values, and back."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.estimators.contents import require_arrays
from tggm.estimators.settings import plain
from tggm.estimators.state import (
    COLUMNS,
    adopt,
    checked_settings,
    flat_parameters,
    restore_training,
    restored_columns,
    stored_history,
    stored_settings,
)

_LABEL_DTYPE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|object|[<>]?U[0-9]{1,9}")


def classifier_state(model: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Everything a fitted classifier needs to predict and to be trained further."""
    arrays = flat_parameters(model._params)
    del arrays["params.log_noise"]  # a gauge, 0 throughout
    arrays |= {"x_shift": model._x.shift, "x_scale": model._x.scale}
    arrays |= stored_history(model)
    arrays["best_epoch"] = np.asarray(model.best_epoch_, np.int32)
    arrays["undone"] = np.asarray(model.undone_, np.int32)
    names = getattr(model, "feature_names_in_", None)
    settings = stored_settings(model)
    if isinstance(settings["class_weight"], Mapping):  # JSON's keys are strings; ours may be numbers
        settings["class_weight"] = [[plain(k), plain(v)] for k, v in settings["class_weight"].items()]
    meta = {
        "settings": settings,
        "features": None if names is None else [str(name) for name in names],
        "classes": _class_list(model.classes_),
        "class_dtype": str(model.classes_.dtype),
        "converged": bool(model.converged_),
    }
    return arrays, meta


def _class_list(classes: NDArray[Any]) -> list[Any]:
    values: list[Any] = classes.tolist()
    if not all(isinstance(value, str | bool | int | float) for value in values):
        kinds = sorted({type(value).__name__ for value in values})
        raise TypeError(f"labels of type {', '.join(kinds)} cannot be stored; use strings or numbers")
    return values


def _classes(meta: Mapping[str, Any]) -> NDArray[Any]:
    name = str(meta["class_dtype"])
    if not _LABEL_DTYPE.fullmatch(name):  # NumPy would interpret more than we write
        raise ValueError(f"labels of dtype {name[:20]!r} are not known")
    # text as wide as it is, not as a file claims
    classes = np.asarray(meta["classes"], dtype=str if "U" in name else np.dtype(name))
    if classes.ndim != 1 or len(classes) < 2 or len(set(classes.tolist())) != len(classes):
        raise ValueError("labels must be at least two different ones")
    return classes


def restored_settings(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Constructor arguments as they were, JSON's lists turned back."""
    settings = checked_settings(meta)
    for name in ("hidden", "n_cycles"):
        if isinstance(settings[name], list):
            settings[name] = tuple(settings[name])
    if isinstance(settings["class_weight"], list):
        settings["class_weight"] = {key: float(value) for key, value in settings["class_weight"]}
    return settings


def restore_classifier(model: Any, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Fill in what `classifier_state` took out; ValueError or KeyError if it does not fit together."""
    model.classes_ = _classes(meta)
    d = arrays["params.W0"].shape[-1]
    require_arrays(model, arrays, len(model.classes_), dict(zip(COLUMNS[:2], (d, d), strict=True)))
    model._x = restored_columns(arrays, *COLUMNS[:2])
    restore_training(model, arrays, meta)
    adopt(model, arrays)
