"""Gaussian outputs: p(y | h) = N(y | W1 h + b1, diag(s1)), §3 of Su et al. (2016)."""

from dataclasses import replace
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve

from tggm.models.hidden.base import Hidden, Latent
from tggm.models.likelihoods.base import EvidenceEngine, Likelihood, Output
from tggm.models.likelihoods.many_outputs import LOG_2PI as LOG_2PI
from tggm.models.likelihoods.many_outputs import many_outputs_log_density
from tggm.models.part import Zeros, part

MOST_LOG_NOISE = {"float32": 80.0, "float64": 600.0}
LEAST_LOG_NOISE = -600.0  # exp of it is a number in double precision, which densities are computed in


@part
class Gaussian(Likelihood):
    """Numbers, with one noise variance for each output."""

    output: Output
    log_noise: Array  # (n,) log s1

    offers: ClassVar = frozenset({"moments", "mean", "gaussian", "sum"})
    linear_offers: ClassVar = offers
    judged_by_moments: ClassVar = False

    def moments(self, latent: Latent) -> tuple[Array, Array]:
        """Mean (rows, n) and covariance (rows, n, n) of y: W1 E[h] + b1, W1 Cov[h] W1ᵀ + diag(s1).

        (Paper: Σ_{y|x} lacks the transpose.)
        """
        h, cov = latent.covariance(self.output.W1)
        return self.output.of(h), cov + jnp.diag(jnp.exp(self.log_noise))[None]

    def variances(self, latent: Latent) -> tuple[Array, Array]:
        """Mean and variance of each output, (rows, n) each."""
        h, var = latent.variances(self.output.W1)
        return self.output.of(h), var + jnp.exp(self.log_noise)[None, :]

    def by_moments(self, y: Array, latent: Latent) -> Array:
        """The Gaussian that has the first two moments of p(y | x)."""
        outputs, units = self.output.W1.shape
        if outputs > units:
            return self._of_many_outputs(y, latent)
        return gaussian_log_density(y, *self.moments(latent))

    def _of_many_outputs(self, y: Array, latent: Latent) -> Array:
        """The same, from the covariance of the units, which are fewer."""
        W1, root = self.output.W1, jnp.exp(-0.5 * self.log_noise)
        h, cov = latent.covariance(jnp.eye(W1.shape[1], dtype=W1.dtype))
        error = (y - self.output.of(h)) * root[None, :]
        return many_outputs_log_density(error, W1 * root[:, None], cov) - 0.5 * self.log_noise.sum()

    def by_mean(self, y: Array, mean: Array) -> Array:
        """Log N(y | mean, diag(v)), v = exp(log_noise) the same for all rows."""
        log_v = self.log_noise[None, :]
        return -0.5 * ((y - mean) ** 2 * jnp.exp(-log_v) + log_v + LOG_2PI).sum(-1)

    def by_engine(self, y: Array, hidden: Hidden, psi: Any, engine: EvidenceEngine) -> Array:
        r"""The logarithm of p(y | x).

        .. math::
            \log p(y|x) = \log Z(P, \gamma) - \log Z(P_0, \gamma_0)
                - \tfrac12 \sum_j \log 2\pi s_{1j} - \tfrac12 \sum_j (y_j - b_{1j})^2 / s_{1j}

        with (P, γ) the posterior, whose P has UᵀU and whose γ has Uᵀ(y − b1)/σ1 added, U = W1/σ1.
        """
        root = jnp.exp(-0.5 * self.log_noise)
        U = self.output.W1 * root[:, None]
        residual = y - self.output.intercept
        posterior = hidden.gaussian(psi, U, (residual * root[None, :]) @ U)
        squares = residual**2 * jnp.exp(-self.log_noise)[None, :]
        constant = 0.5 * (squares + self.log_noise[None, :] + LOG_2PI).sum(-1)
        return engine.gain(hidden, psi, posterior) - constant

    def terms(self, hidden: Hidden, psi: Any) -> tuple[Array, Array, Array]:
        """One output as b1 + Σ c_k x_k + ε: α and c, (rows, m) each, of unit normals, and s1, (rows,)."""
        alpha = hidden.standard(psi)
        coef = jnp.broadcast_to(jnp.sqrt(hidden.gauge) * self.output.W1, alpha.shape)
        return alpha, coef, jnp.broadcast_to(jnp.exp(self.log_noise), alpha.shape[:1])

    def by_sum(self, y: Array, hidden: Hidden, psi: Any, engine: EvidenceEngine) -> Array:
        """The density of y = b1 + Σ w h + ε itself, not a difference of two log Z: nothing large cancels."""
        return engine.log_density(self.terms(hidden, psi), y[:, 0] - self.output.intercept[:, 0])

    def finished(self, share: Array) -> Self:
        """Training by the mean took v for the whole variance of y given x; the units have a share of it.

        What is left is the noise of the model, a hundredth of v at least.
        """
        v = jnp.exp(self.log_noise)
        return replace(self, log_noise=jnp.log(jnp.maximum(v - share, 0.01 * v)))

    @classmethod
    def draw(cls, output: Output, noise: Any) -> Self:
        """The noise as given: a number, or one for each output."""
        log_noise: Any = np.log(np.broadcast_to(np.asarray(noise, np.float64), np.shape(output.b1)))
        return cls(output, log_noise)

    @classmethod
    def template(cls, zeros: Zeros, output: Output) -> Self:
        """The outputs and log s1."""
        return cls(output, output.b1)

    def check(self, narrow: str) -> None:
        """The noise must be a number."""
        noise, most = np.asarray(self.log_noise), MOST_LOG_NOISE[narrow]
        if noise.min() < LEAST_LOG_NOISE or noise.max() > most:
            raise ValueError(
                f"the noise must be between exp({LEAST_LOG_NOISE:g}) and exp({most:g}), and is not"
            )


def gaussian_log_density(Y: Array, mean: Array, cov: Array) -> Array:
    """Log N(y | mean, cov) for each row; Y and mean (rows, n), cov (rows, n, n)."""
    error = Y - mean
    if Y.shape[-1] == 1:  # a scalar per row: no batched Cholesky of 1×1 matrices
        variance = cov[:, 0, 0]
        return -0.5 * (error[:, 0] ** 2 / variance + jnp.log(variance) + LOG_2PI)
    L = cholesky(cov)
    t = triangular_solve(L, error[:, :, None], left_side=True, lower=True)[:, :, 0]
    log_det = 2 * jnp.log(jnp.diagonal(L, axis1=1, axis2=2)).sum(-1)
    return -0.5 * ((t**2).sum(-1) + log_det + Y.shape[-1] * LOG_2PI)
