"""Choose whether to model the target or its logarithm.

The choice compares ridge regressions of y and of log y on the inputs by their leave-one-out log-likelihood.
It uses at most 2,000 rows and 200 columns, and one singular value decomposition for both targets.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tggm import settings
from tggm.arrays import Floats
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.gaussian_mixture import GaussianMixture, LognormalMixture, from_log

_MOST_ROWS = 2000
_MOST_COLUMNS = 200
_FEWEST_ROWS = 20
_LEAST_GAIN = 0.1  # nats per row
_ERRORS = 3.0  # standard errors that a gain must exceed
_REACH = 8.0  # robust standard deviations from the median that the farthest target must exceed
_RIDGES = 10.0 ** np.arange(-4, 3)  # penalties per row of standardised columns


@dataclass(frozen=True)
class LogTransform:
    """z = log y, for positive targets."""

    kind: ClassVar[str] = "log"

    def forward(self, y: Floats) -> Floats:
        """Compute log y; −inf for y ≤ 0."""
        with np.errstate(divide="ignore"):
            z: Floats = np.log(np.maximum(y, 0.0))
        return z

    def inverse(self, z: Floats) -> Floats:
        """Compute exp z; finite where z is."""
        return from_log(z)

    def distribution(self, log: ScalarPredictive) -> LognormalMixture:
        """Return the distribution of y from that of z, which must be Gaussian."""
        if not isinstance(log, GaussianMixture):
            raise ValueError("the target has no mean if its logarithm has heavier tails than a Gaussian's")
        return LognormalMixture(log)


def checked_transform(kind: Any) -> LogTransform:
    """Return the transform that a model file names."""
    settings.one_of("transform", kind, (LogTransform.kind,))
    return LogTransform()


def leave_one_out(X: Floats, Y: Floats, weight: Floats) -> Floats:
    """Compute the log-density of each target given the other rows, (n, targets), by ridge regressions on X.

    Each target has the penalty that is best for all rows. The residual of the row left out is
    e_i / (1 − H_ii), e being that of all rows and H the hat matrix; the variance is the weighted mean square
    of the other rows' residuals.
    """
    w = weight / weight.mean()
    root, rest = np.sqrt(w)[:, None], (w.sum() - w)[:, None]
    X, Y = (a - w @ a / w.sum() for a in (X, Y))
    spread = np.sqrt(w @ X**2 / w.sum())
    U, s, _ = np.linalg.svd(root * X[:, spread > 0] / spread[spread > 0], full_matrices=False)
    found = []
    for penalty in _RIDGES:
        shrink = s**2 / (s**2 + len(w) * penalty)
        leverage = U**2 @ shrink + w / w.sum()
        fit = U @ (shrink[:, None] * (U.T @ (root * Y)))
        error = (Y - fit / root) / np.maximum(1 - leverage, 1e-6)[:, None]
        squares = w[:, None] * error**2
        var = np.maximum((squares.sum(0) - squares) / rest, np.finfo(float).tiny)
        found.append(-0.5 * (np.log(2 * np.pi * var) + error**2 / var))
    log = np.stack(found)
    best = np.argmax(np.einsum("n,rnt->rt", w, log), axis=0)
    return np.stack([log[r, :, t] for t, r in enumerate(best)], axis=1)


def choose_transform(X: Floats, y: Floats, weight: Floats | None = None) -> LogTransform | None:
    """Return the logarithm if it fits a linear model clearly better, otherwise None.

    Both log-likelihoods are those of y. The logarithm must gain 0.1 nats per row and three standard errors.
    It is not tried if a target is not positive, if no target is more than eight robust standard deviations
    from the median, if targets have few distinct values, or if a tenth of the rows has the same target. Rows
    without a weight are ignored.
    """
    w = np.ones(len(y)) if weight is None else weight
    all_rows = np.flatnonzero(w > 0)
    rows = all_rows[np.linspace(0, len(all_rows) - 1, min(len(all_rows), _MOST_ROWS)).astype(int)]
    target, w = y[rows], w[rows]
    if len(rows) < _FEWEST_ROWS or y[all_rows].min() <= 0 or _repeats(target) or not _has_outliers(target):
        return None
    log = np.log(target)
    densities = leave_one_out(_most_correlated(X[rows], target), np.stack([target, log], 1), w)
    gain = densities[:, 1] - log - densities[:, 0]
    mean = float(np.average(gain, weights=w))
    error = np.sqrt((w**2 * (gain - mean) ** 2).sum()) / w.sum()
    return LogTransform() if mean > max(_LEAST_GAIN, _ERRORS * error) else None


def _has_outliers(y: Floats) -> bool:
    """Return whether some targets are very far from the median; the network itself fits milder skewness."""
    low, middle, high = np.quantile(y, [0.25, 0.5, 0.75])
    return bool(np.abs(y - middle).max() > _REACH * (high - low) / 1.349)


def _repeats(y: Floats) -> bool:
    """Return whether there are few distinct values, or one that is frequent."""
    _, counts = np.unique(y, return_counts=True)
    few = len(counts) < max(_FEWEST_ROWS, 0.05 * len(y))
    return bool(few or counts.max() > 0.1 * len(y))


def _most_correlated(X: Floats, y: Floats) -> Floats:
    """Select the columns with the largest correlations with the ranks of the target."""
    if X.shape[1] <= _MOST_COLUMNS:
        return X
    rank = np.argsort(np.argsort(y)) - 0.5 * (len(y) - 1)
    centred = X - X.mean(0)
    spread = np.sqrt((centred**2).sum(0))
    correlation = np.abs(rank @ centred) / np.where(spread > 0, spread, np.inf)
    return X[:, np.sort(np.argsort(-correlation)[:_MOST_COLUMNS])]
