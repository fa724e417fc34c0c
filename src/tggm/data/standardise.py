"""Columns brought to mean 0 and variance 1, in float64 whatever the model computes in.

They may be seen a piece at a time: pieces are merged as Chan, Golub and LeVeque do (1983), without loss of
digits. Squares are those of numbers divided by a power of two about as large as the range of their column:
neither columns of 1e300 nor those of 1e-200 leave the range of floating point, and division by a power of two
rounds nothing.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats

WIDEST, NARROWEST = 1e307, 1e-290  # values that can be added, and ranges that can be divided by
LARGEST = 1e9  # on the scale of the model; squares and their sums are numbers in single precision, too


FAR = 10.0  # deviations from the median beyond which a value says nothing of the scale of its column
NORMAL_QUARTILES = 1.349  # deviations between the quartiles of a normal distribution


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
        """Weighted mean and standard deviation of each column."""
        _require_sums(values)
        return Extent.of(values, weight).columns()

    @classmethod
    def robust(cls, values: Floats, weight: Floats, farthest: float = np.inf) -> "Columns":
        """The same with values no farther from the median than ten deviations, as the quartiles tell them.

        One outlier cannot spoil a column then. One whose quartiles are equal, as where most are 0, is taken
        as it is: its rare values are what it tells. So are all where one would be `farthest` from 0 or more.
        """
        _require_sums(values)
        with np.errstate(over="ignore", under="ignore"):  # what overflows is no bound
            low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
            reach = np.where(high > low, FAR / NORMAL_QUARTILES * (high - low), np.inf)
            found = cls.of(np.clip(values, middle - reach, middle + reach), weight)
        unreached = farthest == np.inf or np.abs(found.apply(values)).max() < farthest
        return found if unreached else cls.of(values, weight)

    def mild(self) -> bool:
        """Whether single precision can carry out the map: a large shift would cost it digits."""
        sizes = (self.scale > 1e-15) & (self.scale < 1e15)
        return bool((sizes & (np.abs(self.shift) <= 30 * self.scale)).all())

    def apply(self, values: Floats, *, most: float = np.inf) -> Floats:
        """Standardise; what is farther out than `most` counts as so far."""
        with np.errstate(over="ignore"):  # seen to by `require_moderate`
            found: Floats = (values - self.shift[None, :]) / self.scale[None, :]
        return found if most == np.inf else np.clip(found, -most, most)


def _require_sums(values: Floats) -> None:
    extent = np.abs(values).max(0)
    if extent.max(initial=0.0) > WIDEST:
        j = int(extent.argmax())
        raise ValueError(f"column {j} has values up to {extent[j]:.3g}, whose sums overflow; divide it.")


class Scales(NamedTuple):
    """How inputs and targets are standardised; labels are not."""

    x: Columns
    y: Columns


@dataclass
class Extent:
    """Weight, mean, range, and the sum of squared differences from the mean, of columns."""

    mass: float  # sum of the weights of the rows
    mean: Floats
    squares: Floats  # in the square of `unit`
    low: Floats
    high: Floats

    @property
    def unit(self) -> Floats:
        """A power of two that is at least the range and at most twice it; 1 for a constant."""
        return _unit(self.high - self.low)

    @classmethod
    def of(cls, values: Floats, weight: Floats | None = None) -> "Extent":
        """That of the rows of a table, each of size 1e307 at most."""
        w = np.ones(len(values)) if weight is None else weight
        mass = float(w.sum())
        low, high = values.min(0), values.max(0)
        unit = _unit(high - low)
        scaled = values - low[None, :]
        scaled /= unit[None, :]
        mean = (w / mass) @ scaled  # a product is faster than a sum down columns
        scaled -= mean[None, :]
        squares = np.einsum("i,ij,ij->j", w, scaled, scaled, optimize=True)
        return cls(mass, low + unit * mean, squares, low, high)

    def merged(self, other: "Extent") -> "Extent":
        """That of both together."""
        n = self.mass + other.mass
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        unit = _unit(high - low)
        step = (other.mean - self.mean) / unit
        squares = self._squares(unit) + other._squares(unit) + step**2 * (self.mass * other.mass / n)
        return Extent(n, self.mean + unit * (step * (other.mass / n)), squares, low, high)

    def _squares(self, unit: Floats) -> Floats:
        """The sum of squares in a unit that is no smaller; that of a constant, which has none, may be."""
        found: Floats = self.squares * np.minimum(self.unit / unit, 1.0) ** 2
        return found

    def columns(self) -> Columns:
        """Mean and deviation.

        A column whose range is rounding error is constant: it is centred and not scaled. (The standard
        deviation of a constant column is not 0 in floating point: 10,741 times 0.998 gives 2e-13.) So is one
        of denormal numbers, whose inverses overflow.
        """
        extent = np.maximum(np.abs(self.low), np.abs(self.high))
        varies = self.high - self.low > np.maximum(1e-12 * extent, NARROWEST)
        deviation = self.unit * np.sqrt(self.squares / self.mass)
        scale = np.where(varies & (deviation > 0), deviation, 1.0)
        return Columns(np.where(varies, self.mean, self.low), scale)

    def whole(self) -> Columns:
        """One mean and deviation for all columns."""
        d, first = len(self.mean), self.mean[0]
        unit = _unit(np.asarray(self.high.max() - self.low.min()))
        means = (self.mean - first) / unit
        centre = means.mean()
        variance = float(((means - centre) ** 2 + self._squares(unit) / self.mass).mean())
        scale = float(unit) * np.sqrt(variance) if variance > 0 else 1.0
        return Columns(np.full(d, first + unit * centre), np.full(d, scale))


def _unit(extent: Floats) -> Floats:
    """A power of two between `extent` and twice it; 1 where it is 0."""
    found: Floats = np.ldexp(1.0, np.frexp(extent)[1])
    return found


def require_moderate(values: NDArray[Any], what: str, remedy: str) -> None:
    """Raise for values (NaN is none) that are too large on the scale of the model to be computed with."""
    size = np.fmax.reduce(np.abs(values), axis=None, initial=0.0)
    if size > LARGEST:
        row = int(np.argmax((np.abs(values) > LARGEST).reshape(len(values), -1).any(1)))
        raise ValueError(
            f"{what} has a value of size {size:.3g} on the scale of the model (first in row {row}), where "
            f"{LARGEST:g} is the most that can be computed with; {remedy}."
        )
