"""A fitted regressor as arrays and JSON-able values, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tggm.estimators.columns import Columns
from tggm.estimators.contents import feature_names, require_arrays, require_computable, yes_or_no
from tggm.estimators.settings import layers, plain
from tggm.models import Shallow
from tggm.models.deep import FORMS
from tggm.models.lateral import Lateral, lateral_rank

COLUMNS = ("x_shift", "x_scale", "y_shift", "y_scale")
HISTORY = ("train", "held_out")
MOST_POINTS = 1000  # of a learning curve in a file


def stored_settings(model: Any) -> dict[str, Any]:
    """Constructor arguments as JSON holds them; a file must not choose where a later fit writes."""
    settings = model.get_params(deep=False).items()
    found = {name: plain(value) for name, value in settings if name != "checkpoint"}
    found |= _fitted(model)
    for name in ("optimizer", "random_state"):  # may be objects
        if not isinstance(found[name], int | str | None):
            raise TypeError(
                f"`{name}` is a {type(getattr(model, name)).__name__}, which a model file cannot hold; call "
                f"set_params({name}=...) with a number or a word first: the fitted parameters stay."
            )
    return found


def _fitted(model: Any) -> dict[str, Any]:
    """Settings that describe the parameters: as they were when these were fitted, whatever was set since."""
    params: Any = model._params
    found = {"method": model._trained_by, "sigma0": model._sigma0, "n_members": len(params.W0)}
    require_computable(params, model._sigma0, model.dtype)
    sizes = [params.W0.shape[1], *(W.shape[1] for W in getattr(params, "W", ()))]
    if tuple(sizes) != layers(model.hidden):
        found["hidden"] = sizes
    if hasattr(model, "lateral"):
        found["lateral"] = lateral_rank(params)
    if len(sizes) > 1:
        found["deep"] = next(form for form, kind in FORMS.items() if isinstance(params, kind))
    return found


def checked_settings(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a file, none of which may say where something is written."""
    settings = dict(meta["settings"])
    if "checkpoint" in settings:
        raise ValueError("a model file has no place for a checkpoint")
    return settings


def restored_settings(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Constructor arguments as they were, JSON's lists turned back into tuples of sizes."""
    settings = checked_settings(meta)
    if isinstance(settings["hidden"], list):
        settings["hidden"] = tuple(settings["hidden"])
    return settings


def between(params: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases between hidden layers, as float64."""
    pairs = zip(getattr(params, "W", ()), getattr(params, "b", ()), strict=True)
    return [(np.asarray(W, np.float64), np.asarray(b, np.float64)) for W, b in pairs]


def flat_parameters(params: Any) -> dict[str, np.ndarray]:
    """Arrays of a model by name: its fields, and `W.0`, `b.0`, … for what lies between hidden layers."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in params._asdict().items():
        if isinstance(value, tuple):
            arrays |= {f"params.{name}.{i}": np.asarray(a) for i, a in enumerate(value)}
        else:
            arrays[f"params.{name}"] = np.asarray(value)
    return arrays


def stored_history(model: Any) -> dict[str, np.ndarray]:
    """Learning curves and their epochs, a thousand points at most: the first, the last, evenly between."""
    curves = {name: np.asarray(model.history_[name]) for name in HISTORY}
    n = curves["train"].shape[1]
    epoch = np.asarray(model.history_.get("epoch", np.arange(1, n + 1)), np.int32)
    kept = np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(int)
    arrays = {f"history.{name}": curve[:, kept] for name, curve in curves.items()}
    return arrays | {"history.epoch": epoch[kept]}


def restore_history(model: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Curves and number of epochs; older files hold every epoch and do not number them."""
    curves = {name: arrays[f"history.{name}"] for name in HISTORY}
    n = curves["train"].shape[1]
    epoch = arrays.get("history.epoch", np.arange(1, n + 1, dtype=np.int32))
    if (np.diff(epoch, prepend=0) < 1).any():
        raise ValueError(f"epochs of the learning curve must be {n} rising numbers")
    model.history_ = curves | {"epoch": epoch}
    model.n_iter_ = int(epoch[-1]) if n else 0


def restored_parameters(model: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The parameters that `flat_parameters` took apart, after `require_arrays`."""
    found = {name.removeprefix("params."): a for name, a in arrays.items() if name.startswith("params.")}
    found.setdefault("log_noise", np.zeros_like(found["b1"]))  # of a classifier
    levels = range(len(layers(model.hidden)) - 1)
    kind: Any = Lateral if "V" in found else Shallow
    if levels:
        kind = FORMS[model.deep]
        found |= {name: tuple(found.pop(f"{name}.{i}") for i in levels) for name in ("W", "b")}  # type: ignore[misc]  # a tuple of arrays
    return kind(**found)


def restore_training(model: Any, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """What is told about inputs and training; older files do not tell of steps taken back: there are none."""
    model.n_features_in_ = arrays["params.W0"].shape[-1]
    names = feature_names(meta["features"], model.n_features_in_)
    if names is not None:
        model.feature_names_in_ = names
    restore_history(model, arrays)
    model.best_epoch_ = arrays["best_epoch"]
    model.undone_ = arrays.get("undone", np.zeros_like(model.best_epoch_))
    if min(model.best_epoch_.min(), model.undone_.min()) < 0:
        raise ValueError("the best epoch and the steps taken back must not be negative")
    model.converged_, model._state = yes_or_no(meta, "converged"), None


def adopt(model: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Hold the parameters of a file, if they can be computed with."""
    params = restored_parameters(model, arrays)
    require_computable(params, float(model.sigma0), model.dtype)
    with np.errstate(all="ignore"):  # a file may hold any numbers
        model._adopt(params)
    known = (model.W0_, model.b0_, model.W1_, model.b1_, getattr(model, "noise_", 0.0))
    if not all(np.isfinite(a).all() for a in known):
        raise ValueError("parameters and noise must be finite in the units of the data")


def restored_columns(arrays: Mapping[str, np.ndarray], shift: str, scale: str) -> Columns:
    """A standardisation."""
    found = Columns(*(np.asarray(arrays[name], np.float64) for name in (shift, scale)))
    if not np.isfinite(found).all() or not (found.scale > 0).all():
        raise ValueError("shifts and scales must be finite, and scales positive")
    return found


def regressor_state(model: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Everything a fitted regressor needs to predict and to be trained further."""
    arrays = flat_parameters(model._params)
    arrays |= dict(zip(COLUMNS, (*model._x, *model._y), strict=True))
    arrays |= stored_history(model)
    arrays["best_epoch"] = np.asarray(model.best_epoch_, np.int32)
    arrays["undone"] = np.asarray(model.undone_, np.int32)
    names = getattr(model, "feature_names_in_", None)
    meta = {
        "settings": stored_settings(model),
        "features": None if names is None else [str(name) for name in names],
        "vector_target": bool(model._flat),
        "converged": bool(model.converged_),
    }
    return arrays, meta


def restore_regressor(model: Any, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Fill in what `regressor_state` took out; ValueError or KeyError if it does not fit together."""
    d, n = arrays["params.W0"].shape[-1], arrays["params.b1"].shape[-1]
    require_arrays(model, arrays, n, dict(zip(COLUMNS, (d, d, n, n), strict=True)))
    model._x, model._y = restored_columns(arrays, *COLUMNS[:2]), restored_columns(arrays, *COLUMNS[2:])
    model._flat = yes_or_no(meta, "vector_target")
    if model._flat and n != 1:
        raise ValueError(f"a vector as target, but {n} outputs")
    restore_training(model, arrays, meta)
    adopt(model, arrays)
