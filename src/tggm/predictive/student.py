"""Student-t error distributions, one per row, and their reshaped version.

A pooled ensemble has a mean, a width and a heaviness of tails (`StudentPredictive`). With many held-out rows
the shape of the error distribution is estimated as well (`ShapedPredictive`): the Student
distribution function F is mapped by a distribution function G on [0, 1] with a piecewise linear density.
"""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, gammaln, hyp2f1, stdtr

from tggm.arrays import Floats, Ints
from tggm.predictive.base import ScalarPredictive

LEAST_HEAVINESS = 1e-4  # of 1/ν; below it gamma functions of ν lose too many digits
_SMALL = 1e-250  # tails below this are computed as logarithms
_KNOTS_BELOW = [0.0, 0.01, 0.03, 0.06, 0.1, 0.175, 0.27, 0.38]
PLACES = np.array([*_KNOTS_BELOW, 0.5, *(1 - x for x in reversed(_KNOTS_BELOW))])  # denser near 0 and 1
KNOTS = len(PLACES)
STEEP = 1.0  # prior standard deviation of the change of the log-density from 0 to 1
HIGHEST = 5.0  # largest absolute log-density at a knot
_REACH, _POINTS = 14.5, 8001  # grid with equal steps of arcsinh t, up to a million widths
_SPAN = 1e-6  # length of an interval of probabilities below which the density is used
_OPEN = 1e-300, 1 - 1e-16  # probabilities of which quantiles are finite


def log_student(u: Floats, heaviness: float) -> Floats:
    """Compute the log-density of a Student-t with 1/heaviness degrees of freedom; near 0, of a Gaussian."""
    if heaviness < LEAST_HEAVINESS:
        return -0.5 * (u * u + np.log(2 * np.pi))
    nu = 1 / heaviness
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
    return constant - 0.5 * (nu + 1) * np.log1p(u * u / nu)


