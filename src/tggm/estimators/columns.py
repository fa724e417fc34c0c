"""Columns brought to mean 0 and variance 1, in float64 whatever the model computes in."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Columns(NamedTuple):
    """An affine map of columns: z = (values − shift) / scale."""

    shift: Floats  # (columns,)
    scale: Floats  # (columns,)

    @classmethod
    def unchanged(cls, n_columns: int) -> "Columns":
        """The identity."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    @classmethod
    def of(cls, values: Floats, weight: Floats) -> "Columns":
        """Weighted mean and standard deviation of each column.

        A column whose range is rounding error is constant: it is centred and not scaled. (The standard
        deviation of a constant column is not 0 in floating point: 10,741 times 0.998 gives 2e-13.)
        """
        # sums of huge values overflow; half the range does not, and means of differences keep their digits
        centre = values[0]
        extent = np.abs(values).max(0)
        varies = np.ptp(values, axis=0) > 1e-12 * extent
        spread = np.where(varies, np.abs(values - centre[None, :]).max(0), 1.0)
        unit = (values - centre[None, :]) / spread[None, :]
        mean = np.average(unit, axis=0, weights=weight)
        deviation = np.sqrt(np.average((unit - mean[None, :]) ** 2, axis=0, weights=weight))
        scale = np.where(varies & (deviation > 0), spread * deviation, 1.0)
        return cls(np.where(varies, centre + spread * mean, centre), scale)

    def mild(self) -> bool:
        """Whether single precision can carry out the map: a large shift would cost it digits."""
        sizes = (self.scale > 1e-15) & (self.scale < 1e15)
        return bool((sizes & (np.abs(self.shift) <= 30 * self.scale)).all())

    def apply(self, values: Floats) -> Floats:
        """Standardise."""
        return (values - self.shift[None, :]) / self.scale[None, :]

    def undo(self, values: Floats) -> Floats:
        """Back to the original units."""
        return values * self.scale[None, :] + self.shift[None, :]
