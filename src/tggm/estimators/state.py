"""A fitted estimator as arrays and JSON-able values, and back.

What a file must hold, whatever made its checksum right, follows from its settings: these arrays, of these
shapes and types, and numbers that can be computed with. What exceeds the bounds is refused when a model is
stored, too, so that a file that was written can be read.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tggm.data.standardise import Columns, Scales
from tggm.estimators.fitted import Fitted
from tggm.estimators.recipe import Recipe
from tggm.estimators.targets import require_squares
from tggm.models import Architecture, Model
from tggm.models.features import FEATURES
from tggm.settings import flag, layers, plain, word_or_none

Arrays = Mapping[str, np.ndarray]
COLUMNS = ("x.shift", "x.scale", "y.shift", "y.scale")
HISTORY = ("train", "held_out")
COUNTS = ("best_epoch", "undone", "history.epoch")  # whole numbers; all else is floating
MOST_POINTS = 1000  # of a learning curve in a file
_MODEL = "model."
ASIDE = "guarantee.scores"  # of rows set aside, in files of models that have such


class Record(NamedTuple):
    """What training told about itself."""

    history: dict[str, np.ndarray]  # "train" and "held_out", (members, points), and "epoch", (points,)
    best_epoch: np.ndarray  # (members,)
    undone: np.ndarray  # (members,)


def arrays_of(fitted: Fitted, record: Record) -> dict[str, np.ndarray]:
    """Everything a fitted estimator needs to predict and to be trained further."""
    arrays = {_MODEL + name: np.asarray(a) for name, a in fitted.model.arrays().items()}
    arrays |= dict(zip(COLUMNS, (*fitted.scales.x, *fitted.scales.y), strict=True))
    if fitted.guarantee is not None:
        arrays[ASIDE] = fitted.guarantee
    n = len(record.history["epoch"])
    kept = (
        np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(int)
    )  # the first, the last, evenly between
    arrays |= {f"history.{name}": np.asarray(record.history[name])[:, kept] for name in HISTORY}
    arrays["history.epoch"] = np.asarray(record.history["epoch"], np.int32)[kept]
    counts = {"best_epoch": record.best_epoch, "undone": record.undone}
    return arrays | {name: np.asarray(a, np.int32) for name, a in counts.items()}


def stored_settings(given: Mapping[str, Any], fitted: Fitted) -> dict[str, Any]:
    """Constructor arguments as JSON holds them; a file must not choose where a later fit writes.

    Those that describe the model are as they were when it was fitted, whatever was set since.
    """
    fitted.model.check(given["dtype"])
    found = {name: plain(value) for name, value in given.items() if name != "checkpoint"}
    found |= _described(given, fitted)
    for name in ("optimizer", "random_state"):  # may be objects
        if not isinstance(found[name], int | str | None):
            raise TypeError(
                f"`{name}` is a {type(given[name]).__name__}, which a model file cannot hold; call "
                f"set_params({name}=...) with a number or a word first: the fitted parameters stay."
            )
    return found


def _described(given: Mapping[str, Any], fitted: Fitted) -> dict[str, Any]:
    built = Architecture.of(fitted.model)
    s0 = np.asarray(fitted.model.arrays()["hidden.s0"], np.float64)
    sigma0 = float(given["sigma0"])
    found = {
        "method": fitted.method,
        "units": built.units,
        "sigma0": sigma0 if fitted.has_gauge(sigma0**2) else float(np.sqrt(s0[0])),
        "n_members": len(s0),
        "dtype": str(fitted.model.arrays()["hidden.W0"].dtype),
    }
    if layers(given["hidden"]) not in (None, built.layers):
        found["hidden"] = list(built.layers)
    for name in ("features", "linear"):
        if given[name] != "auto":
            found[name] = getattr(built, name)
    if "lateral" in given:
        found["lateral"] = built.lateral
    if len(built.layers) > 1:
        found["deep"] = built.form
    return found


def stored_sizes(fitted: Fitted) -> dict[str, Any]:
    """What settings may leave to the data."""
    built = Architecture.of(fitted.model)
    return {"hidden": list(built.layers), "features": built.features, "linear": built.linear}


def restore_sizes(recipe: Recipe, sizes: Mapping[str, Any]) -> None:
    """Settle what the settings of a file leave open as the file says; ValueError if they say otherwise."""
    given = recipe.given
    wanted = {"hidden": recipe.given_layers, "features": given["features"], "linear": recipe.given_linear}
    found = {"hidden": layers(sizes["hidden"]), "features": sizes["features"], "linear": sizes["linear"]}
    word_or_none("features", found["features"], FEATURES)
    flag("linear", found["linear"])
    if found["hidden"] is None:
        raise ValueError("the sizes of its layers are not known")
    for name, value in wanted.items():
        if given[name] != "auto" and value != found[name]:
            raise ValueError(f"its {name} are not those of its settings")
    recipe.layers, recipe.features, recipe.linear = found["hidden"], found["features"], found["linear"]


def restored_settings(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Constructor arguments as they were, JSON's lists turned back into tuples."""
    settings = dict(meta["settings"])
    if "checkpoint" in settings:
        raise ValueError("a model file has no place for a checkpoint")
    for name in ("hidden", "n_cycles"):
        if isinstance(settings[name], list):
            settings[name] = tuple(settings[name])
    return settings


