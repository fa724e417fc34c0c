"""Columns brought to mean 0 and variance 1, in float64 whatever the model computes in."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
WIDEST, NARROWEST = 1e307, 1e-290  # values that can be added, and ranges that can be divided by
LARGEST = 1e9  # on the scale of the model; squares and their sums are numbers in single precision, too


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
        deviation of a constant column is not 0 in floating point: 10,741 times 0.998 gives 2e-13.) So is one
        of denormal numbers, whose inverses overflow.
        """
        # sums of huge values overflow; half the range does not, and means of differences keep their digits
        centre = values[0]
        extent = np.abs(values).max(0)
        if extent.max(initial=0.0) > WIDEST:
            j = int(extent.argmax())
            raise ValueError(f"column {j} has values up to {extent[j]:.3g}, whose sums overflow; divide it.")
        varies = np.ptp(values, axis=0) > np.maximum(1e-12 * extent, NARROWEST)
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
        with np.errstate(over="ignore"):  # seen to by `require_moderate`
            return (values - self.shift[None, :]) / self.scale[None, :]

    def undo(self, values: Floats) -> Floats:
        """Back to the original units."""
        return values * self.scale[None, :] + self.shift[None, :]


def require_moderate(values: NDArray[Any], what: str, remedy: str) -> None:
    """Raise for values (NaN is none) that are too large on the scale of the model to be computed with."""
    size = np.fmax.reduce(np.abs(values), axis=None, initial=0.0)
    if size > LARGEST:
        row = int(np.argmax((np.abs(values) > LARGEST).reshape(len(values), -1).any(1)))
        raise ValueError(
            f"{what} has a value of size {size:.3g} on the scale of the model (first in row {row}), where "
            f"{LARGEST:g} is the most that can be computed with; {remedy}."
        )
