"""A fitted regressor as arrays and JSON-able values, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tggm.estimators.columns import Columns
from tggm.estimators.settings import layers, plain
from tggm.models import Shallow
from tggm.models.deep import FORMS
from tggm.models.lateral import Lateral

COLUMNS = ("x_shift", "x_scale", "y_shift", "y_scale")
HISTORY = ("train", "held_out")
MOST_POINTS = 1000  # of a learning curve in a file


def stored_settings(model: Any) -> dict[str, Any]:
    """Constructor arguments as JSON holds them; a file must not choose where a later fit writes."""
    settings = model.get_params(deep=False).items()
    found = {name: plain(value) for name, value in settings if name != "checkpoint"}
    found["sigma0"] = model._sigma0  # what the parameters were fitted with
    for name in ("optimizer", "random_state"):  # may be objects
        if not isinstance(found[name], int | str | None):
            raise TypeError(
                f"`{name}` is a {type(getattr(model, name)).__name__}, which a model file cannot hold; call "
                f"set_params({name}=...) with a number or a word first: the fitted parameters stay."
            )
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


def restored_undone(arrays: Mapping[str, np.ndarray], n_members: int) -> np.ndarray:
    """Steps taken back by each member; older files do not tell, which reads as none."""
    undone = arrays.get("undone", np.zeros(n_members, np.int32))
    if undone.shape != (n_members,):
        raise ValueError(f"steps taken back by {undone.shape} members, not {n_members}")
    return undone


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
    if epoch.shape != (n,) or (np.diff(epoch, prepend=0) < 1).any():
        raise ValueError(f"epochs of the learning curve must be {n} rising numbers")
    model.history_ = curves | {"epoch": epoch}
    model.n_iter_ = int(epoch[-1]) if n else 0


def restored_deep(arrays: Mapping[str, np.ndarray], form: str, hidden: tuple[int, ...]) -> Any:
    """The deep model that `flat_parameters` took apart; ValueError if its layers do not fit together."""
    first = [arrays[f"params.{name}"] for name in ("W0", "b0", "W1", "b1")]
    noise = arrays["params.log_noise"] if "params.log_noise" in arrays else np.zeros_like(first[3])
    levels = range(len(hidden) - 1)
    W, b = (tuple(arrays[f"params.{name}.{i}"] for i in levels) for name in ("W", "b"))
    K = len(first[0])
    wanted: list[tuple[int, ...]] = [(K, hidden[0]), (K, hidden[-1])]
    wanted += [(K, hidden[i + 1], hidden[i]) for i in levels] + [(K, hidden[i + 1]) for i in levels]
    found = [tuple(first[1].shape), tuple(first[2].shape[::2]), *(tuple(a.shape) for a in (*W, *b))]
    if found != wanted:
        raise ValueError(f"hidden layers have shapes that do not fit together: {found}")
    if not all(np.isfinite(a).all() for a in (*W, *b)):
        raise ValueError("parameters must be finite")
    build: Any = FORMS[form]
    return build(*first, noise, W, b)


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
    kind = Lateral if "params.V" in arrays else Shallow
    params: Any
    if len(layers(model.hidden)) > 1:
        params = restored_deep(arrays, model.deep, layers(model.hidden))
    else:
        params = kind(*(arrays[f"params.{name}"] for name in kind._fields))  # type: ignore[arg-type]  # NumPy
    columns = [np.asarray(arrays[name], np.float64) for name in COLUMNS]
    (K, m, d), n = params.W0.shape, params.b1.shape[-1]
    rest: list[Any] = [*params[1:5], *columns]
    shapes = [tuple(a.shape) for a in rest]
    top = params.W1.shape[-1]
    if shapes != [(K, m), (K, n, top), (K, n), (K, n), (d,), (d,), (n,), (n,)]:
        raise ValueError(f"parameters and scales have shapes that do not fit together: {shapes}")
    finite = all(np.isfinite(a).all() for a in (params.W0, *rest))
    if not finite or not all((c > 0).all() for c in columns[1::2]):
        raise ValueError("parameters and scales must be finite, and scales positive")
    if kind is Lateral and (params.V.shape[::2] != (K, m) or not np.isfinite(params.V).all()):
        raise ValueError(f"lateral connections must be finite, of shape ({K}, rank, {m}): {params.V.shape}")
    features = meta["features"]
    if features is not None and len(features) != d:
        raise ValueError(f"{len(features)} feature names for {d} features")
    if meta["vector_target"] and n != 1:
        raise ValueError(f"a vector as target, but {n} outputs")
    model._x, model._y = Columns(*columns[:2]), Columns(*columns[2:])
    model._flat, model._state = bool(meta["vector_target"]), None
    model.n_features_in_ = d
    if features is not None:
        model.feature_names_in_ = np.asarray(features, dtype=object)
    restore_history(model, arrays)
    model.best_epoch_ = arrays["best_epoch"]
    model.undone_ = restored_undone(arrays, K)
    model.converged_ = bool(meta["converged"])
    with np.errstate(all="ignore"):  # a file may hold any numbers
        model._adopt(params)
    if not np.isfinite(model.noise_).all():
        raise ValueError("the noise must be finite")
