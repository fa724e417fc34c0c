"""What members said of training rows that they had not seen, and what the pool of all would have said.

Row i was held out by k of the K members. New rows get the mean of all K, whose error is smaller: if members
scatter with variance D around their common expectation, whose squared error is τ², then

    E (y − mean of k)² = τ² + D/k,        E (y − mean of K)² = τ² + D/K.

D of new rows is what members that did not see a row tell, two of them at least: those that trained on it have
learned its target, and agree. What k members say of a single row is right on average and rough; what the
others say, times the ratio of both over all rows, is smoother, and gets 1/k of the weight. But the others
differ where a target is odd, as each has learned another part of it. So what they say goes with the squared
error more than what the k say does, and that excess is taken off: disagreement would seem to foretell errors
that nothing foretells. All errors are made smaller alike, by what averaging takes off their mean square.

A member stops at the epoch that suits the n rows best which it held out. Choosing one number by them makes
them look better than new rows by 1/n nats each, as in Akaike's criterion: their squared errors should be
1 + 2/n times as large (`optimism`).

Where no row is held out twice (fewer than four members) D is that of all members, which is too small and goes
with the error; half of what it asks for is taken off.
"""

from typing import NamedTuple

import numpy as np

from tggm.arrays import Bools, Floats
from tggm.predictive.moment import MomentPredictive

TAKEN = 0.5  # of what averaging more members would take off squared errors, where D is not known
LEAST = 0.1  # of squared errors, that is left at least
_FEWEST_ROWS = 5  # held out twice, from which D is told
_ODD = 10.0  # medians at which squared errors are cut, lest one row tells how disagreement goes with them
_STAYS = 0.2  # of what the others say, at least


class PooledRows(NamedTuple):
    """Rows as if all members had held them out."""

    members: MomentPredictive
    y: Floats  # (N,)
    weight: Floats  # (N,) sum: the number of rows that equal weights would be worth
    certain: bool  # whether nothing in it is guessed

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
    optimism: float = 1.0  # by which squared errors would be larger, had the rows chosen nothing

    def usable(self, most: int) -> "HeldOut":
        """Rows with a weight that a member held out, `most` of them at most, evenly spaced."""
        good = self.there.any(0) & (self.weight > 0) & np.isfinite(self.weight) & np.isfinite(self.y)
        good &= (np.isfinite(self.mean) & np.isfinite(self.var) & (self.var > 0)).all(0)
        rows = np.flatnonzero(good)
        if len(rows) > most:
            rows = rows[np.linspace(0, len(rows) - 1, most).astype(int)]
        mean, var, there = self.mean[:, rows], self.var[:, rows], self.there[:, rows]
        return HeldOut(mean, var, there, self.y[rows], self.weight[rows], self.optimism)

    def pooled(self) -> PooledRows:
        """What all members would have said of usable rows, had none seen them.

        Mean and variance of a row are those of the members that held it out: those that saw the row know its
        target. Around them all members scatter as they would on a new row.
        """
        K, k = len(self.mean), self.there.sum(0)
        centre, var = _mean_where(self.there, self.mean), _mean_where(self.there, self.var)
        w = self.weight / self.weight.sum()
        scatter, known = self._scatter(centre, var, w)
        squares = w @ ((self.y - centre) ** 2 / var)
        taken = (1.0 if known else TAKEN) * (w @ (scatter * (1 / k - 1 / K) / var))
        left = np.clip(1 - taken / squares, LEAST, 1.0) if squares > 0 else 1.0
        around = self.mean - self.mean.mean(0)
        there = _scatter_where(np.ones_like(self.there), self.mean)
        around *= np.sqrt(np.divide(scatter, there, out=np.zeros_like(there), where=there > 0))
        members = MomentPredictive(centre + around, self.var * (var / self.var.mean(0)))
        error = np.sqrt(left * self.optimism) * (self.y - centre)
        return PooledRows(members, centre + error, w / (w**2).sum(), known or K == 1)

    def _scatter(self, centre: Floats, var: Floats, w: Floats) -> tuple[Floats, bool]:
        """D of each row, were it new to all members, and whether it is known or a guess.

        Parameters are the rows' means, variances and weights; D is told in units of the variance.
        """
        twice, others = self.there.sum(0) >= 2, (~self.there).sum(0) >= 2
        if twice.sum() < _FEWEST_ROWS:
            return _scatter_where(np.ones_like(self.there), self.mean), False
        fresh, seen = (_scatter_where(which, self.mean) / var for which in (self.there, ~self.there))
        if not (twice & others).any():  # two of three members, say: there is nobody else to ask
            mean = np.average(fresh[twice], weights=w[twice])
            return var * np.where(twice, fresh + (mean - fresh) / self.there.sum(0), mean), True
        w = np.where(twice & others, w, 0.0)
        square = (self.y - centre) ** 2 / var
        square = np.minimum(square, _ODD * np.median(square))
        square -= _ratio(w @ square, w.sum())
        smooth = np.where(others, seen * _ratio(w @ fresh, w @ seen), fresh)
        excess = max(_ratio(w @ (square * (smooth - fresh)), w @ square**2), 0.0)
        smooth = np.where(others, np.maximum(smooth - excess * square, _STAYS * smooth), fresh)
        smooth *= np.where(others, _ratio(w @ fresh, w @ smooth), 1.0)
        return var * (fresh + np.where(twice, 1 / self.there.sum(0), 1.0) * (smooth - fresh)), True


def _ratio(a: Floats, b: Floats) -> float:
    """Of two sums; 1 where there is nothing to divide by."""
    return float(a / b) if b > 0 else 1.0


def _scatter_where(where: Bools, values: Floats) -> Floats:
    """Unbiased variance over the members that are chosen; 0 where there are fewer than two."""
    count = where.sum(0)
    mean = np.where(where, values, 0.0).sum(0) / np.maximum(count, 1)
    scatter: Floats = np.where(where, (values - mean) ** 2, 0.0).sum(0) / np.maximum(count - 1, 1)
    return scatter


def _mean_where(where: Bools, values: Floats) -> Floats:
    """Mean over members of what is chosen."""
    mean: Floats = np.where(where, values, 0.0).sum(0) / where.sum(0)
    return mean
