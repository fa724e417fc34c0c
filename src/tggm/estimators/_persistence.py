"""Convert a fitted estimator to arrays and JSON values, and back; `tggm.state` checks them."""

from copy import copy
from dataclasses import asdict, replace
from functools import cache
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tggm.estimators._base import TableEstimator
from tggm.estimators._fitted import Fitted
from tggm.estimators._settings import CLASSIFICATION, REGRESSION, Settings
from tggm.models import Network
from tggm.predictive.conformal import STORED
from tggm.settings import layers, plain
from tggm.state import HISTORY, MODEL, SCALES, TRAIN, Arrays, Meta, checked_state, require_parameters
from tggm.tables import Preparation, TableTransformer, Target
from tggm.tables.schema import stored_classes
from tggm.tables.transformer import CHOICES, Columns

E = TypeVar("E", bound=TableEstimator)
MOST_POINTS = 1000  # of a learning curve in a file


def to_state(estimator: TableEstimator) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and JSON values of a model file; the encoder of a table is stored separately."""
    if (name := type(estimator).__qualname__) not in ("TGGMClassifier", "TGGMRegressor"):
        raise TypeError(f"`model` must be a TGGMRegressor or TGGMClassifier; got {name}.")
    check_is_fitted(estimator, "fitted_")
    fitted = estimator.fitted_
    require_parameters(fitted.model.arrays(), fitted.dtype)
    names = None if fitted.columns.encoder is not None else fitted.columns.names
    meta = {
        "settings": _stored_settings(estimator), "network": fitted.network.described(),
        "features": None if names is None else [str(name) for name in names], "target": fitted.target,
        "vector_target": bool(fitted.flat),
        "calibration": [[each.kind, *each.numbers] for each in fitted.calibration],
        "transform": None if fitted.transform is None else fitted.transform.shift,
        "neighbors": None if fitted.neighbors is None else asdict(fitted.neighbors.rule),
        "process": None if fitted.process is None else [fitted.process.share, fitted.process.constant],
        "supports": [None if each is None else list(each) for each in fitted.supports],
        "converged": bool(estimator.converged_),
    }  # fmt: skip
    if fitted.classes is not None:
        meta |= stored_classes(fitted.classes)
    return _arrays_of(estimator), meta


def from_state(cls: type[E], arrays: Arrays, meta: Meta, table: Preparation | None = None) -> E:
    """Restore an estimator; raise ValueError, KeyError or TypeError if the state is invalid.

    `table` describes the columns of a model of tables.
    """
    estimator: E = cls(**_restored_settings(meta))
    task = CLASSIFICATION if estimator.task == "classification" else REGRESSION
    Settings.checked(estimator.get_params(deep=False), task)
    network = Network.from_description(meta["network"])

    @cache
    def draw(d: int, n: int) -> Any:
        return network.draw(np.random.default_rng(0), d, n)

    found = checked_state(
        arrays, meta, task.name,
        lambda *sizes: {name: np.shape(a)[1:] for name, a in draw(*sizes).arrays().items()},
    )  # fmt: skip
    d, n = (len(columns.shift) for columns in found.scales)
    columns, target = Columns(d, found.names), str(meta["target"])
    if table is not None:
        columns, target = Columns.of(TableTransformer.of(table)), table.target.name
    model = draw(d, n).replaced(found.parameters)
    fitted = Fitted(model, network, columns, found.scales, target, *found[3:])
    history = {name: arrays[f"history.{name}"] for name in (*HISTORY, "epoch")}
    estimator.history_ = history
    estimator.best_epoch_, estimator.undone_ = arrays["best_epoch"], arrays["undone"]
    estimator.n_iter_ = int(history["epoch"][-1]) if len(history["epoch"]) else 0
    estimator.converged_, estimator.interrupted_ = meta["converged"], False
    with np.errstate(all="ignore"):  # a file may hold any numbers
        estimator._set_fitted(fitted)
    shown = {name: a for name, a in vars(estimator).items() if name in ("W0_", "b0_", "W1_", "b1_", "noise_")}
    if not all(np.isfinite(a).all() for a in shown.values()):
        raise ValueError("parameters and noise must be finite in the units of the data")
    return estimator


def _arrays_of(estimator: TableEstimator) -> dict[str, np.ndarray]:
    fitted = estimator.fitted_
    arrays = {MODEL + name: np.asarray(a) for name, a in fitted.model.arrays().items()}
    arrays |= dict(zip(SCALES, (*fitted.scales.x, *fitted.scales.y), strict=True))
    if fitted.guarantee is not None:
        arrays[STORED] = fitted.guarantee
    if fitted.neighbors is not None:
        arrays |= fitted.neighbors.arrays()
    if fitted.process is not None:
        arrays |= fitted.process.arrays(fitted.dtype)
    if fitted.train is not None:
        stored = fitted.train._replace(rows=fitted.train.rows.astype(np.float32))
        arrays |= dict(zip(TRAIN, stored, strict=True))
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
    for name in ("hidden", "support", *CHOICES):
        if isinstance(settings.get(name), list):
            settings[name] = tuple(settings[name])
    if settings["network"] is not None:
        settings["network"] = Network.from_description(settings["network"])
    if isinstance(settings.get("class_weight"), list):
        settings["class_weight"] = {key: float(value) for key, value in settings["class_weight"]}
    return settings


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
