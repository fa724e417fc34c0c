"""Whether rows are like those that a model was trained on, as far as it can be told from the model itself.

A model knows mean and deviation of each of its inputs. In N rows like those of training the mean of a column
in these units is normal with deviation 1/√N; far more than that, and more than half a deviation, is a drift.
So are rows that are ten deviations away, and observations that are much less likely than after the fit.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from tggm.arrays import Floats

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

SHIFT = 0.5  # deviations of a column's mean that matter
ERRORS = 5.0  # standard errors of it that are no chance
FAR = 10.0  # deviations beyond which training ignores a value
SHARE = 0.01  # of rows with such a value that matter
LOSS = 0.5  # nats a row that observations may be less likely than they were
_MENTIONED = 3  # columns
REMEDY = "`recalibrate` corrects widths if means are still right; otherwise fit again with rows like these"


def standardised(model: "BaseEstimator", X: Any) -> Floats | None:
    """Inputs in deviations from the mean of training; None where the model does not know them."""
    x = model.fitted_.scales.x
    if sparse.issparse(X) or not x.shift.any():
        return None
    found: Floats = x.apply(np.asarray(X, np.float64))
    return found


def drift_warnings(model: "BaseEstimator", X: Any, names: Sequence[str]) -> list[str]:
    """Sentences on what is unlike training in these rows; none if nothing is."""
    Z = standardised(model, X)
    if Z is None or not len(Z):
        return []
    found = []
    mean = np.clip(Z, -FAR, FAR).mean(0)
    moved = np.flatnonzero(np.abs(mean) > max(SHIFT, ERRORS / np.sqrt(len(Z))))
    weighted = model.get_params(deep=False).get("class_weight") is not None  # means of other rows then
    if len(moved) and not weighted:
        first = moved[np.argsort(-np.abs(mean[moved]))][:_MENTIONED]
        shown = ", ".join(f"{names[j]} by {mean[j]:+.1f}" for j in first) + ", ..." * (
            len(moved) > len(first)
        )
        found.append(
            f"{len(moved)} of {len(mean)} inputs have other means than in training, in deviations: {shown}"
        )
    far = (np.abs(Z) > FAR).any(1)
    if far.mean() > SHARE:
        found.append(f"{int(far.sum())} of {len(Z)} rows have a value ten deviations from the usual ones")
    return found


def score_warnings(fresh: float, known: float | None, rows: int) -> list[str]:
    """The same of the mean log-density or log-probability of observations, beside that after the fit."""
    if known is None or fresh > known - LOSS or rows < 20:
        return []
    return [
        f"observations are less likely than those held out when the model was fitted: {fresh:.2f} against "
        f"{known:.2f} nats a row"
    ]
