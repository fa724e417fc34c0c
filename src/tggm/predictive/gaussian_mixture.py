"""Mixtures of Gaussians, one component per ensemble member, and of lognormals, for logarithms of a target."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from tggm import settings
from tggm.arrays import Floats, Ints
from tggm.predictive.base import ScalarPredictive

_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
_LARGEST_EXPONENT = 709.0  # of which the exponential is finite
_TINY = float(np.finfo(np.float64).tiny)


class GaussianMixture(ScalarPredictive):
    """Y = loc + scale · Z, where row i of Z is a mixture of N(mean_ki, var_ki) over members k.

    `mean` and `var` have shape (K, N). `weight`, (K, N), sums to 1 in each row; by default members have
    equal weights.
    """

    def __init__(
        self, mean: ArrayLike, var: ArrayLike, *, weight: Floats | None = None, loc: float = 0.0,
        scale: float = 1.0,
    ) -> None:  # fmt: skip
        m, v = np.asarray(mean, dtype=np.float64), np.asarray(var, dtype=np.float64)
        if m.ndim != 2 or m.shape != v.shape or not len(m):
            raise ValueError(
                f"`mean` and `var` must have one shape (members, rows); got {m.shape} and {v.shape}."
            )
        if not np.all(v > 0):
            raise ValueError(f"`var` must be positive; smallest is {v.min()!r}.")
        super().__init__(m.shape[1], loc, scale)
        self._mean, self._std = m, np.sqrt(v)
        self._weight = np.broadcast_to(1 / len(m), m.shape) if weight is None else weight

    def __getitem__(self, rows: slice | Ints) -> "GaussianMixture":
        parts = self._mean[:, rows], self._std[:, rows] ** 2
        return GaussianMixture(*parts, weight=self._weight[:, rows], loc=self._loc, scale=self._scale)

    @property
    def components(self) -> tuple[Floats, Floats, Floats]:
        """Return means, standard deviations and weights of z, (K, N) each."""
        return self._mean, self._std, self._weight

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        centre: Floats = (self._weight * self._mean).sum(0)
        var: Floats = (self._weight * (self._std**2 + (self._mean - centre) ** 2)).sum(0)
        return centre, var

    def _standard(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        """Standardise z by each member; return it with the standard deviations, (K, pairs) each."""
        std = self._std[:, rows]
        return (z[None, :] - self._mean[:, rows]) / std, std

    def _mixed(self, log: Floats, rows: Ints | slice = slice(None)) -> Floats:
        """Average exponentials over members, in logarithms."""
        return logsumexp(log, axis=0, b=self._weight[:, rows])

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        u, std = self._standard(rows, z)
        return self._mixed(-0.5 * u * u - np.log(std) - _HALF_LOG_2PI, rows)

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        u, _ = self._standard(rows, z)
        low, high = (np.minimum(self._mixed(log_ndtr(x), rows), 0.0) for x in (u, -u))  # weights are rounded
        return low, high

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        u, _ = self._standard(rows, z)
        cdf: Floats = (self._weight[:, rows] * ndtr(u)).sum(0)
        return cdf, np.exp(self._log_density(rows, z))

    def _quantiles(self, rows: Ints, q: Floats) -> Floats:
        if len(self._mean) > 1:
            return super()._quantiles(rows, q)
        return self._mean[0, rows] + self._std[0, rows] * ndtri(q)

    def _bracket(self, rows: Ints, p: Floats) -> tuple[Floats, Floats]:
        each: Floats = self._mean[:, rows] + self._std[:, rows] * ndtri(p)
        return each.min(0), each.max(0)

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        each = mean_absolute(z[None, :] - self._mean[:, rows], self._std[:, rows])
        between = np.zeros(len(self))
        for mean, std, weight in zip(*self.components, strict=True):
            apart = mean_absolute(mean - self._mean, np.hypot(std, self._std))
            between += weight * (self._weight * apart).sum(0)
        return (self._weight[:, rows] * each).sum(0), between[rows]

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        below = np.cumsum(self._weight, axis=0)[:-1, None]
        member = (rng.random((size, len(self))) > below).sum(0)
        row = np.arange(len(self))[None, :]
        noise = rng.standard_normal((size, len(self)))
        return self._mean[member, row] + self._std[member, row] * noise


class LognormalMixture(ScalarPredictive):
    """Y = loc + exp(Z), row by row, where Z is a mixture of Gaussians; every method is in closed form.

    Values above the largest float are the largest float.
    """

    def __init__(self, log: GaussianMixture, *, loc: float = 0.0) -> None:
        super().__init__(len(log), loc, 1.0)
        place, scale = log.units
        mean, std, weight = log.components
        self._log = GaussianMixture(place + scale * mean, (scale * std) ** 2, weight=weight)
        self._mean, self._std = self._log._mean, self._log._std

    def __getitem__(self, rows: slice | Ints) -> "LognormalMixture":
        return LognormalMixture(self._log[rows], loc=self._loc)

    def ppf(self, q: ArrayLike) -> Floats:
        """Compute quantiles: the y with cdf(y) = q; loc and inf at 0 and 1."""
        return self._loc + from_log(self._log.ppf(q))

    def _log_density(self, rows: Ints, y: Floats) -> Floats:
        z = to_log(y)
        log = self._log._log_density(rows, z) - z
        return np.where(y > 0, log, -np.inf)

    def _log_tails(self, rows: Ints, y: Floats) -> tuple[Floats, Floats]:
        return self._log._log_tails(rows, to_log(y))

    def _bulk(self, rows: Ints, y: Floats) -> tuple[Floats, Floats]:
        return self._log._bulk(rows, to_log(y))[0], np.exp(self._log_density(rows, y))

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Compute mean and variance from E exp(Z) and E exp(2 Z), in logarithms."""
        first, second = (self._log._mixed(r * self._mean + 0.5 * r**2 * self._std**2) for r in (1, 2))
        with np.errstate(divide="ignore"):
            gap = np.maximum(second - 2 * first, 0.0)
            log_var = 2 * first + gap + np.log(-np.expm1(-gap))
        return from_log(first), np.maximum(from_log(log_var), _TINY)

    def _distances(self, rows: Ints, y: Floats) -> tuple[Floats, Floats]:
        """Use E|Y − y| = y (2 Φ(u) − 1) + m (1 − 2 Φ(u − σ)) and Margrabe's formula for E|Y − Y'|."""
        mean, std, weight = self._log.components
        u, sigma = self._log._standard(rows, to_log(y))
        m = from_log(mean + 0.5 * std**2)
        each = y[None, :] * (2 * ndtr(u) - 1) + m[:, rows] * (1 - 2 * ndtr(u - sigma))
        to_y = (weight[:, rows] * each).sum(0)
        between = np.zeros(len(self))
        for w, mean_k, std_k, m_k in zip(weight, mean, std, m, strict=True):
            width = np.hypot(std_k, std)
            d = (mean_k - mean + std_k**2) / width
            difference = m_k * (2 * ndtr(d) - 1) - m * (2 * ndtr(d - width) - 1)
            between += w * (weight * difference).sum(0)
        return to_y, between[rows]

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        return from_log(self._log.rvs(size, random_state=rng))


