"""One Student-t a row: what an ensemble says when only its mean, its width and its tails are kept."""

import numpy as np
from scipy.special import betaln, gammaln, log_ndtr, ndtr, stdtr

from tggm.arrays import Floats, Ints
from tggm.predictive.base import ScalarPredictive, exponential
from tggm.predictive.incomplete_beta import log_betainc

_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
_LEAST = 1e-4  # of 1/ν; gamma functions of larger ν differ by too little
_SMALL = 1e-250  # tails below this are computed as logarithms


class StudentPredictive(ScalarPredictive):
    """Y = loc + scale · (mean + width · T), T Student with 1/heaviness degrees of freedom.

    Every method is in closed form; log-tails hold where the tails underflow.

    Parameters
    ----------
    mean, width : array, shape (N,)
        Centre and scale parameter of each row.
    heaviness : float
        1/ν, from 0 (Gaussian) to less than ½ (at ½ the variance is infinite); below 1e-4 it counts as 0.
    loc, scale : float
        Affine map from what the model predicts to the output.
    """

    def __init__(
        self, mean: Floats, width: Floats, heaviness: float, *, loc: float = 0.0, scale: float = 1.0
    ) -> None:
        if not 0 <= heaviness < 0.5:
            raise ValueError(f"`heaviness` is 1/ν and must be from 0 to less than 0.5; got {heaviness!r}.")
        if not np.all(width > 0):
            raise ValueError(f"`width` must be positive; smallest is {width.min()!r}.")
        super().__init__(len(mean), np.ones(1), loc, scale)
        self._mean, self._width = mean, width
        self._heaviness = float(heaviness) if heaviness >= _LEAST else 0.0

    def __getitem__(self, rows: slice | Ints) -> "StudentPredictive":
        """The distributions of some rows."""
        return StudentPredictive(
            self._mean[rows], self._width[rows], self._heaviness, loc=self._loc, scale=self._scale
        )

    @property
    def _nu(self) -> float:
        return 1 / self._heaviness

    def _member_moments(self) -> tuple[Floats, Floats]:
        return self._mean[None], (self._width**2 / (1 - 2 * self._heaviness))[None]

    def log_mean_exp(self, order: float) -> Floats | None:
        """Log of E exp(order · Y), (N,): infinite but for a Gaussian."""
        s = order * self._scale
        gaussian = order * self._loc + s * self._mean + 0.5 * s**2 * self._width**2
        return gaussian if not self._heaviness else np.full(len(self), np.inf)

    def _standard(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        width = self._width[rows]
        return (z - self._mean[rows]) / width, width

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        u, width = self._standard(rows, z)
        log: Floats = self._log_standard(u) - np.log(width)
        return log

    def _log_standard(self, u: Floats) -> Floats:
        if not self._heaviness:
            gaussian: Floats = -0.5 * u * u - _HALF_LOG_2PI
            return gaussian
        nu = self._nu
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        log: Floats = constant - 0.5 * (nu + 1) * np.log1p(u * u / nu)
        return log

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        u, _ = self._standard(rows, z)
        if not self._heaviness:
            return log_ndtr(u), log_ndtr(-u)
        tail = self._log_lower(-np.abs(u))
        rest = np.log1p(-np.exp(tail))
        return np.where(u < 0, tail, rest), np.where(u < 0, rest, tail)

    def _log_lower(self, u: Floats) -> Floats:
        """Log of P(T ≤ u) for u ≤ 0; where it underflows, ½ I_x(ν/2, ½) with x = ν/(ν + u²)."""
        nu = self._nu
        p = stdtr(nu, u)
        far = p < _SMALL
        log: Floats = np.log(np.where(far, 1.0, p))
        log[far] = np.log(0.5) + log_betainc(nu / 2, 0.5, -np.log1p(u[far] ** 2 / nu))
        return log

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        u, width = self._standard(rows, z)
        cdf: Floats = stdtr(self._nu, u) if self._heaviness else ndtr(u)
        return cdf, exponential(self._log_standard(u)) / width

    def _quantiles(self, rows: Ints, p: Floats) -> Floats:
        """Those of T itself, one for each different p: all rows have the same ν."""
        different, place = np.unique(p, return_inverse=True)
        one = StudentPredictive(np.zeros(len(different)), np.ones(len(different)), self._heaviness)
        u = ScalarPredictive._quantiles(one, np.arange(len(different)), different)
        with np.errstate(invalid="ignore"):
            found: Floats = self._mean[rows] + self._width[rows] * u[place]
        return found

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        """Closed forms of the two expectations in Jordan, Krüger & Lerch (2019), appendix A."""
        u, width = self._standard(rows, z)
        density = exponential(self._log_standard(u))
        if self._heaviness:
            nu = self._nu
            to_z = u * (2 * stdtr(nu, u) - 1) + 2 * density * (nu + u * u) / (nu - 1)
            apart = np.exp(betaln(0.5, nu - 0.5) - 2 * betaln(0.5, nu / 2)) * 4 * np.sqrt(nu) / (nu - 1)
        else:
            to_z = u * (2 * ndtr(u) - 1) + 2 * density
            apart = 2 / np.sqrt(np.pi)
        return width * to_z, width * apart

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        shape = size, len(self)
        noise = rng.standard_t(self._nu, shape) if self._heaviness else rng.standard_normal(shape)
        return self._mean + self._width * noise
