"""Convert a fitted estimator to arrays and JSON values, and back.

Every array is checked against the stored settings and network, even if the checksum of the file matches.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, replace
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tggm.data.standardise import Columns as Standardisation
from tggm.data.standardise import Scales
from tggm.estimators._base import TableEstimator
from tggm.estimators._data import require_squares
from tggm.estimators._fitted import Fitted
from tggm.estimators._settings import CLASSIFICATION, REGRESSION, Settings, Task
from tggm.models import Network
from tggm.predictive.calibration import checked_calibration
from tggm.predictive.conformal import STORED, checked_scores
from tggm.predictive.gaussian_process import PROCESS, checked_process
from tggm.predictive.neighbors import PREFIX, checked_neighbors
from tggm.predictive.novelty import checked_rows
from tggm.predictive.support import restored_support
from tggm.predictive.transforms import checked_transform
from tggm.settings import layers, plain
from tggm.tables import Preparation, TableTransformer, Target
from tggm.tables.schema import restored_classes, stored_classes
from tggm.tables.transformer import CHOICES, Columns

Arrays = Mapping[str, np.ndarray]
Meta = Mapping[str, Any]
E = TypeVar("E", bound=TableEstimator)
SCALES = ("x.shift", "x.scale", "y.shift", "y.scale")
HISTORY = ("train", "held_out")
COUNTS = ("best_epoch", "undone", "history.epoch")  # integers; all other arrays are floating
MOST_POINTS = 1000  # of a learning curve in a file
TRAIN = ("train.low", "train.high", "train.rows")
_MODEL = "model."


def to_state(estimator: TableEstimator) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and JSON values of a model file; the encoder of a table is stored separately."""
    check_is_fitted(estimator, "fitted_")
    fitted = estimator.fitted_
    fitted.model.check(fitted.dtype)
    names = None if fitted.columns.encoder is not None else fitted.columns.names
    importances = estimator._importances
    meta = {
        "settings": _stored_settings(estimator),
        "network": fitted.network.described(),
        "features": None if names is None else [str(name) for name in names],
        "target": fitted.target,
        "vector_target": bool(fitted.flat),
        "calibration": [[each.kind, *each.numbers] for each in fitted.calibration],
        "transform": None if fitted.transform is None else fitted.transform.shift,
        "neighbors": None if fitted.neighbors is None else asdict(fitted.neighbors.rule),
        "process": None if fitted.process is None else [fitted.process.share, fitted.process.constant],
        "support": None if fitted.support is None else list(fitted.support),
        "converged": bool(estimator.converged_),
        "importances": None if importances is None else importances.tolist(),
    }
    if fitted.classes is not None:
        meta |= stored_classes(fitted.classes)
    return _arrays_of(estimator), meta


def from_state(cls: type[E], arrays: Arrays, meta: Meta, table: Preparation | None = None) -> E:
    """Restore an estimator; raise ValueError, KeyError or TypeError if the state is invalid.

    `table` describes the columns of a model of tables.
    """
    estimator: E = cls(**_restored_settings(meta))
    task = CLASSIFICATION if estimator.task == "classification" else REGRESSION
    settings = Settings.checked(estimator.get_params(deep=False), task)
    network = Network.from_description(meta["network"])
    _require_settings(settings, network)
    fitted = _restore_model(arrays, meta, network, settings, task)
    if table is not None:
        columns = Columns.of(TableTransformer.of(table))
        fitted = replace(fitted, columns=columns, target=table.target.name)
    history = {name: arrays[f"history.{name}"] for name in (*HISTORY, "epoch")}
    estimator.history_, estimator.best_epoch_, estimator.undone_ = (
        history, arrays["best_epoch"], arrays["undone"],
    )  # fmt: skip
    estimator.n_iter_ = int(history["epoch"][-1]) if len(history["epoch"]) else 0
    estimator.converged_, estimator.interrupted_ = true_or_false(meta, "converged"), False
    estimator._importances = _restored_importances(meta)
    with np.errstate(all="ignore"):  # a file may hold any numbers
        estimator._set_fitted(fitted)
    shown = {name: a for name, a in vars(estimator).items() if name in ("W0_", "b0_", "W1_", "b1_", "noise_")}
    if not all(np.isfinite(a).all() for a in shown.values()):
        raise ValueError("parameters and noise must be finite in the units of the data")
    if "noise_" in shown and not (shown["noise_"] > 0).all():
        raise ValueError("the noise vanishes in the units of the data")
    return estimator


