r"""Intervals that hold whatever the data are: split conformal prediction, with widths that follow x.

Rows that were set aside before anything was learned have scores

.. math::
    r_i = |z_i - m(x_i)| / s(x_i), \qquad s^2 = v + D / 2,

m, v and D being the mean, the mean variance and the scatter of the members' means (`pools`), z the target on
the scale of the model. If they and a new row are exchangeable, the rank of the new score among all M + 1 is
uniform, so that with q the ⌈(M + 1) · level⌉-th smallest of the M scores

.. math::
    level \le P(|z - m(x)| \le q\, s(x)), \qquad \text{and at most } level + 1 / (M + 1) \text{ without ties}.

No model need be right for that. Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World; Lei,
G'Sell, Rinaldo, Tibshirani & Wasserman (2018), J. Am. Statist. Ass. 113.
"""

import math
from typing import Any

import numpy as np

from tggm.arrays import Floats
from tggm.predictive.base import require_level
from tggm.predictive.pools import SCATTER

MOST_ROWS = 10_000  # that are set aside: coverage is then within 0.01 of the level in all but 1 of 1,000 fits
SHARE = 0.1  # of the rows that are set aside, where that is enough for the level
_ROUNDING = 1e-9


def fewest_rows(level: float) -> int:
    """Rows without which no interval of this level is finite: the M with ⌈(M + 1) · level⌉ ≤ M."""
    return math.ceil(level / (1 - level) - _ROUNDING)


def scores_of(mean: Floats, var: Floats, z: Floats) -> Floats:
    """Scores of targets z, (N,), under the moments of members, (K, N) each; NaN where a target is missing."""
    centre, width = centre_and_width(mean, var)
    return np.abs(z - centre) / width


def centre_and_width(mean: Floats, var: Floats) -> tuple[Floats, Floats]:
    """Centre m and width s of each row, from the members' means and variances, (K, N) each."""
    between = mean.var(0, ddof=1) if len(mean) > 1 else np.zeros(mean.shape[1])
    return mean.mean(0), np.sqrt(var.mean(0) + SCATTER * between)


def sorted_scores(scores: Floats) -> Floats:
    """Scores of each output, (n, M), from small to large, those of missing targets, NaN, behind them."""
    rows = scores[:, :MOST_ROWS] if scores.shape[1] > MOST_ROWS else scores
    return np.sort(rows, axis=1)


def checked_scores(scores: Any) -> Floats:
    """What a file holds, or an error."""
    found = np.asarray(scores, np.float64)
    known = [row[~np.isnan(row)] for row in found]
    if any((row < 0).any() or (row[1:] < row[:-1]).any() for row in known):
        raise ValueError("scores of rows that were set aside must rise from 0 on")
    if any(np.isnan(found[j, : len(row)]).any() for j, row in enumerate(known)):
        raise ValueError("scores that are missing must stand behind the others")
    return found


def quantile(scores: Floats, level: float) -> float:
    """The q of one output.

    Parameters
    ----------
    scores : array, shape (M,)
        Sorted; NaN, behind the others, do not count.
    level : float
        Probability that the interval holds a new target with, at least.
    """
    require_level(level)
    count = int((~np.isnan(scores)).sum())
    rank = math.ceil((count + 1) * level - _ROUNDING)
    if rank > count:
        raise ValueError(
            f"`level` must be at most {count / (count + 1):.4g} to be guaranteed by the {count} rows that "
            f"were set aside; got {level:g}. Fit with guarantee={level:g}, or `recalibrate` with "
            f"{fewest_rows(level)} new rows or more."
        )
    return float(scores[rank - 1])
