"""Mean and deviation of columns that are seen a piece at a time.

Pieces are merged as Chan, Golub and LeVeque do (1983), without loss of digits. Squares are those of numbers
divided by a power of two about as large as the range of their column: neither columns of 1e300 nor those of
1e-200 leave the range of floating point, and division by a power of two rounds nothing.
"""

from dataclasses import dataclass

import numpy as np

from tggm.estimators.columns import NARROWEST, Columns, Floats


@dataclass
class Spread:
    """Count, mean, range, and the sum of squared differences from the mean, of columns."""

    count: int
    mean: Floats
    squares: Floats  # in the square of `unit`
    low: Floats
    high: Floats

    @property
    def unit(self) -> Floats:
        """A power of two that is at least the range and at most twice it; 1 for a constant."""
        return _unit(self.high - self.low)

    @classmethod
    def of(cls, values: Floats) -> "Spread":
        """That of the rows of a table, each of size 1e307 at most."""
        low, high = values.min(0), values.max(0)
        unit = _unit(high - low)
        scaled = values - low[None, :]
        scaled /= unit[None, :]
        mean = np.full(len(values), 1 / len(values)) @ scaled  # a product is faster than a sum down columns
        scaled -= mean[None, :]
        squares = np.einsum("ij,ij->j", scaled, scaled)
        return cls(len(values), low + unit * mean, squares, low, high)

    def merged(self, other: "Spread") -> "Spread":
        """That of both together."""
        n = self.count + other.count
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        unit = _unit(high - low)
        step = (other.mean - self.mean) / unit
        squares = self._squares(unit) + other._squares(unit) + step**2 * (self.count * other.count / n)
        return Spread(n, self.mean + unit * (step * (other.count / n)), squares, low, high)

    def _squares(self, unit: Floats) -> Floats:
        """The sum of squares in a unit that is no smaller; that of a constant, which has none, may be."""
        found: Floats = self.squares * np.minimum(self.unit / unit, 1.0) ** 2
        return found

    def columns(self) -> Columns:
        """Mean and deviation, as `Columns.of` has them."""
        extent = np.maximum(np.abs(self.low), np.abs(self.high))
        varies = self.high - self.low > np.maximum(1e-12 * extent, NARROWEST)
        deviation = self.unit * np.sqrt(self.squares / self.count)
        scale = np.where(varies & (deviation > 0), deviation, 1.0)
        return Columns(np.where(varies, self.mean, self.low), scale)

    def whole(self) -> Columns:
        """One mean and deviation for all columns."""
        d, first = len(self.mean), self.mean[0]
        unit = _unit(np.asarray(self.high.max() - self.low.min()))
        means = (self.mean - first) / unit
        centre = means.mean()
        variance = float(((means - centre) ** 2 + self._squares(unit) / self.count).mean())
        scale = float(unit) * np.sqrt(variance) if variance > 0 else 1.0
        return Columns(np.full(d, first + unit * centre), np.full(d, scale))


def _unit(extent: Floats) -> Floats:
    """A power of two between `extent` and twice it; 1 where it is 0."""
    found: Floats = np.ldexp(1.0, np.frexp(extent)[1])
    return found