def n_inputs_of(arrays: Arrays) -> int:
    """Columns of the inputs, as the arrays have them."""
    return int(arrays["x.shift"].shape[-1])


def restored(
    arrays: Arrays, architecture: Architecture, members: int, sigma0: float, dtype: Any, method: str
) -> tuple[Fitted, Record]:
    """The model and record that `arrays_of` took apart; ValueError if they are not those of the settings."""
    template = architecture.template(members)
    wanted = _shapes(template, architecture, members, arrays["history.train"].shape[-1])
    if ASIDE in arrays:
        wanted[ASIDE] = (architecture.n_outputs, arrays[ASIDE].shape[-1])
    _require(arrays, wanted)
    model = template.replaced({name: arrays[_MODEL + name] for name in template.arrays()})
    model.check(dtype)
    kinds = {arrays[_MODEL + name].dtype for name in template.arrays()}
    if kinds != {np.dtype(dtype)}:
        raise ValueError(f"its parameters are of type {', '.join(sorted(map(str, kinds)))}, not {dtype}")
    x, y = (
        Columns(*(np.asarray(arrays[name], np.float64) for name in part))
        for part in (COLUMNS[:2], COLUMNS[2:])
    )
    for columns in (x, y):
        if not np.isfinite(columns).all() or not (columns.scale > 0).all():
            raise ValueError("shifts and scales must be finite, and scales positive")
    require_squares(y.scale)
    fitted = Fitted(model, Scales(x, y), method, guarantee=_aside(arrays))
    if not fitted.has_gauge(sigma0**2):
        raise ValueError("the gauge of its arrays is not that of its settings")
    return fitted, _record(arrays)


def _aside(arrays: Arrays) -> np.ndarray | None:
    from tggm.predictive.conformal import checked_scores

    return checked_scores(arrays[ASIDE]) if ASIDE in arrays else None


def _record(arrays: Arrays) -> Record:
    epoch = arrays["history.epoch"]
    if (np.diff(epoch, prepend=0) < 1).any():
        raise ValueError(f"epochs of the learning curve must be {len(epoch)} rising numbers")
    if min(arrays["best_epoch"].min(), arrays["undone"].min()) < 0:
        raise ValueError("the best epoch and the steps taken back must not be negative")
    history = {name: arrays[f"history.{name}"] for name in HISTORY} | {"epoch": epoch}
    return Record(history, arrays["best_epoch"], arrays["undone"])


def _shapes(template: Model, built: Architecture, K: int, points: int) -> dict[str, tuple[int, ...]]:
    """Shapes of all arrays, by name."""
    d, n = built.n_inputs, built.n_outputs
    if not d or not n:
        raise ValueError(f"a model of {d} inputs and {n} outputs")
    found = {_MODEL + name: np.shape(a) for name, a in template.arrays().items()}
    found |= {name: (size,) for name, size in zip(COLUMNS, (d, d, n, n), strict=True)}
    found |= {f"history.{name}": (K, points) for name in HISTORY} | {"history.epoch": (points,)}
    return found | {"best_epoch": (K,), "undone": (K,)}


def _require(arrays: Arrays, wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Raise unless `arrays` have these names and shapes, and types that are computed with."""
    if set(arrays) != set(wanted):
        raise ValueError(
            f"arrays are missing or do not belong to it: {sorted(set(arrays) ^ set(wanted))[:5]}"
        )
    for name, array in arrays.items():
        if array.shape != wanted[name]:
            raise ValueError(f"array {name!r} has shape {array.shape}; its settings ask for {wanted[name]}")
        if array.dtype.kind != ("i" if name in COUNTS else "f"):
            raise ValueError(
                f"array {name!r} is of type {array.dtype}, which is not what it is computed with"
            )


def feature_names(names: Any, n_features: int) -> list[str] | None:
    """Names of the inputs as scikit-learn keeps them, if there are any."""
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("feature names must be a list of words")
    if len(names) != n_features:
        raise ValueError(f"{len(names)} feature names for {n_features} features")
    return names


def importances(meta: Mapping[str, Any]) -> np.ndarray | None:
    """What each column is worth, if it was asked for before."""
    if (found := meta["importances"]) is None:
        return None
    if not isinstance(found, list) or not all(type(value) in (int, float) for value in found):
        raise ValueError("importances must be a list of numbers")
    values = np.asarray(found, np.float64)
    if not np.isfinite(values).all():
        raise ValueError("importances must be finite")
    return values


def yes_or_no(meta: Mapping[str, Any], name: str) -> bool:
    """An entry of a description that is true or false, and nothing that reads as such."""
    if not isinstance(meta[name], bool):
        raise ValueError(f"{name} must be true or false")
    return bool(meta[name])
