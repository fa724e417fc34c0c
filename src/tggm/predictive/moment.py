"""A mixture of Gaussians, one for each ensemble member: what deep and very wide models say of y.

Models with lateral connections say the same, but for the density, which an engine computes.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, logsumexp, ndtr

from tggm.arrays import Floats, Ints
from tggm.predictive.base import ScalarPredictive, exponential, mixture_weights

_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
LogDensity = Callable[[Ints, Floats], Floats]


class GaussianMixture(ScalarPredictive):
    """Y = loc + scale · Z; all but the density is that of a mixture of N(mean_k, var_k), row by row.

    Parameters
    ----------
    mean, var : array_like, shape (K, N)
        Mean and variance of each member at each row.
    member_weights : array_like, shape (K,), optional
        Equal by default.
    loc, scale : float
        Affine map from what the model predicts to the output.
    """

    def __init__(
        self,
        mean: ArrayLike,
        var: ArrayLike,
        *,
        member_weights: ArrayLike | None = None,
        loc: float = 0.0,
        scale: float = 1.0,
    ) -> None:
        m, v = np.asarray(mean, dtype=np.float64), np.asarray(var, dtype=np.float64)
        if m.ndim != 2 or m.shape != v.shape:
            raise ValueError(
                f"`mean` and `var` must have one shape (members, rows); got {m.shape} and {v.shape}."
            )
        if not np.all(v > 0):
            raise ValueError(f"`var` must be positive; smallest is {v.min()!r}.")
        super().__init__(m.shape[1], mixture_weights(member_weights, len(m)), loc, scale)
        self._mean, self._std = m, np.sqrt(v)

    def _member_moments(self) -> tuple[Floats, Floats]:
        return self._mean, self._std**2

    def log_mean_exp(self, order: float) -> Floats | None:
        """Log of E exp(order · Y), (N,)."""
        s = order * self._scale
        return order * self._loc + self._mixed(s * self._mean + 0.5 * s**2 * self._std**2)

    def _standard(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        std = self._std[:, rows]
        return (z[None, :] - self._mean[:, rows]) / std, std

    def _mixed(self, log: Floats) -> Floats:
        mixed: Floats = logsumexp(log, axis=0, b=self._mix[:, None])
        return mixed

    def _gaussian_log_density(self, rows: Ints, z: Floats) -> Floats:
        return self._mixed(self._gaussian_log_densities(rows, z))

    def _gaussian_log_densities(self, rows: Ints, z: Floats) -> Floats:
        """Of each member, (K, pairs)."""
        u, std = self._standard(rows, z)
        densities: Floats = -0.5 * u * u - np.log(std) - _HALF_LOG_2PI
        return densities

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        u, _ = self._standard(rows, z)
        low, high = (np.minimum(self._mixed(log_ndtr(x)), 0.0) for x in (u, -u))  # weights round
        return low, high

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        u, _ = self._standard(rows, z)
        return self._mix @ ndtr(u), exponential(self._gaussian_log_density(rows, z))

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        to_z = self._mix @ _mean_absolute(z[None, :] - self._mean[:, rows], self._std[:, rows])
        between = np.zeros(len(self))
        for w, mean, std in zip(self._mix, self._mean, self._std, strict=True):
            between += w * (self._mix @ _mean_absolute(mean - self._mean, np.hypot(std, self._std)))
        return to_z, between[rows]

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        member = rng.choice(len(self._mix), size=(size, len(self)), p=self._mix)
        row = np.arange(len(self))[None, :]
        return self._mean[member, row] + self._std[member, row] * rng.standard_normal((size, len(self)))


class MomentPredictive(GaussianMixture):
    """The mixture of Gaussians itself."""

    def __getitem__(self, rows: slice | Ints) -> "MomentPredictive":
        """The distributions of some rows."""
        return MomentPredictive(
            self._mean[:, rows],
            self._std[:, rows] ** 2,
            member_weights=self._mix,
            loc=self._loc,
            scale=self._scale,
        )

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        return self._gaussian_log_density(rows, z)


class EnginePredictive(GaussianMixture):
    """Log-densities by an engine; distribution function, quantiles, scores and draws of Gaussians.

    Parameters
    ----------
    mean, var : array_like, shape (K, N)
        Moments of each member at each row.
    log_density : callable
        Takes rows and standardised values of one length, gives log-densities of each member, (K, length).
    loc, scale : float
        Affine map from what the model predicts to the output.
    """

    def __init__(
        self,
        mean: ArrayLike,
        var: ArrayLike,
        log_density: LogDensity,
        *,
        loc: float = 0.0,
        scale: float = 1.0,
    ) -> None:
        super().__init__(mean, var, loc=loc, scale=scale)
        self._of_members = log_density

    def __getitem__(self, rows: slice | Ints) -> "EnginePredictive":
        """The distributions of some rows."""
        numbers, whole = np.arange(len(self))[rows], self._of_members

        def log_density(some: Ints, z: Floats) -> Floats:
            return whole(numbers[some], z)

        var = self._std[:, rows] ** 2
        return EnginePredictive(self._mean[:, rows], var, log_density, loc=self._loc, scale=self._scale)

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        members = np.array(self._of_members(rows, z), dtype=np.float64)
        if (lost := np.isnan(members)).any():  # noise too small for the engine: take their moments
            members[lost] = self._gaussian_log_densities(rows, z)[lost]
        return self._mixed(members)

    def _density(self, rows: Ints, z: Floats) -> Floats:
        return exponential(self._log_density(rows, z))


def _mean_absolute(mean: Floats, std: Floats) -> Floats:
    """E|X| for X ~ N(mean, std²)."""
    u = mean / std
    value: Floats = std * (u * (2 * ndtr(u) - 1) + 2 * np.exp(-0.5 * u * u - _HALF_LOG_2PI))
    return value
