"""What members said of training rows that they had not seen, and what the pool of all would have said.

Row i was held out by k of the K members. New rows get the mean of all K, whose error is smaller: if members
scatter with variance D around their common expectation, whose squared error is τ², then

    E (y − mean of k)² = τ² + D/k,        E (y − mean of K)² = τ² + D/K.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import digamma

from tggm.arrays import Bools, Floats, Ints
from tggm.predictive.moment import MomentPredictive

_LOG_RANGE = 14.0  # of the factor between members' variances and squared errors
_TAILS = 5.0  # degrees of freedom by which large errors count less


class PooledRows(NamedTuple):
    """Rows as if all members had held them out."""

    members: MomentPredictive
    y: Floats  # (N,)
    weight: Floats  # (N,) sum: the number of rows that equal weights would be worth

    @property
    def n_effective(self) -> float:
        """How many rows of equal weight say as much, (Σw)² / Σw²."""
        return float(self.weight.sum())


class HeldOut(NamedTuple):
    """Moments of one output at the training rows, in standardised units."""

    mean: Floats  # (K, N)
    var: Floats  # (K, N)
    there: Bools  # (K, N) member k held row i out
    y: Floats  # (N,)
    weight: Floats  # (N,)

    def usable(self, most: int) -> "HeldOut":
        """Rows with a weight that a member held out, `most` of them at most, evenly spaced."""
        good = self.there.any(0) & (self.weight > 0) & np.isfinite(self.weight) & np.isfinite(self.y)
        good &= (np.isfinite(self.mean) & np.isfinite(self.var) & (self.var > 0)).all(0)
        rows = np.flatnonzero(good)
        if len(rows) > most:
            rows = rows[np.linspace(0, len(rows) - 1, most).astype(int)]
        return HeldOut(
            self.mean[:, rows], self.var[:, rows], self.there[:, rows], self.y[rows], self.weight[rows]
        )

    def pooled(self) -> PooledRows:
        """What all members would have said of usable rows, had none seen them.

        The mean of means and the mean log variance of a row are those of the members that held it out: those
        that saw the row know its target. How members scatter around them is taken from both groups, each
        around its own mean, with what they show of D weighted by its degrees of freedom; those that saw the
        row scatter less, by a factor that is found from all rows. Errors are made smaller by what averaging K
        members instead of k takes off, √((τ² + D/K) / (τ² + D/k)).
        """
        K, there = len(self.mean), self.there
        k = there.sum(0)
        centre = _mean_where(there, self.mean)
        offset, between = self._scatter()
        log_var = np.log(self.var)
        seen_shift = _mean_where(there, log_var) - _mean_where(~there, log_var)
        var = np.exp(log_var + np.where(there, 0.0, seen_shift))
        error = self.y - centre
        w = self.weight / self.weight.sum()
        tau2 = _squared_error(error, _mean_where(there, self.var), between / k, w)
        error *= np.sqrt((tau2 + between / K) / (tau2 + between / k))
        weight = w * (1.0 / (w**2).sum())
        return PooledRows(MomentPredictive(centre + offset, var), centre + error, weight)

    def _scatter(self) -> tuple[Floats, Floats]:
        """Members around the mean of all, (K, N), and D, (N,)."""
        K, there = len(self.mean), self.there
        k = there.sum(0)
        offset = self.mean - np.where(there, _mean_where(there, self.mean), _mean_where(~there, self.mean))
        sums = ((offset**2 * there).sum(0), (offset**2 * ~there).sum(0))
        freedom = np.maximum(k - 1, 0), np.maximum(K - k - 1, 0)
        ratio = _ratio(sums, freedom, self.weight)
        total = np.maximum(freedom[0] + freedom[1], 1)
        between: Floats = (sums[0] + ratio * sums[1]) / total
        offset = offset * np.where(there, 1.0, np.sqrt(ratio))
        spread = (offset**2).sum(0) / max(K - 1, 1)
        return offset * np.sqrt(between / np.where(spread > 0, spread, 1.0)), between


def _mean_where(where: Bools, values: Floats) -> Floats:
    """Mean over members of what is chosen; 0 where nothing is."""
    mean: Floats = np.where(where, values, 0.0).sum(0) / np.maximum(where.sum(0), 1)
    return mean


def _ratio(sums: tuple[Floats, Floats], freedom: tuple[Ints, Ints], weight: Floats) -> float:
    """D of members that held rows out over D of those that saw them, as typical rows have it.

    A mean of logarithms, each corrected by that of χ²/f, ψ(f/2) − log(f/2): a ratio of means would be that of
    the few rows on which members differ most. Ten more rows would have a ratio of 1.
    """
    shown = (freedom[0] > 0) & (freedom[1] > 0) & (sums[0] > 0) & (sums[1] > 0)
    if not shown.any():
        return 1.0
    held, seen = (
        np.log(s[shown]) - digamma(f[shown] / 2) for s, f in zip(sums, freedom, strict=True)
    )  # log(s/f) − (ψ(f/2) − log(f/2)), less log 2
    w = weight[shown] / weight[shown].mean()
    return float(np.exp(w @ (held - seen) / (w.sum() + 10)))


def _squared_error(error: Floats, var: Floats, scatter: Floats, w: Floats) -> Floats:
    """τ² = factor · var such that errors of variance τ² + scatter are likely; large ones count less."""

    def loss(log_factor: float) -> float:
        total = np.exp(log_factor) * var + scatter
        each = 0.5 * np.log(total) + 0.5 * (_TAILS + 1) * np.log1p(error**2 / (total * _TAILS))
        return float(w @ each)

    found = minimize_scalar(loss, bounds=(-_LOG_RANGE, _LOG_RANGE), method="bounded")
    tau2: Floats = np.exp(found.x) * var
    return tau2
