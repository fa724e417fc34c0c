"""The distribution of a target of which a function was modelled: Y = T⁻¹(Z)."""

import math
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Floats, Ints
from tggm.predictive.base import ScalarPredictive, exponential
from tggm.predictive.quadrature import Quadrature
from tggm.predictive.transforms import Transform

_LARGEST = 700.0  # exponent of a slope; where it is larger, tails are 0


class Transformed(ScalarPredictive):
    """Y = T⁻¹(Z), row by row.

    Density, distribution function, quantiles, intervals and draws are as exact as those of Z. Mean and
    variance are in closed form where the transform knows one (mixtures of lognormals), otherwise quadratures
    on 241 points around the median of Z, and so is the CRPS: errors below 1e-6 of the deviation for Z with
    tails like a Gaussian's, unless members are narrower than a tenth of the pool; then they may be means over
    20 quantiles. What is beyond all floats is the largest of them. With heavier tails there is no mean under
    a logarithm, and maybe none under a power: calibrate with ``light_tails=True``.

    Parameters
    ----------
    law : ScalarPredictive
        The distribution of Z = T(Y), in units of T.
    transform : Transform
        T.
    """

    def __init__(self, law: ScalarPredictive, transform: Transform) -> None:
        super().__init__(len(law), np.ones(1), 0.0, 1.0)
        self._law, self._transform = law, transform

    def __getitem__(self, rows: slice | Ints) -> "Transformed":
        """The distributions of some rows."""
        return Transformed(self._law[rows], self._transform)

    def ppf(self, q: ArrayLike) -> Floats:
        """Quantile: the y with cdf(y) = q; the ends of what can be at 0 and 1."""
        return self._transform.inverse(self._law.ppf(q))

    def _standard(self, y: Floats) -> Floats:
        """What Z's distribution is asked for."""
        loc, scale = self._law.units
        z: Floats = (self._transform.forward(y) - loc) / scale
        return np.clip(z, -1e120, 1e120)

    def _log_density(self, rows: Ints, y: Floats) -> Floats:
        log = self._law._log_density(rows, self._standard(y)) + self._transform.log_derivative(y)
        return log - math.log(self._law.units[1])

    def _log_tails(self, rows: Ints, y: Floats) -> tuple[Floats, Floats]:
        return self._law._log_tails(rows, self._standard(y))

    def _bulk(self, rows: Ints, y: Floats) -> tuple[Floats, Floats]:
        cdf, density = self._law._bulk(rows, self._standard(y))
        with np.errstate(divide="ignore"):
            log = np.log(density / self._law.units[1]) + self._transform.log_derivative(y)
        return cdf, exponential(log)

    def _member_moments(self) -> tuple[Floats, Floats]:
        """Mean and variance as of one member."""
        mean, var = self._moments
        return mean[None], var[None]

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        known = self._transform.moments(self._law)
        loc, scale = self._law.units

        if known is not None:
            return known

        def density(rows: Ints, z: Floats) -> Floats:
            return self._law._bulk(rows, (z - loc) / scale)[1] / scale

        def log_density(rows: Ints, z: Floats) -> Floats:
            return self._law._log_density(rows, (z - loc) / scale) - math.log(scale)

        def quantiles(rows: Ints, q: Floats) -> Floats:
            return (self._law if len(rows) == len(self) else self._law[rows]).ppf(q[None, :])

        mean, var = self._quadrature.moments(density, log_density, self._transform.inverse, quantiles)
        most = np.finfo(float).max
        return np.clip(mean, -most, most), np.clip(var, np.finfo(float).tiny, most)

    @cached_property
    def _quadrature(self) -> Quadrature:
        low, centre, high = self._law.ppf(np.array([[0.16, 0.5, 0.84]])).T
        return Quadrature(centre, 0.5 * (high - low))

    def _distances(self, rows: Ints, y: Floats) -> tuple[Floats, Floats]:
        loc, scale = self._law.units

        def bulk(rows: Ints, z: Floats) -> tuple[Floats, Floats]:
            return self._law._bulk(rows, (z - loc) / scale)

        def log_tails(rows: Ints, z: Floats) -> tuple[Floats, Floats]:
            return self._law._log_tails(rows, (z - loc) / scale)

        def slope(z: Floats) -> Floats:
            return exponential(np.minimum(self._transform.log_slope(z), _LARGEST))

        z = loc + scale * self._standard(y)
        return self._quadrature.distances(bulk, log_tails, self._transform.inverse, slope, rows, z, y)

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        return self._transform.inverse(self._law.rvs(size, random_state=rng))
