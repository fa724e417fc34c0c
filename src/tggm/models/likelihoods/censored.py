"""Gaussian outputs that are not all there: missing (NaN) or known to lie beyond a limit.

A missing target leaves its variable out of the row's likelihood; a limit contributes the probability of the
side it tells of. Where the density is taken for a Gaussian with the moments that is a Gaussian tail. For
engines it is the tail of the model's own distribution by Fourier inversion, exact also where EP or mean field
treat the measured rows. Limits are for one output; several at once, or limits on latent variables, are for
`tggm.Graph`.
"""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tggm.models.hidden.base import Hidden, Latent
from tggm.models.likelihoods.base import EvidenceEngine, Likelihood, Output
from tggm.models.likelihoods.gaussian import LOG_2PI, Gaussian, gaussian_log_density
from tggm.models.part import Zeros, part
from tggm.special import log_ndtr


class Incomplete(NamedTuple):
    """Targets, some of which are missing or limits."""

    value: Array  # (rows, n), NaN where missing
    side: Array  # (rows, n) 0 measured, 1 at least `value`, −1 at most it

    def split(self) -> tuple[Array, Array, Array]:
        """Targets without NaN, 1 where there is one, and sides."""
        there = ~jnp.isnan(self.value)
        return jnp.where(there, self.value, 0.0), there.astype(self.value.dtype), self.side


def measured(y: Any) -> NDArray[np.float64]:
    """Targets of training as NumPy numbers, NaN where one is missing or a limit."""
    if not isinstance(y, Incomplete):
        return np.asarray(y, np.float64)
    return np.where(np.asarray(y.side) == 0, np.asarray(y.value, np.float64), np.nan)


@part
class CensoredGaussian(Likelihood):
    """As `Gaussian`, for targets that are `Incomplete`."""

    output: Output
    log_noise: Array  # (n,)

    offers: ClassVar = frozenset({"moments", "mean", "gaussian", "sum"})
    linear_offers: ClassVar = offers
    judged_by_moments: ClassVar = False

    @classmethod
    def of(cls, fitted: Likelihood) -> Self:
        """Gaussian outputs, for targets that are not all there."""
        assert isinstance(fitted, Gaussian)
        return cls(fitted.output, fitted.log_noise)

    @property
    def whole(self) -> Gaussian:
        """The same for targets that are all measured."""
        return Gaussian(self.output, self.log_noise)

    def by_moments(self, y: Incomplete, latent: Latent) -> Array:
        """Log-density of the measured targets, log-probability of a limit."""
        Y, there, side = y.split()
        mean, cov = self.whole.moments(latent)
        if Y.shape[1] == 1:
            measured = gaussian_log_density(Y, mean, cov)
            limit = log_ndtr(side * (mean - Y) / jnp.sqrt(cov[:, :, 0]))[:, 0]
            return there[:, 0] * jnp.where(side[:, 0] == 0, measured, limit)
        # what is missing becomes standard normal and is measured at 0: it adds −½ log 2π, taken back
        pairs = there[:, :, None] * there[:, None, :]
        cov = cov * pairs + jnp.eye(Y.shape[1], dtype=Y.dtype)[None] * (1 - there)[:, :, None]
        value = gaussian_log_density(Y * there, mean * there, cov)
        return value + 0.5 * LOG_2PI * (1 - there).sum(1)

    def by_mean(self, y: Incomplete, mean: Array) -> Array:
        """A Gaussian of constant variance for each output by itself."""
        Y, there, side = y.split()
        log_v = self.log_noise[None, :]
        z = (mean - Y) * jnp.exp(-0.5 * log_v)
        measured = -0.5 * (z**2 + log_v + LOG_2PI)
        return (there * jnp.where(side == 0, measured, log_ndtr(side * z))).sum(1)

    def by_engine(self, y: Incomplete, hidden: Hidden, psi: Any, engine: EvidenceEngine) -> Array:
        """A row's posterior is that of its measured targets."""
        Y, there, side = y.split()
        if Y.shape[1] == 1:
            measured = self.whole.by_engine(Y, hidden, psi, engine)
            limit = engine.log_tail(
                self.terms(hidden, psi), Y[:, 0] - self.output.intercept[:, 0], side[:, 0]
            )
            return there[:, 0] * jnp.where(side[:, 0] == 0, measured, limit)

        def row(x: Array, y: Array, o: Array, b1: Array) -> Array:
            # an output without weights or residual adds its normaliser only, which is taken back
            part_ = replace(self.whole, output=Output(self.output.W1 * o[:, None], b1))
            y = jnp.where(o > 0, y, b1)
            one = part_.by_engine(y[None], hidden, x[None], engine)[0]
            return one + 0.5 * ((1 - o) * (self.log_noise + LOG_2PI)).sum()

        intercept = jnp.broadcast_to(self.output.intercept, Y.shape)
        out: Array = jax.vmap(row)(psi, Y, there, intercept)
        return out

    def by_sum(self, y: Incomplete, hidden: Hidden, psi: Any, engine: EvidenceEngine) -> Array:
        """Density of a measured target, tail of a limit."""
        limit = engine.log_tail(
            self.terms(hidden, psi), y.value[:, 0] - self.output.intercept[:, 0], y.side[:, 0]
        )
        return jnp.where(y.side[:, 0] == 0, self.whole.by_sum(y.value, hidden, psi, engine), limit)

    def terms(self, hidden: Hidden, psi: Any) -> tuple[Array, Array, Array]:
        """As those of `Gaussian`."""
        return self.whole.terms(hidden, psi)

    def finished(self, share: Array) -> Self:
        """As that of `Gaussian`."""
        return replace(self, log_noise=self.whole.finished(share).log_noise)

    @classmethod
    def draw(cls, output: Output, noise: Any) -> Self:
        """As that of `Gaussian`."""
        return cls(output, Gaussian.draw(output, noise).log_noise)

    @classmethod
    def template(cls, zeros: Zeros, output: Output) -> Self:
        """As that of `Gaussian`."""
        return cls(output, output.b1)
