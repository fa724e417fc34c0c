"""What members said of training rows that they had not seen, and what the pool of all would have said.

Row i was held out by k of the K members. New rows get the mean of all K, whose error is smaller: if members
scatter with variance D around their common expectation, whose squared error is τ², then

    E (y − mean of k)² = τ² + D/k,        E (y − mean of K)² = τ² + D/K.

Members that trained on a row agree on it more than on a new one, and where they differ most the rows are odd:
D of single rows misleads. So all errors are made smaller alike, by half of what it asks for, a choice
made on development tables.
"""

from typing import NamedTuple

import numpy as np

from tggm.arrays import Bools, Floats
from tggm.predictive.moment import MomentPredictive

TAKEN = 0.5  # of what averaging more members would take off squared errors
LEAST = 0.25  # of squared errors, that is left at least


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

        Mean and variance of a row are those of the members that held it out: those that saw the row know its
        target. Around them members scatter as they do.
        """
        K, k = len(self.mean), self.there.sum(0)
        centre, var = _mean_where(self.there, self.mean), _mean_where(self.there, self.var)
        between = self.mean.var(0, ddof=1) if K > 1 else np.zeros_like(centre)
        w = self.weight / self.weight.sum()
        error = self.y - centre
        squares = w @ (error**2 / var)
        taken = TAKEN * (w @ (between * (1 / k - 1 / K) / var))
        left = np.clip(1 - taken / squares, LEAST, 1.0) if squares > 0 else 1.0
        members = MomentPredictive(
            centre + self.mean - self.mean.mean(0), self.var * (var / self.var.mean(0))
        )
        return PooledRows(members, centre + np.sqrt(left) * error, w / (w**2).sum())


def _mean_where(where: Bools, values: Floats) -> Floats:
    """Mean over members of what is chosen."""
    mean: Floats = np.where(where, values, 0.0).sum(0) / where.sum(0)
    return mean
