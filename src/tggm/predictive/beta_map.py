"""A monotone map of a distribution's own cdf: I_{a,b}(F), the beta-transformed pool of Ranjan & Gneiting.

It bends any distribution, exact ones included, by two numbers: a = b > 1 makes it narrower and a = b < 1
wider, a > b moves it up. Ranjan & Gneiting (2010), Combining probability forecasts, J. R. Statist. Soc. B 72.
"""

from functools import cached_property

import numpy as np
from scipy.special import betainc, betaincinv, betaln, xlog1py, xlogy

from tggm.arrays import Floats, Ints
from tggm.predictive.base import ScalarPredictive, exponential
from tggm.predictive.incomplete_beta import log_tails_of_beta
from tggm.predictive.quadrature import Quadrature
from tggm.predictive.quantile import Bracket, cantelli

_SURE = 1e-8  # a cdf known to absolute accuracy is good to seven digits above this
_FLOOR = 1e-16  # what such a cdf tells from 0 or 1
_INNER = 1e-3  # probabilities of the pool from which quantiles have ten digits
_OPEN = 1e-300, 1 - 1e-16  # probabilities of which quantiles are finite


def log_beta_weight(a: float, b: float, log_f: Floats, log_s: Floats) -> Floats:
    """Log of dI_{a,b}(F)/dF, from the logs of F and 1 − F."""
    log: Floats = (a - 1) * log_f + (b - 1) * log_s - betaln(a, b)
    return log


class BetaMapped(ScalarPredictive):
    """The distribution with cdf I_{a,b}(F), F being another's.

    Density, cdf, quantiles and draws are as exact as those of the other one. Mean, variance and CRPS are
    quadratures on a grid of 241 points around the median: errors below 1e-6 of the deviation unless members
    are narrower than a tenth of the pool.

    Parameters
    ----------
    pool : ScalarPredictive
        The distribution of which the cdf is mapped.
    a, b : float
        Positive; both 1 for no change.
    """

    def __init__(self, pool: ScalarPredictive, a: float, b: float) -> None:
        if not (0 < a < np.inf and 0 < b < np.inf):
            raise ValueError(f"`a` and `b` must be positive and finite; got {a!r} and {b!r}.")
        super().__init__(len(pool), np.ones(1), *pool.units)
        self._pool, self._a, self._b = pool, float(a), float(b)

    def __getitem__(self, rows: slice | Ints) -> "BetaMapped":
        """The distributions of some rows."""
        return BetaMapped(self._pool[rows], self._a, self._b)

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        weight = log_beta_weight(self._a, self._b, *self._pool._log_tails(rows, z))
        return self._pool._log_density(rows, z) + weight

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        return log_tails_of_beta(self._a, self._b, *self._pool._log_tails(rows, z))

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        a, b = self._a, self._b
        p, density = self._pool._bulk(rows, z)
        F = np.clip(p, _FLOOR, 1 - _FLOOR)
        density = density * np.exp(xlogy(a - 1, F) + xlog1py(b - 1, -F) - betaln(a, b))
        unsure = (_least_sure(a) > F) | (_least_sure(b) > 1 - F)
        if unsure.any():
            density[unsure] = exponential(self._log_density(rows[unsure], z[unsure]))
        return betainc(a, b, np.clip(p, 0.0, 1.0)), density

    def _member_moments(self) -> tuple[Floats, Floats]:
        """Mean and variance as of one member: a mapped mixture is not a mixture of mapped members."""
        mean, var = self._quadrature.moments(self._density, self._log_density, _same, self._grid_of_quantiles)
        return mean[None], var[None]

    def _grid_of_quantiles(self, rows: Ints, q: Floats) -> Floats:
        """Quantiles of rows in standardised units, (rows, probabilities)."""
        flat = self._quantiles(np.repeat(rows, len(q)), np.tile(q, len(rows)))
        return flat.reshape(len(rows), len(q))

    @cached_property
    def _quadrature(self) -> Quadrature:
        low, centre, high = self._grid_of_quantiles(np.arange(len(self)), np.array([0.16, 0.5, 0.84])).T
        return Quadrature(centre, 0.5 * (high - low))

    def _quantiles(self, rows: Ints, p: Floats) -> Floats:
        """The pool's at the probabilities that become p; farther out the mapped tails are solved for."""
        below, above = betaincinv(self._a, self._b, p), betaincinv(self._b, self._a, 1 - p)
        inner = np.minimum(below, above) > _INNER
        z = np.empty_like(p)
        z[inner] = self._pool._quantiles(rows[inner], below[inner])
        z[~inner] = super()._quantiles(rows[~inner], p[~inner])
        return z

    def _bracket(self, rows: Ints, q: Floats) -> Bracket:
        """By the probabilities that the pool gives to the same quantiles."""
        means, variances = self._pool.member_moments()
        mix = self._pool.member_weights
        mean = mix @ means
        var = mix @ (variances + (means - mean) ** 2)
        below, above = betaincinv(self._a, self._b, q), betaincinv(self._b, self._a, 1 - q)
        return cantelli(mean[rows], np.sqrt(var[rows]), below, above)

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        same = self._bulk, self._log_tails, _same, np.ones_like
        return self._quadrature.distances(*same, rows, z, z)

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        u = rng.beta(self._a, self._b, (len(self), size))
        draws: Floats = self._pool.ppf(np.clip(u, *_OPEN)).T
        return (draws - self._loc) / self._scale


def _least_sure(power: float) -> float:
    """Probabilities of which a negative power leaves a density 11 digits of its peak, of the pool's 15."""
    return min(_SURE, 1e-4 ** (1 / (1 - power))) if power < 1 else 0.0


def _same(z: Floats) -> Floats:
    return z
