r"""Intervals with guaranteed coverage: split conformal prediction, with widths that depend on x.

Calibration rows are used in no fit and have the scores

.. math::
    r_i = |z_i - m(x_i)| / s(x_i), \qquad s^2 = v + D / 2,

where m, v and D are the mean, the mean variance and the scatter of the members' means (`calibration`), and z
is the standardised target. If these rows and a new one are exchangeable, the rank of the new score among all
M + 1 is uniform. With q the ⌈(M + 1) · level⌉-th smallest of the M scores,

.. math::
    level \le P(|z - m(x)| \le q\, s(x)), \qquad \text{and at most } level + 1 / (M + 1) \text{ without ties}.

This holds for every model. Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World; Lei,
G'Sell, Rinaldo, Tibshirani & Wasserman (2018), J. Am. Statist. Ass. 113.

For classes the score is that of adaptive prediction sets without randomisation (Romano, Sesia & Candès,
2020, NeurIPS 33): the total probability of the classes that are more probable than the observed one. The set
has all classes with a score of at most q. It contains the most probable class, whose score is 0; a randomised
set could be empty, and would change from call to call.
"""

import math
from typing import Any

import numpy as np

from tggm.arrays import Bools, Floats
from tggm.predictive.base import require_level
from tggm.predictive.calibration import DISAGREEMENT

MOST_ROWS = 10_000  # calibration rows: coverage is then within 0.01 of the level in 999 of 1,000 fits
SHARE = 0.1  # of all rows, if that is enough for the level
STORED = "guarantee.scores"  # array of a model file
SAME = 1e-6  # probabilities of a row differ by less between blocks of rows and backends
_ROUNDING = 1e-9


def fewest_rows(level: float) -> int:
    """Return the smallest M with ⌈(M + 1) · level⌉ ≤ M; with fewer rows intervals are infinite."""
    return math.ceil(level / (1 - level) - _ROUNDING)


def scores_of(mean: Floats, var: Floats, z: Floats) -> Floats:
    """Compute scores of targets z, (N,), from the members' moments, (K, N) each; NaN for missing targets."""
    centre, width = centre_and_width(mean, var)
    return np.abs(z - centre) / width


def centre_and_width(mean: Floats, var: Floats) -> tuple[Floats, Floats]:
    """Compute centre m and width s of each row from the members' means and variances, (K, N) each."""
    between = mean.var(0, ddof=1) if len(mean) > 1 else np.zeros(mean.shape[1])
    return mean.mean(0), np.sqrt(var.mean(0) + DISAGREEMENT * between)


def class_scores(probability: Floats) -> Floats:
    """Compute the total probability of the classes that are more probable than each, shape (rows, n)."""
    order = np.argsort(-probability, axis=1, kind="stable")
    ranked = np.take_along_axis(probability, order, axis=1)
    above = np.cumsum(ranked, axis=1) - ranked
    place = np.arange(ranked.shape[1])
    # classes of equal probability have the score of the first of them
    first = np.maximum.accumulate(np.where(np.diff(ranked, axis=1, prepend=2.0) < 0, place, 0), axis=1)
    scores = np.empty_like(above)
    np.put_along_axis(scores, order, np.take_along_axis(above, first, axis=1), axis=1)
    return scores


def class_set(probability: Floats, scores: Floats, level: float) -> Bools:
    """Return which classes are in the set of each row, (rows, n), for sorted scores of calibration rows."""
    return class_scores(probability) <= quantile(scores, level) + SAME


def sorted_scores(scores: Floats) -> Floats:
    """Sort the scores of each output, (n, M), in ascending order; NaN last."""
    return np.sort(scores[:, :MOST_ROWS], axis=1)


def checked_scores(scores: Any, *, classes: bool = False) -> Floats:
    """Check scores read from a file: ascending and not negative, NaN last; of classes, at most 1."""
    found = np.asarray(scores, np.float64)
    if (found < 0).any() or not np.array_equal(found, np.sort(found, axis=1), equal_nan=True):
        raise ValueError("scores of calibration rows must be ascending, not negative, and missing ones last")
    if classes and (len(found) != 1 or not (found <= 1 + SAME).all()):
        raise ValueError("scores of classes must be one list of numbers from 0 to 1")
    return found


def quantile(scores: Floats, level: float) -> float:
    """Return q of one output for sorted scores, (M,); NaN at the end are ignored."""
    require_level(level)
    count = int((~np.isnan(scores)).sum())
    rank = math.ceil((count + 1) * level - _ROUNDING)
    if rank > count:
        raise ValueError(
            f"`level` must be at most {count / (count + 1):.4g} for {count} calibration rows; got {level:g}. "
            f"{fewest_rows(level)} are needed: fit with guarantee={level:g}."
        )
    return float(scores[rank - 1])
