"""A fitted classifier as arrays and JSON-able values, and back."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.estimators.columns import Columns
from tggm.estimators.settings import layers, plain
from tggm.estimators.state import (
    checked_settings,
    flat_parameters,
    restore_history,
    restored_deep,
    restored_undone,
    stored_history,
    stored_settings,
)
from tggm.models import Shallow

PARAMETERS = ("W0", "b0", "W1", "b1")
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
    W0, b0, W1, b1 = (arrays[f"params.{name}"] for name in PARAMETERS)
    shift, scale = (np.asarray(arrays[name], np.float64) for name in ("x_shift", "x_scale"))
    classes = _classes(meta)
    (K, m, d), n = W0.shape, len(classes)
    shapes = [a.shape for a in (b0, W1, b1, shift, scale)]
    if shapes != [(K, m), (K, n, W1.shape[-1]), (K, n), (d,), (d,)]:
        raise ValueError(f"parameters, scales and labels do not fit together: {shapes}, {n} labels")
    if not all(np.isfinite(a).all() for a in (W0, b0, W1, b1, shift, scale)) or not (scale > 0).all():
        raise ValueError("parameters and scales must be finite, and scales positive")
    features = meta["features"]
    if features is not None and len(features) != d:
        raise ValueError(f"{len(features)} feature names for {d} features")
    model.classes_, model._x, model._state = classes, Columns(shift, scale), None
    model.n_features_in_ = d
    if features is not None:
        model.feature_names_in_ = np.asarray(features, dtype=object)
    restore_history(model, arrays)
    model.best_epoch_ = arrays["best_epoch"]
    model.undone_ = restored_undone(arrays, K)
    model.converged_ = bool(meta["converged"])
    params: Any = Shallow(W0, b0, W1, b1, np.zeros_like(b1))  # type: ignore[arg-type]  # NumPy until training
    if len(layers(model.hidden)) > 1:
        params = restored_deep(arrays, model.deep, layers(model.hidden))
    with np.errstate(all="ignore"):  # a file may hold any numbers
        model._adopt(params)
