"""One law for the errors of all rows, in units of each row's width: Student's, bent as held-out rows ask."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.integrate import cumulative_simpson
from scipy.interpolate import CubicHermiteSpline

from tggm.arrays import Floats, Ints
from tggm.predictive.shape import Shape
from tggm.predictive.student import StudentPredictive

_REACH, _POINTS = 14.5, 8001  # of a grid that is even in arcsinh t: to a million widths
_OPEN = 1e-300, 1 - 1e-16  # probabilities of which quantiles are finite


class BentStudent(NamedTuple):
    """A bent Student-t S, and what is known of it by quadrature, to about 1e-9."""

    shape: Shape
    mean: float
    var: float
    apart: float  # E|S − S'|, S' an independent copy
    below: CubicHermiteSpline  # E max(s − S, 0), as a function of arcsinh s

    def to(self, s: Floats) -> Floats:
        """E|S − s|."""
        x = np.arcsinh(s)
        inside = 2 * self.below(np.clip(x, -_REACH, _REACH)) + self.mean - s
        return np.where(np.abs(x) <= _REACH, inside, np.abs(s - self.mean))


class ShapedPredictive(StudentPredictive):
    """Y = loc + scale · (mean + width · (S − E S)), S having the cdf G(F), F that of a Student-t.

    Density, cdf and quantiles are in closed form, variance and CRPS quadratures that err by about 1e-9.

    Parameters
    ----------
    mean, width, heaviness
        As of a `StudentPredictive`.
    logs : tuple of float
        Logarithms of the density of G at equidistant knots, see `shape`.
    loc, scale : float
        Affine map from what the model predicts to the output.
    """

    def __init__(
        self,
        mean: Floats,
        width: Floats,
        heaviness: float,
        logs: tuple[float, ...],
        *,
        loc: float = 0.0,
        scale: float = 1.0,
    ) -> None:
        super().__init__(mean, width, heaviness, loc=loc, scale=scale)
        self._logs = logs
        self._law = _law(self._heaviness, logs)

    def __getitem__(self, rows: slice | Ints) -> "ShapedPredictive":
        """The distributions of some rows."""
        units = {"loc": self._loc, "scale": self._scale}
        return ShapedPredictive(self._mean[rows], self._width[rows], self._heaviness, self._logs, **units)

    def unbent(self, y: Floats) -> Floats:
        """F at y, one of each row."""
        z = (y - self._loc) / self._scale
        return super()._bulk(np.arange(len(self)), z)[0]

    def log_mean_exp(self, order: float) -> None:
        """Not in closed form."""

    def _member_moments(self) -> tuple[Floats, Floats]:
        return self._mean[None], (self._width**2 * self._law.var)[None]

    def _standard(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        s, width = super()._standard(rows, z)
        return s + self._law.mean, width

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        log: Floats = super()._log_density(rows, z)
        bent: Floats = log + np.log(self._law.shape.density(super()._bulk(rows, z)[0]))
        return bent

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        return self._law.shape.log_tails(*super()._log_tails(rows, z))

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        u, density = super()._bulk(rows, z)
        return self._law.shape.cdf(u), density * self._law.shape.density(u)

    def _quantiles(self, rows: Ints, p: Floats) -> Floats:
        different, place = np.unique(p, return_inverse=True)
        s = self._standard_quantiles(different)
        with np.errstate(invalid="ignore"):
            found: Floats = self._mean[rows] + self._width[rows] * (s[place] - self._law.mean)
        return found

    def _standard_quantiles(self, p: Floats) -> Floats:
        """Those of S, by the smaller tail."""
        left = p < self._law.shape.cdf(np.array(0.5))
        tail = np.where(left, self._law.shape.lower(p), self._law.shape.upper(1 - p))
        t = _student(self._heaviness).ppf(tail[None, :])[0]
        found: Floats = np.where(left, t, -t)
        return found

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        s, width = self._standard(rows, z)
        return width * self._law.to(s), width * self._law.apart

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        p = np.clip(rng.random(size * len(self)), *_OPEN)
        s = self._standard_quantiles(p).reshape(size, len(self))
        return self._mean + self._width * (s - self._law.mean)


def _student(heaviness: float) -> StudentPredictive:
    """The law that is bent."""
    return StudentPredictive(np.zeros(1), np.ones(1), heaviness)


@lru_cache(maxsize=16)  # each holds a grid; those of a model in use stay
def _law(heaviness: float, logs: tuple[float, ...]) -> BentStudent:
    """The law with what a grid tells of it; half moments of tails are those of Student's, times the ends."""
    shape, student = Shape(np.asarray(logs)), _student(heaviness)
    x = np.linspace(-_REACH, _REACH, _POINTS)
    t = np.sinh(x)
    tails = student.logcdf(t[None, :])[0], student.logsf(t[None, :])[0]
    low, high, bent_low, bent_high = map(np.exp, (*tails, *shape.log_tails(*tails)))
    stretch = np.cosh(x)
    below = cumulative_simpson(bent_low * stretch, x=x, initial=0)
    right = t > 0
    rest = np.where(right, bent_high - shape.ends[1] * high, bent_low - shape.ends[0] * low)
    squares = 0.5 * sum(shape.ends) * student.var()[0] + 2 * _integral(np.abs(t) * rest * stretch, x)
    middle = _POINTS // 2  # of the grid is 0
    mean = _integral((bent_high * stretch)[middle:], x[middle:]) - float(below[middle])
    return BentStudent(
        shape,
        mean,
        float(squares - mean**2),
        2 * _integral(bent_low * bent_high * stretch, x),
        CubicHermiteSpline(x, below, bent_low * stretch),
    )


def _integral(values: Floats, x: Floats) -> float:
    return float(cumulative_simpson(values, x=x)[-1])
