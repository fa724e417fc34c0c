"""Standardise columns to mean 0 and variance 1, always in float64.

Columns may come in pieces, which are merged by the formulas of Chan, Golub and LeVeque (1983) without loss of
digits. Before squaring, values are divided by a power of two close to the range of their column, which is
exact: columns of size 1e300 do not overflow and columns of size 1e-200 do not underflow.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tggm.arrays import Floats

WIDEST, NARROWEST = 1e307, 1e-290  # the largest value that can be summed, the smallest range to divide by
SQUARED = 1e150  # largest number whose square is finite
LARGEST = 1e9  # standardised; sums of squares are then finite in single precision
FAR = 10.0  # deviations from the median at which values are clipped to estimate a robust scale
SPANNED = 0.9  # share of the range of all values that the median column spans if all are alike
LEAST_ALIKE = 200  # columns above which that is considered
NORMAL_QUARTILES = 1.349  # deviations between the quartiles of a normal distribution


class Columns(NamedTuple):
    """Map columns to z = (values - shift) / scale."""

    shift: Floats  # (columns,)
    scale: Floats  # (columns,)

    @classmethod
    def unchanged(cls, n_columns: int) -> "Columns":
        """Return the identity."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    @classmethod
    def of(cls, values: Floats, weight: Floats) -> "Columns":
        """Return the weighted mean and standard deviation of each column."""
        extent = np.abs(values).max(0)
        if extent.max(initial=0.0) > WIDEST:
            j = int(extent.argmax())
            raise ValueError(f"column {j} has values up to {extent[j]:.3g}, whose sums overflow; divide it.")
        return Extent.of(values, weight).columns()

    @classmethod
    def robust(cls, values: Floats, weight: Floats, farthest: float = np.inf) -> "Columns":
        """Return mean and deviation of values clipped at ten deviations (by the quartiles) from the median.

        An outlier then has a bounded effect. Columns with equal quartiles, such as those with mostly 0, are
        not clipped, because their rare values carry the information. No column is clipped if a standardised
        value would be at least `farthest` from 0.
        """
        whole = cls.of(values, weight)
        with np.errstate(over="ignore", under="ignore"):  # nothing is clipped at infinite bounds
            low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
            reach = np.where(high > low, FAR / NORMAL_QUARTILES * (high - low), np.inf)
            found = cls.of(np.clip(values, middle - reach, middle + reach), weight)
        unreached = farthest == np.inf or np.abs(found.apply(values)).max() < farthest
        return found if unreached else whole

    def fits_float32(self) -> bool:
        """Return whether single precision can compute the map without losing digits to a large shift."""
        sizes = (self.scale > 1e-15) & (self.scale < 1e15)
        return bool((sizes & (np.abs(self.shift) <= 30 * self.scale)).all())

    def apply(self, values: Floats, *, most: float = np.inf) -> Floats:
        """Standardise, and clip at ±`most`."""
        with np.errstate(over="ignore"):  # `require_moderate` checks this
            found: Floats = (values - self.shift[None, :]) / self.scale[None, :]
        return found if most == np.inf else np.clip(found, -most, most)


class Scales(NamedTuple):
    """Standardisation of inputs and numeric targets."""

    x: Columns
    y: Columns


