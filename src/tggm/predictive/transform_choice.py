"""Which transform of the target to model: that under which a linear model best predicts rows it has not seen.

Cheap on purpose: 2,000 rows and 200 columns at most, one singular value decomposition for all transforms.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from tggm.arrays import Floats
from tggm.predictive.transforms import IdentityTransform, LogTransform, Transform, YeoJohnsonTransform

_MOST_ROWS = 2000
_MOST_COLUMNS = 200
_FEWEST_ROWS = 20
_LEAST_GAIN = 0.1  # nats a row
_ERRORS = 3.0  # standard errors that a gain must exceed
_TIE = 0.02  # nats a row by which a power must be better than the logarithm
_REACH = 8.0  # deviations, as quartiles tell them, beyond which a target must reach to be transformed
_RIDGES = 10.0 ** np.arange(-4, 3)  # per row, columns being standardised


class LeaveOneOut(NamedTuple):
    """Ridge regressions on some rows, each of which leaves out the row that it predicts."""

    U: Floats  # (n, p) left singular vectors of √w times the centred columns
    leverage: Floats  # (ridges, n) diagonal of the hat matrix, the intercept's included
    shrink: Floats  # (ridges, p) what a ridge leaves of each direction
    weight: Floats  # (n,) of mean 1

    def log_densities(self, z: Floats) -> Floats:
        """Log-density of each z given all others, (n,), for the ridge that is best for all.

        The residual of the row left out is e_i / (1 − H_ii), e being that of all rows and H the hat matrix;
        the variance is the weighted mean square of the other rows' residuals.
        """
        w = self.weight
        root = np.sqrt(w)
        centred = root * (z - w @ z / w.sum())
        inner = centred @ self.U
        fit = (self.shrink * inner) @ self.U.T  # (ridges, n)
        error = (centred - fit) / root / np.maximum(1 - self.leverage, 1e-6)
        squares = w * error**2
        var = (squares.sum(1, keepdims=True) - squares) / (w.sum() - w)
        var = np.maximum(var, np.finfo(float).tiny)
        log = -0.5 * (np.log(2 * np.pi * var) + error**2 / var)
        best: Floats = log[np.argmax(log @ w)]
        return best


def leave_one_out(X: Floats, weight: Floats) -> LeaveOneOut:
    """Regressions on columns X."""
    w = weight / weight.mean()
    centred = X - (w @ X / w.sum())[None, :]
    spread = np.sqrt(w @ centred**2 / w.sum())
    A = np.sqrt(w)[:, None] * centred[:, spread > 0] / spread[spread > 0]
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    shrink = s**2 / (s**2 + len(w) * _RIDGES[:, None])
    return LeaveOneOut(U, shrink @ (U**2).T + w / w.sum(), shrink, w)


def chosen_transform(X: Floats, y: Floats, weight: Floats | None = None) -> Transform:
    """Identity, logarithm or Yeo-Johnson, by leave-one-out log-density of y in a ridge regression on X.

    Densities are those of y: the transforms' derivatives are in them. The identity is left where another
    gains 0.1 nats a row and three standard errors; λ maximises the same score, and must beat the logarithm
    by 0.02. Targets that reach no farther than eight deviations from their median, few values,
    and targets of which one is that of every tenth row, stay as they are; the logarithm is
    asked only where all targets are positive.

    Parameters
    ----------
    X : array, shape (N, p)
        Inputs.
    y : array, shape (N,)
        Targets in their own units.
    weight : array, shape (N,), optional
        Rows without a weight are ignored.
    """
    w = np.ones(len(y)) if weight is None else weight
    all_rows = np.flatnonzero(w > 0)
    rows = all_rows[np.linspace(0, len(all_rows) - 1, min(len(all_rows), _MOST_ROWS)).astype(int)]
    if len(rows) < _FEWEST_ROWS or _repeats(y[rows]) or not _far(y[rows]):
        return IdentityTransform()
    target, w = y[rows], w[rows]
    regression = leave_one_out(_columns(X[rows], target), w)

    def scores(transform: Transform) -> Floats:
        return regression.log_densities(transform.forward(target)) + transform.log_derivative(target)

    raw = scores(IdentityTransform())
    best: tuple[float, Transform] = 0.0, IdentityTransform()
    power = _best_power(lambda transform: float(w @ scores(transform)), target)
    candidates = [(power, _TIE)] + [(LogTransform(), 0.0)] * bool(y[all_rows].min() > 0)
    for transform, handicap in candidates:
        gain = scores(transform) - raw
        mean = float(np.average(gain, weights=w))
        error = np.sqrt((w**2 * (gain - mean) ** 2).sum()) / w.sum()
        if mean > max(_LEAST_GAIN, _ERRORS * error) and mean - handicap > best[0]:
            best = mean - handicap, transform
    return best[1]


def _best_power(score: Callable[[Transform], float], y: Floats) -> Transform:
    """Yeo-Johnson of the target around its median in units of its quartiles, with the λ that scores best."""
    low, middle, high = np.quantile(y, [0.25, 0.5, 0.75])
    scale = (high - low) / 1.349 if high > low else y.std()
    found = minimize_scalar(
        lambda power: -score(YeoJohnsonTransform(power, middle, scale)),
        bounds=(0.0, 2.0),
        method="bounded",
        options={"xatol": 1e-2},
    )
    return YeoJohnsonTransform(float(found.x), float(middle), float(scale))


def _far(y: Floats) -> bool:
    """Whether some targets are very far from most: a model that is not linear bends for all others itself."""
    low, middle, high = np.quantile(y, [0.25, 0.5, 0.75])
    return bool(np.abs(y - middle).max() > _REACH * (high - low) / 1.349)


def _repeats(y: Floats) -> bool:
    """Whether there are few values, or one that is frequent."""
    _, counts = np.unique(y, return_counts=True)
    few = len(counts) < max(_FEWEST_ROWS, 0.05 * len(y))
    return bool(few or counts.max() > 0.1 * len(y))


def _columns(X: Floats, y: Floats) -> Floats:
    """The columns that go with the target's ranks most."""
    if X.shape[1] <= _MOST_COLUMNS:
        return X
    rank = np.argsort(np.argsort(y)) - 0.5 * (len(y) - 1)
    centred = X - X.mean(0)
    spread = np.sqrt((centred**2).sum(0))
    alike = np.abs(rank @ centred) / np.where(spread > 0, spread, np.inf)
    return X[:, np.sort(np.argsort(-alike)[:_MOST_COLUMNS])]