def _arrays_of(estimator: TableEstimator) -> dict[str, np.ndarray]:
    fitted = estimator.fitted_
    arrays = {_MODEL + name: np.asarray(a) for name, a in fitted.model.arrays().items()}
    arrays |= dict(zip(SCALES, (*fitted.scales.x, *fitted.scales.y), strict=True))
    if fitted.guarantee is not None:
        arrays[STORED] = fitted.guarantee
    if fitted.neighbors is not None:
        arrays |= fitted.neighbors.arrays()
    if fitted.process is not None:
        arrays |= fitted.process.arrays(fitted.dtype)
    if fitted.train is not None:
        low, high, rows = fitted.train
        arrays |= dict(zip(TRAIN, (low, high, rows.astype(np.float32)), strict=True))
    n = len(estimator.history_["epoch"])
    kept = np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(int)
    arrays |= {f"history.{name}": np.asarray(estimator.history_[name])[:, kept] for name in HISTORY}
    arrays["history.epoch"] = np.asarray(estimator.history_["epoch"], np.int32)[kept]
    counts = {"best_epoch": estimator.best_epoch_, "undone": estimator.undone_}
    return arrays | {name: np.asarray(a, np.int32) for name, a in counts.items()}


def _stored_settings(estimator: TableEstimator) -> dict[str, Any]:
    """Return constructor arguments as JSON values; those that define the model are as in the fit."""
    given, fitted = estimator.get_params(deep=False), estimator.fitted_
    found = {name: plain(value) for name, value in given.items() if name not in ("checkpoint", "cv")}
    found |= {name: plain(list(given[name])) for name in CHOICES}
    found |= {"n_members": len(fitted.model.arrays()["hidden.W0"]), "dtype": fitted.dtype}
    if given["network"] is not None:
        found["network"] = replace(fitted.network, likelihood=given["network"].likelihood).described()
    if layers(given["hidden"]) is not None:
        found["hidden"] = list(fitted.network.units)
    if given["linear"] != "auto":
        found["linear"] = fitted.network.linear
    # a file holds no splitter; `fit` asks for one
    found["cv"] = plain(given["cv"]) if isinstance(given["cv"], Real) else None
    if not isinstance(found["random_state"], int | None):
        raise TypeError(
            f"`random_state` is a {type(given['random_state']).__name__}, which a model file cannot hold; "
            "call set_params(random_state=...) with an integer first; fitted parameters do not change."
        )
    return found


def _restored_settings(meta: Meta) -> dict[str, Any]:
    settings = dict(meta["settings"])
    if "checkpoint" in settings:
        raise ValueError("a model file must not name a checkpoint")
    if settings["cv"] is not None and type(settings["cv"]) not in (int, float):
        raise ValueError("`cv` of a model file must be a number or null")
    if isinstance(settings["hidden"], list):
        settings["hidden"] = tuple(settings["hidden"])
    if isinstance(settings.get("support"), list):
        settings["support"] = tuple(settings["support"])
    settings |= {name: tuple(settings[name]) for name in CHOICES}
    if settings["network"] is not None:
        settings["network"] = Network.from_description(settings["network"])
    if isinstance(settings.get("class_weight"), list):
        settings["class_weight"] = {key: float(value) for key, value in settings["class_weight"]}
    return settings


def _require_settings(settings: Settings, network: Network) -> None:
    """Raise if the network is not one that the settings allow."""
    if settings.hidden is not None and settings.hidden != network.units:
        raise ValueError("its layers are not those of its settings")
    if settings.linear is not None and settings.linear != network.linear:
        raise ValueError("its linear part is not that of its settings")
    if not network.units or not all(type(m) is int and m > 0 for m in network.units):
        raise ValueError(f"the units of its layers must be positive integers; got {network.units!r}")


