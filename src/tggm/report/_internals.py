"""Access to parts of fitted estimators that are not public methods; nothing else in the report uses them."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from tggm.arrays import Floats
from tggm.estimators import numeric_model, table_description

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def standardise(model: "BaseEstimator", X: Any) -> Floats | None:
    """Return inputs in standard deviations from their training means; None if the model has no means."""
    x = model.fitted_.scales.x
    if sparse.issparse(X) or not x.shift.any():
        return None
    found: Floats = x.apply(np.asarray(X, np.float64))
    return found


def column_groups(model: "BaseEstimator") -> tuple[Any, Any] | None:
    """Return categories and other groups of encoded columns; None if the model was not fitted to a table."""
    prepared = None if model.table_ is None else table_description(model)
    return None if prepared is None else (prepared.groups, prepared.parts)


def encode(model: "BaseEstimator", X: Any) -> tuple[Any, Any]:
    """Return the model of encoded inputs, and the encoded rows."""
    return (model, X) if model.table_ is None else (numeric_model(model), model.table_.transform(X))


def noise_deviation(model: "BaseEstimator", output: int) -> float:
    """Return the median over members of the standard deviation of the output noise."""
    return float(np.sqrt(np.median(np.asarray(model.noise_)[:, output])))


def learning_curves(model: "BaseEstimator") -> tuple[dict[str, Floats], Floats, Any]:
    """Return curves (members, points) by name, their epochs, and the epochs whose parameters were kept."""
    history = dict(vars(model).get("history_", {}))
    epochs = history.pop("epoch", None)
    tables = {k: np.atleast_2d(np.asarray(v, np.float64)) for k, v in history.items() if np.size(v)}
    curves = {name: curve for name, curve in tables.items() if np.isfinite(curve).any()}
    points = next(iter(curves.values())).shape[1] if curves else 0
    numbers = np.arange(1, points + 1) if epochs is None else epochs
    return curves, np.asarray(numbers, np.float64), vars(model).get("best_epoch_")