class StudentPredictive(ScalarPredictive):
    """Y = loc + scale · (mean + width · T), T Student-t with 1/heaviness degrees of freedom.

    Every method is in closed form; log-tails are accurate where the tails underflow. The heaviness 1/ν is
    from 1e-4 to less than ½ (at ½ the variance is infinite).
    """

    def __init__(
        self, mean: Floats, width: Floats, heaviness: float, *, loc: float = 0.0, scale: float = 1.0
    ) -> None:
        if not LEAST_HEAVINESS <= heaviness < 0.5:
            raise ValueError(
                f"`heaviness` is 1/ν and must be from {LEAST_HEAVINESS:g} to below 0.5; got {heaviness!r}."
            )
        if not np.all(width > 0):
            raise ValueError(f"`width` must be positive; smallest is {width.min()!r}.")
        super().__init__(len(mean), loc, scale)
        self._mean, self._width, self._heaviness = mean, width, float(heaviness)
        self._nu = 1 / self._heaviness

    def __getitem__(self, rows: slice | Ints) -> "StudentPredictive":
        return self._like(self._mean[rows], self._width[rows], loc=self._loc, scale=self._scale)

    def _like(self, mean: Floats, width: Floats, **units: float) -> "StudentPredictive":
        return StudentPredictive(mean, width, self._heaviness, **units)

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        return self._mean, self._width**2 / (1 - 2 * self._heaviness)

    def _standard(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        width = self._width[rows]
        return (z - self._mean[rows]) / width, width

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        u, width = self._standard(rows, z)
        return log_student(u, self._heaviness) - np.log(width)

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        u, _ = self._standard(rows, z)
        tail = self._log_lower(-np.abs(u))
        rest = np.log1p(-np.exp(tail))
        return np.where(u < 0, tail, rest), np.where(u < 0, rest, tail)

    def _log_lower(self, u: Floats) -> Floats:
        """Compute log P(T ≤ u) for u ≤ 0; where it underflows, ½ I_x(ν/2, ½) with x = ν/(ν + u²).

        I_x(a, b) = x^a (1 − x)^b F(a + b, 1; a + 1; x) / (a B(a, b)), F hypergeometric (DLMF 8.17.8).
        """
        a, p = self._nu / 2, stdtr(self._nu, u)
        far = p < _SMALL
        log: Floats = np.log(np.where(far, 1.0, p))
        log_x = -np.log1p(u[far] ** 2 / self._nu)
        x = np.exp(log_x)
        log[far] = a * log_x + 0.5 * np.log1p(-x) + np.log(0.5 * hyp2f1(a + 0.5, 1, a + 1, x) / a)
        log[far] -= betaln(a, 0.5)
        return log

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        u, width = self._standard(rows, z)
        return stdtr(self._nu, u), np.exp(log_student(u, self._heaviness)) / width

    def _quantiles(self, rows: Ints, q: Floats) -> Floats:
        """Compute standard quantiles once for each distinct probability: all rows have the same shape."""
        distinct, place = np.unique(q, return_inverse=True)
        one = self._like(np.zeros(len(distinct)), np.ones(len(distinct)))
        u = ScalarPredictive._quantiles(one, np.arange(len(distinct)), distinct)
        with np.errstate(invalid="ignore"):
            found: Floats = self._mean[rows] + self._width[rows] * u[place]
        return found

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        """Use the closed forms of Jordan, Krüger & Lerch (2019), appendix A."""
        u, width = self._standard(rows, z)
        density, nu = np.exp(log_student(u, self._heaviness)), self._nu
        to_z = u * (2 * stdtr(nu, u) - 1) + 2 * density * (nu + u * u) / (nu - 1)
        apart = np.exp(betaln(0.5, nu - 0.5) - 2 * betaln(0.5, nu / 2)) * 4 * np.sqrt(nu) / (nu - 1)
        return width * to_z, width * apart

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        return self._mean + self._width * rng.standard_t(self._nu, (size, len(self)))


class Shape:
    """A density g on [0, 1] that is linear between knots.

    Its integral G maps the distribution function F of a Student-t to G(F), with density g(F) f. The lower
    tail keeps its relative accuracy; the upper tail is the lower tail of the reversed shape. `logs` are the
    logarithms of g at the knots, up to a constant.
    """

    def __init__(self, logs: Floats) -> None:
        h = np.exp(logs - np.max(logs))
        self._width = np.diff(PLACES)
        self._h: Floats = h / (0.5 * (h[:-1] + h[1:]) @ self._width)
        mass = np.concatenate([[0.0], np.cumsum(0.5 * (h[:-1] + h[1:]) * self._width)])
        self._mass: Floats = mass / mass[-1]
        self.end = float(self._h[0])  # g(0)

    def density(self, u: Floats) -> Floats:
        """Compute g(u)."""
        h, (k, t) = self._h, _cell(u)
        return h[k] * (1 - t) + h[k + 1] * t

    def cdf(self, u: Floats) -> Floats:
        """Compute G(u)."""
        h, (k, t) = self._h, _cell(u)
        return self._mass[k] + self._width[k] * t * (h[k] + 0.5 * t * (h[k + 1] - h[k]))

    def log_cdf(self, log_u: Floats) -> Floats:
        """Compute log G; in the first cell from log u, as u may underflow."""
        u, (low, high), end = np.exp(log_u), self._h[:2], PLACES[1]
        first = log_u + np.log(low + 0.5 * (high - low) * np.minimum(u / end, 1.0))
        return np.where(u < end, first, np.log(np.maximum(self.cdf(u), self._mass[1])))


def _cell(u: Floats) -> tuple[Ints, Floats]:
    """Return the cell between knots that contains u and the position in it, from 0 to 1."""
    u = np.clip(u, 0.0, 1.0)
    k = np.clip(np.searchsorted(PLACES, u, side="right") - 1, 0, KNOTS - 2)
    return k, (u - PLACES[k]) / (PLACES[k + 1] - PLACES[k])


def _basis(u: Floats) -> tuple[Floats, Floats]:
    """Return g(u) and its integral up to u as linear functions of the values at the knots, (rows, KNOTS)."""
    k, t = _cell(u)
    rows, width = np.arange(len(u)), np.diff(PLACES)
    density, mass = np.zeros((len(u), KNOTS)), np.zeros((len(u), KNOTS))
    density[rows, k], density[rows, k + 1] = 1 - t, t
    mass += np.where(np.arange(KNOTS) < k[:, None], np.append(width, 0.0), 0.0)
    mass += np.where(np.arange(KNOTS) <= k[:, None], np.append(0.0, width), 0.0)
    mass *= 0.5
    mass[rows, k] += width[k] * t * (1 - 0.5 * t)
    mass[rows, k + 1] += 0.5 * width[k] * t**2
    return density, mass


def fit_shape(u: Floats, weight: Floats, ends: tuple[Floats, Floats] | None = None) -> Floats:
    """Estimate log g at the knots from draws u of G, by penalised maximum likelihood.

    Where two `ends` differ, the draw is only known to lie between them. The prior of differences between
    neighbouring knots is normal (a random walk).
    """
    each = _basis(u)[0]
    if ends is not None:
        low, high = ends
        wide = np.flatnonzero(high - low > _SPAN)
        masses = _basis(high[wide])[1] - _basis(low[wide])[1]
        each[wide] = masses / (high - low)[wide, None]
    area = _basis(np.ones(1))[1][0]
    stiff, total = (KNOTS - 1) / STEEP**2, weight.sum()

    def loss(logs: Floats) -> tuple[float, Floats]:
        h, rise = np.exp(logs), np.diff(logs)
        mass, density = area @ h, each @ h
        value = total * np.log(mass) - weight @ np.log(density)
        value += 0.5 * stiff * rise @ rise + 0.5 * logs.mean() ** 2
        slope = total * area * h / mass + logs.mean() / KNOTS - ((weight / density) @ each) * h
        slope -= stiff * np.diff(rise, prepend=0.0, append=0.0)
        return float(value), slope

    bounds = [(-HIGHEST, HIGHEST)] * KNOTS
    from scipy.optimize import minimize  # not needed for predictions

    return minimize(loss, np.zeros(KNOTS), jac=True, method="L-BFGS-B", bounds=bounds).x


class ShapedStudent(NamedTuple):
    """A standard Student-t S reshaped by G, with moments computed to about 1e-9."""

    shape: Shape
    reversed: Shape
    mean: float
    var: float


class ShapedPredictive(StudentPredictive):
    """Y = loc + scale · (mean + width · (S − E S)), where S has the cdf G(F), F Student.

    Density, cdf and quantiles are in closed form; variance and CRPS have errors of about 1e-9. `logs` are
    those of `Shape`.
    """

    def __init__(
        self, mean: Floats, width: Floats, heaviness: float, logs: tuple[float, ...], *, loc: float = 0.0,
        scale: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(mean, width, heaviness, loc=loc, scale=scale)
        self._logs = logs
        self._integrals = _integrate(self._heaviness, logs)

    def _like(self, mean: Floats, width: Floats, **units: float) -> "ShapedPredictive":
        return ShapedPredictive(mean, width, self._heaviness, self._logs, **units)

    def student_cdf(self, y: Floats) -> Floats:
        """Compute F before the map by G, at one y per row."""
        z = (y - self._loc) / self._scale
        return super()._bulk(np.arange(len(self)), z)[0]

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        return self._mean, self._width**2 * self._integrals.var

    def _standard(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        s, width = super()._standard(rows, z)
        return s + self._integrals.mean, width

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        reshaped = np.log(self._integrals.shape.density(super()._bulk(rows, z)[0]))
        return super()._log_density(rows, z) + reshaped

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        low, high = super()._log_tails(rows, z)
        return self._integrals.shape.log_cdf(low), self._integrals.reversed.log_cdf(high)

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        u, density = super()._bulk(rows, z)
        return self._integrals.shape.cdf(u), density * self._integrals.shape.density(u)

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        (s, width), mean = self._standard(rows, z), self._integrals.mean
        apart, below = _distance_integrals(self._heaviness, self._logs)
        x = np.arcsinh(s)
        inside = 2 * below(np.clip(x, -_REACH, _REACH)) + mean - s
        to_z = np.where(np.abs(x) <= _REACH, inside, np.abs(s - mean))
        return width * to_z, width * apart

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        p = np.clip(rng.random(size * len(self)), *_OPEN)
        return self._quantiles(np.tile(np.arange(len(self)), size), p).reshape(size, len(self))


@lru_cache(maxsize=16)
def _integrate(heaviness: float, logs: tuple[float, ...]) -> ShapedStudent:
    """Integrate on a grid; second moments of the tails are those of the Student-t times the end densities."""
    shape, reverse = Shape(np.asarray(logs)), Shape(np.asarray(logs[::-1]))
    student = StudentPredictive(np.zeros(1), np.ones(1), heaviness)
    x = np.linspace(-_REACH, _REACH, _POINTS)
    t = np.sinh(x)
    tails = student.logcdf(t[None, :])[0], student.logsf(t[None, :])[0]
    shaped = shape.log_cdf(tails[0]), reverse.log_cdf(tails[1])
    low, high, shaped_low, shaped_high = map(np.exp, (*tails, *shaped))
    stretch, right = np.cosh(x), t > 0
    rest = np.where(right, shaped_high - reverse.end * high, shaped_low - shape.end * low)
    squares = 0.5 * (shape.end + reverse.end) * student.var()[0]
    squares = squares + 2 * _integral(np.abs(t) * rest * stretch, x)
    middle = _POINTS // 2  # where t = 0
    mean = _integral((shaped_high * stretch)[middle:], x) - _integral((shaped_low * stretch)[: middle + 1], x)
    return ShapedStudent(shape, reverse, mean, float(squares - mean**2))


def _integral(values: Floats, x: Floats) -> float:
    """Integrate an odd number of values at the spacing of x by Simpson's rule."""
    inner = 4 * values[1:-1:2].sum() + 2 * values[2:-1:2].sum()
    return float((x[1] - x[0]) / 3 * (values[0] + inner + values[-1]))


@lru_cache(maxsize=16)  # each entry holds a grid of 8001 points
def _distance_integrals(
    heaviness: float, logs: tuple[float, ...]
) -> tuple[float, Callable[[Floats], Floats]]:
    """Return E|S − S'|, S' an independent copy, and E max(s − S, 0) as a function of arcsinh s."""
    from scipy.integrate import cumulative_simpson  # for scores only: importing it takes 0.1 s
    from scipy.interpolate import CubicHermiteSpline

    standard = ShapedPredictive(np.zeros(1), np.ones(1), heaviness, logs)
    x = np.linspace(-_REACH, _REACH, _POINTS)
    s = np.sinh(x) - standard._integrals.mean
    low, high = np.exp(standard.logcdf(s[None, :])[0]), np.exp(standard.logsf(s[None, :])[0])
    slope = low * np.cosh(x)
    below = cumulative_simpson(slope, x=x, initial=0)
    return 2 * _integral(high * slope, x), CubicHermiteSpline(x, below, slope)