def _restore_model(arrays: Arrays, meta: Meta, network: Network, settings: Settings, task: Task) -> Fitted:
    """Return the validated model."""
    d, n = int(arrays["x.shift"].shape[-1]), int(arrays["y.shift"].shape[-1])
    members = settings.n_members
    stored = sum(a.size for a in arrays.values())
    if not d or not n or members * sum(network.units) > stored:
        raise ValueError(f"{stored} numbers for {members} members, {d} inputs and {n} outputs")
    one = network.draw(np.random.default_rng(0), d, n)
    wanted = {_MODEL + name: (members, *np.shape(a)[1:]) for name, a in one.arrays().items()}
    wanted |= {name: (size,) for name, size in zip(SCALES, (d, d, n, n), strict=True)}
    points = arrays["history.train"].shape[-1]
    wanted |= {f"history.{name}": (members, points) for name in HISTORY} | {"history.epoch": (points,)}
    wanted |= {"best_epoch": (members,), "undone": (members,)}
    if STORED in arrays:
        wanted[STORED] = (n if task is REGRESSION else 1, arrays[STORED].shape[-1])
    if TRAIN[0] in arrays:
        wanted |= dict(zip(TRAIN, ((d,), (d,), (len(arrays[TRAIN[2]]), d)), strict=True))
    own = {name: a for name, a in arrays.items() if not name.startswith((PREFIX, PROCESS))}
    _require_arrays(own, wanted)
    size = 0 if task is CLASSIFICATION else n
    neighbors = checked_neighbors(arrays, meta["neighbors"], (members, network.units[-1]), size, n)
    model = one.replaced({name: arrays[_MODEL + name] for name in one.arrays()})
    model.check(settings.dtype)
    kinds = {arrays[_MODEL + name].dtype for name in one.arrays()}
    if kinds != {np.dtype(settings.dtype)}:
        raise ValueError(f"its parameters are of type {', '.join(sorted(map(str, kinds)))}")
    if not np.allclose(arrays["model.hidden.s0"], task.s0, rtol=1e-5, atol=0):
        raise ValueError("its gauge σ0² is not that of the task")
    shift_x, scale_x, shift_y, scale_y = (np.asarray(arrays[name], np.float64) for name in SCALES)
    scales = Scales(Standardisation(shift_x, scale_x), Standardisation(shift_y, scale_y))
    for columns in scales:
        if not np.isfinite(columns).all() or not (columns.scale > 0).all():
            raise ValueError("shifts and scales must be finite, and scales positive")
    require_squares(scale_y)
    _require_history(arrays)
    classes = restored_classes(meta) if "classes" in meta else None
    if classes is not None and len(classes) != n:
        raise ValueError(f"{len(classes)} labels for {n} classes")
    if (classes is None) != (task is REGRESSION):
        raise ValueError("a classifier needs labels, and a regressor must have none")
    flat = true_or_false(meta, "vector_target")
    if flat and n != 1 and classes is None:
        raise ValueError(f"the target is a vector, but there are {n} outputs")
    pools = tuple(checked_calibration(kind, numbers) for kind, *numbers in meta["calibration"])
    if len(pools) not in (0, n):
        raise ValueError(f"{len(pools)} calibrations for {n} outputs")
    transform = None if meta["transform"] is None else checked_transform(meta["transform"])
    if transform is not None and any(each.has_heavy_tails for each in pools):
        raise ValueError("a transformed target has no mean if tails are heavier than a Gaussian's")
    calibrated = bool(pools) and all(each.numbers for each in pools)
    if neighbors is not None and classes is None and not calibrated:
        raise ValueError("neighbours need calibrated members")
    given = arrays.get(STORED)
    scores = None if given is None else checked_scores(given, classes=task is not REGRESSION)
    inputs, target = Columns(d, _feature_names(meta["features"], d)), str(meta["target"])
    train = checked_rows(*(arrays[name] for name in TRAIN)) if TRAIN[0] in arrays else None
    support, process = restored_support(meta["support"], n), checked_process(arrays, meta["process"], d)
    if classes is not None and any(part is not None for part in (transform, support, process)):
        raise ValueError("a classifier has neither a transform nor a support nor a Gaussian process")
    return Fitted(
        model, network, inputs, scales, target, flat, classes, pools, transform, scores, neighbors, train,
        support, process,
    )  # fmt: skip


def _require_arrays(arrays: Arrays, wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Raise unless `arrays` have these names and shapes, and the right types."""
    if set(arrays) != set(wanted):
        raise ValueError(f"arrays are missing or unknown: {sorted(set(arrays) ^ set(wanted))[:5]}")
    for name, array in arrays.items():
        if array.shape != wanted[name]:
            raise ValueError(f"array {name!r} has shape {array.shape}; expected {wanted[name]}")
        if array.dtype.kind != ("i" if name in COUNTS else "f"):
            raise ValueError(f"array {name!r} has the wrong type {array.dtype}")


def _require_history(arrays: Arrays) -> None:
    epoch = arrays["history.epoch"]
    if (np.diff(epoch, prepend=0) < 1).any():
        raise ValueError("epochs of the learning curve must be positive and increasing")
    if min(arrays["best_epoch"].min(), arrays["undone"].min()) < 0:
        raise ValueError("the best epoch and the undone steps must not be negative")


def _feature_names(names: Any, n_features: int) -> list[str] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("feature names must be a list of strings")
    if len(names) != n_features:
        raise ValueError(f"{len(names)} feature names for {n_features} features")
    return names


def _restored_importances(meta: Meta) -> np.ndarray | None:
    if (found := meta["importances"]) is None:
        return None
    if not isinstance(found, list) or not all(type(value) in (int, float) for value in found):
        raise ValueError("importances must be a list of numbers")
    values = np.asarray(found, np.float64)
    if not np.isfinite(values).all():
        raise ValueError("importances must be finite")
    return values


def true_or_false(meta: Meta, name: str) -> bool:
    """Return an entry that must be a JSON boolean."""
    if not isinstance(meta[name], bool):
        raise ValueError(f"{name} must be true or false")
    return bool(meta[name])


def table_description(estimator: TableEstimator) -> Preparation | None:
    """Return the encoder of a table in the form of model files; None for a model of arrays."""
    fitted = estimator.fitted_
    if fitted.columns.encoder is None:
        return None
    used = {column.name for column in fitted.columns.encoder.columns_}
    name = f"{fitted.target} (target)" if fitted.target in used else fitted.target
    whole = fitted.classes is not None and fitted.classes.dtype.kind in "iu"
    return fitted.columns.encoder.preparation(Target(name, estimator.task, whole))


def numeric_model(estimator: E) -> E:
    """Return a copy of a model of tables that takes encoded inputs without names."""
    inner, fitted = copy(estimator), estimator.fitted_
    inner.fitted_ = replace(fitted, columns=Columns(len(fitted.scales.x.shift)))
    inner._set_columns(inner.fitted_.columns)
    return inner