@dataclass(frozen=True)
class LogTransform:
    """z = log(y + shift), for targets above −shift."""

    shift: float = 0.0

    def forward(self, y: Floats) -> Floats:
        """Compute log(y + shift); −inf for y ≤ −shift."""
        with np.errstate(divide="ignore"):
            z: Floats = np.log(np.maximum(y + self.shift, 0.0))
        return z

    def inverse(self, z: Floats) -> Floats:
        """Compute exp z − shift; finite where z is."""
        return from_log(z) - self.shift

    def distribution(self, log: ScalarPredictive) -> LognormalMixture:
        """Return the distribution of y from that of z, which must be Gaussian."""
        if not isinstance(log, GaussianMixture):
            raise ValueError("the target has no mean if its logarithm has heavier tails than a Gaussian's")
        return LognormalMixture(log, loc=-self.shift)


def checked_transform(shift: Any) -> LogTransform | None:
    """Return the logarithm with the shift in a model file, if there is one."""
    return None if shift is None else LogTransform(float(settings.number("shift of the transform", shift)))


def mixtures(mean: Floats, var: Floats, loc: Floats, scale: Floats) -> list[GaussianMixture]:
    """Return the mixture of each output, for moments of shape (K, N, n)."""
    units = enumerate(zip(loc, scale, strict=True))
    return [GaussianMixture(mean[:, :, j], var[:, :, j], loc=a, scale=b) for j, (a, b) in units]


def to_log(y: Floats) -> Floats:
    """Compute log y; a very negative number for y ≤ 0."""
    return np.maximum(LogTransform().forward(y), -1e120)


def from_log(z: Floats) -> Floats:
    """Compute exp z; the largest finite exponential where a finite z is larger."""
    return np.where(z == np.inf, np.inf, np.exp(np.minimum(z, _LARGEST_EXPONENT)))


def mean_absolute(mean: Floats, std: Floats) -> Floats:
    """Compute E|X| for X ~ N(mean, std²)."""
    u = mean / std
    return std * (u * (2 * ndtr(u) - 1) + 2 * np.exp(-0.5 * u * u - _HALF_LOG_2PI))