@dataclass
class Extent:
    """Weight, mean, range and sum of squared differences from the mean of each column."""

    mass: float  # sum of the weights of the rows
    mean: Floats
    squares: Floats  # divided by the square of `unit`
    low: Floats
    high: Floats

    @property
    def unit(self) -> Floats:
        """Return a power of two between the range and twice the range; 1 for a constant."""
        return _unit(self.high - self.low)

    @classmethod
    def of(cls, values: Floats, weight: Floats | None = None) -> "Extent":
        """Measure the rows of a table, whose values are at most 1e307 in size."""
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

    def merge(self, other: "Extent") -> "Extent":
        """Merge with the extent of other rows."""
        n = self.mass + other.mass
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        unit = _unit(high - low)
        step = (other.mean - self.mean) / unit
        squares = self._squares(unit) + other._squares(unit) + step**2 * (self.mass * other.mass / n)
        return Extent(n, self.mean + unit * (step * (other.mass / n)), squares, low, high)

    def _squares(self, unit: Floats) -> Floats:
        """Return the sum of squares in a unit that is at least as large; constants have sum 0."""
        return self.squares * np.minimum(self.unit / unit, 1.0) ** 2

    def columns(self) -> Columns:
        """Return mean and deviation of each column.

        A column whose range is at most rounding error, or denormal, is treated as constant: it is centred and
        not scaled. (The deviation of a constant is not 0 in floating point: 10,741 times 0.998 gives 2e-13.)
        """
        extent = np.maximum(np.abs(self.low), np.abs(self.high))
        varies = self.high - self.low > np.maximum(1e-12 * extent, NARROWEST)
        deviation = self.unit * np.sqrt(self.squares / self.mass)
        scale = np.where(varies & (deviation > 0), deviation, 1.0)
        return Columns(np.where(varies, self.mean, self.low), scale)

    def whole(self) -> Columns:
        """Return one mean and deviation for all columns."""
        d, first = len(self.mean), self.mean[0]
        unit = _unit(np.asarray(self.high.max() - self.low.min()))
        means = (self.mean - first) / unit
        centre = means.mean()
        variance = float(((means - centre) ** 2 + self._squares(unit) / self.mass).mean())
        scale = float(unit) * np.sqrt(variance) if variance > 0 else 1.0
        return Columns(np.full(d, first + unit * centre), np.full(d, scale))


def _unit(extent: Floats) -> Floats:
    """Return a power of two between `extent` and twice it; 1 if it is 0."""
    return np.ldexp(1.0, np.frexp(extent)[1])


def standardisation(X: Any, weight: Floats, how: bool | str) -> Columns:
    """Return the map of inputs to unit size.

    True uses the mean and deviation of each column; "robust" ignores outliers, and treats more than 200
    similar columns, such as pixels, as one; "whole" treats the table as one column; False changes nothing. A
    sparse table keeps its zeros: it is divided by one number, so that the mean square of all values is 1.
    """
    d = X.shape[1]
    if not how:
        return Columns.unchanged(d)
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1), np.float64).reshape(-1)
        size = np.sqrt(np.average(squares, weights=weight) / d)
        return Columns(np.zeros(d), np.full(d, size if size > 0 else 1.0))
    if how != "whole" and not (how == "robust" and columns_alike(X)):
        maker = Columns.robust if how == "robust" else Columns.of
        return maker(np.asarray(X, np.float64), weight)
    one = Columns.of(X.mean(1, dtype=np.float64)[:, None], weight)
    centred = X - one.shift.astype(X.dtype)[None, :]
    variance = np.average(np.einsum("ij,ij->i", centred, centred).astype(np.float64), weights=weight) / d
    return Columns(np.full(d, one.shift[0]), np.full(d, np.sqrt(variance) if variance > 0 else 1.0))


def columns_alike(X: Any) -> bool:
    """Return whether the columns of a wide table are similar: most of them span the range of all values.

    Per-column scaling would amplify nearly constant border pixels of images.
    """
    if X.shape[1] <= LEAST_ALIKE:
        return False
    low, high = X.min(0), X.max(0)
    span = (high - low)[high > low]
    return bool(len(span) and np.median(span) >= SPANNED * (high.max() - low.min()))


def require_moderate(values: NDArray[Any], what: str, remedy: str) -> None:
    """Raise for standardised values that are too large to compute with; NaN is accepted."""
    size = np.fmax.reduce(np.abs(values), axis=None, initial=0.0)
    if size > LARGEST:
        row = int(np.argmax((np.abs(values) > LARGEST).reshape(len(values), -1).any(1)))
        raise ValueError(f"{what} has {size:.3g} on the scale of the model in row {row}; {remedy}.")


def require_squares(deviations: Floats, means: Floats | float = 0.0) -> Floats:
    """Return the deviations of targets; raise if a square of one or of a mean overflows, or vanishes."""
    for values, wrong, what, remedy in (
        ("standard deviation", deviations > SQUARED, "overflows", "divide"),
        ("standard deviation", deviations < 1 / SQUARED, "vanishes", "multiply"),
        ("mean", np.abs(means) > SQUARED, "overflows", "divide"),
    ):
        if np.any(wrong):
            value = np.atleast_1d(means if values == "mean" else deviations)[np.atleast_1d(wrong)][0]
            raise ValueError(f"`y` has a {values} of {value:.3g}, whose square {what}; {remedy} it.")
    return deviations
