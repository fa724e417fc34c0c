"""Scores of predictive distributions, scorers for scikit-learn, and thresholds for stated costs.

A scorer takes (estimator, X, y) and returns a number that is better if it is larger: pass it as `scoring` to
`cross_val_score` or `GridSearchCV`, or `SCORERS` for all of them. The estimator may be a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tggm import settings as check
from tggm.arrays import Floats
from tggm.predictive.base import require_level

__all__ = [
    "SCORERS", "cost_threshold", "crps", "interval_score", "log_likelihood_scorer", "neg_crps_scorer",
    "neg_interval_score_scorer",
]  # fmt: skip


def crps(y: ArrayLike, dist: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean continuous ranked probability score, E|Y − y| − ½ E|Y − Y'|; lower is better.

    `dist` is what `predict_dist` returns; of several outputs the mean is returned.
    """
    y = np.asarray(y, np.float64)
    if hasattr(dist, "marginal"):
        each = [crps(y[:, j], dist.marginal(j), sample_weight) for j in range(dist.n_outputs)]
        return float(np.mean(each))
    return _mean(dist.crps(y.reshape(len(dist))), sample_weight)


def interval_score(
    y: ArrayLike, lower: ArrayLike, upper: ArrayLike, level: float = 0.9,
    sample_weight: ArrayLike | None = None,
) -> float:  # fmt: skip
    r"""Return the mean interval score of central intervals; lower is better.

    Gneiting and Raftery (2007), Eq. 43:

    .. math::
        u - l + \frac{2}{\alpha} (l - y)^+ + \frac{2}{\alpha} (y - u)^+, \qquad \alpha = 1 - \text{level}.
    """
    require_level(level)
    y, low, high = (np.asarray(a, np.float64) for a in (y, lower, upper))
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return _mean(high - low + 2 / (1 - level) * outside, sample_weight)


def log_likelihood_scorer(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Return the mean log-density of the targets, or the mean log-probability of the labels."""
    model, rows = _last(estimator, X)
    is_class = hasattr(model, "label_log_proba")
    return _mean(model.label_log_proba(rows, y) if is_class else model.predict_dist(rows).logpdf(y))


def neg_crps_scorer(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Return minus the mean CRPS of a regression."""
    model, rows = _last(estimator, X)
    return -crps(y, model.predict_dist(rows))


def neg_interval_score_scorer(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Return minus the mean interval score of the central 90 % intervals of a regression."""
    model, rows = _last(estimator, X)
    return -interval_score(y, *model.predict_interval(rows, 0.9))


SCORERS: dict[str, Callable[[Any, Any, ArrayLike], float]] = {
    "log_likelihood": log_likelihood_scorer,
    "neg_crps": neg_crps_scorer,
    "neg_interval_score": neg_interval_score_scorer,
}


def cost_threshold(
    positive: ArrayLike, probability: ArrayLike, *, false_alarm: float, miss: float
) -> tuple[float, float]:
    """Return the threshold of a probability with the lowest cost on these rows, and that cost per row.

    Parameters
    ----------
    positive : array_like of bool, shape (rows,)
        Whether each row belongs to the positive class; of rows that the model was not fitted to.
    probability : array_like, shape (rows,)
        Predicted probability of the positive class. Rows at the threshold or above are alarms.
    false_alarm, miss : float
        Costs of an alarm for a negative row, and of no alarm for a positive one.
    """
    check.number("false_alarm", false_alarm, above=0)
    check.number("miss", miss, above=0)
    truth, p = np.asarray(positive, bool), np.asarray(probability, np.float64)
    if truth.shape != p.shape or p.ndim != 1 or not len(p):
        raise ValueError(
            f"`positive` and `probability` must have one value per row; got shapes {truth.shape}, {p.shape}."
        )
    levels, place = np.unique(p, return_inverse=True)
    negatives, positives = (np.bincount(place, rows, len(levels)) for rows in (~truth, truth))
    # costs of thresholds at each level, and of one above all
    alarms = np.append(negatives[::-1].cumsum()[::-1], 0.0)
    misses = np.append(0.0, positives.cumsum())
    cost: Floats = (false_alarm * alarms + miss * misses) / len(p)
    ends = np.concatenate([[0.0], levels, [1.0]])
    middle = 0.5 * (ends[:-1] + ends[1:])
    best = np.flatnonzero(cost == cost.min())
    wanted = false_alarm / (false_alarm + miss)  # the best one of calibrated probabilities
    k = best[np.abs(middle[best] - wanted).argmin()]
    return float(wanted if ends[k] < wanted <= ends[k + 1] else middle[k]), float(cost[k])


def _last(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the last step of a pipeline and its rows."""
    if hasattr(estimator, "steps"):
        return estimator[-1], estimator[:-1].transform(X)
    return estimator, X


def _mean(values: Any, weight: Any = None) -> float:
    return float(np.average(values, weights=weight))
