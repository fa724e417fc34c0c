"""The shallow truncated Gaussian graphical model with Gaussian outputs, §3 of Su et al. (2016).

    p(h | x) = N_T(h | W0 x + b0, s0 I),  h ≥ 0          p(y | h) = N(y | W1 h + b1, diag(s1))

A model emits truncated Gaussians, its prior p(h | x) and its posterior p(h | x, y), and the moments of
y given x, which are exact because the prior is diagonal. Which engine treats the posterior is an argument.

σ0² = s0 is a gauge: scaling W0, b0 by c, s0 by c² and W1 by 1/c leaves p(y | x) unchanged. It is therefore an
argument and not a parameter: it sets the scale at which initialisation, weight decay and steps act.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve

from tggm.gaussian import TruncatedGaussian
from tggm.precision import Diagonal, LowRank
from tggm.special import standard_moments, truncated_log_z

LOG_2PI = 1.8378770664093453

LogPartition = Callable[[TruncatedGaussian], Array]


class Shallow(NamedTuple):
    """Parameters of a shallow model with d inputs, m hidden units and n outputs."""

    W0: Array  # (m, d)
    b0: Array  # (m,)
    W1: Array  # (n, m)
    b1: Array  # (n,)
    log_noise: Array  # (n,) log s1, one output noise variance per output

    def weight_norm(self) -> Array:
        """½‖W0‖² + ½‖W1‖², what weight decay penalises; biases and noise are free."""
        return 0.5 * (self.W0**2).sum() + 0.5 * (self.W1**2).sum()


def locations(params: Shallow, X: Array) -> Array:
    """A = W0 x + b0 for each row, shape (rows, m)."""
    return X @ params.W0.T + params.b0[None, :]


def latent_moments(params: Shallow, X: Array, s0: Array) -> tuple[Array, Array]:
    """E[h | x] and Var[h | x], shape (rows, m) each."""
    sigma0 = jnp.sqrt(s0)
    g, omega2 = standard_moments(locations(params, X) / sigma0)
    return sigma0 * g, s0 * omega2


def output_mean(params: Shallow, X: Array, s0: Array) -> Array:
    """E[y | x] = W1 E[h | x] + b1, shape (rows, n)."""
    return latent_moments(params, X, s0)[0] @ params.W1.T + params.b1[None, :]


def output_moments(params: Shallow, X: Array, s0: Array) -> tuple[Array, Array]:
    """Exact mean and covariance of y given x.

    Returns
    -------
    mean : Array, shape (rows, n)
        W1 E[h | x] + b1.
    cov : Array, shape (rows, n, n)
        W1 diag(Var[h | x]) W1ᵀ + diag(s1). (Paper: Σ_{y|x} lacks the transpose.)
    """
    h, v = latent_moments(params, X, s0)
    W1 = params.W1
    noise = jnp.diag(jnp.exp(params.log_noise))
    cov = jnp.einsum("ik,bk,jk->bij", W1, v, W1) if W1.shape[0] > 1 else (v @ (W1**2).T)[:, :, None]
    return h @ W1.T + params.b1[None, :], cov + noise[None]


def prior(params: Shallow, X: Array, s0: Array) -> TruncatedGaussian:
    """p(h | x): P = I / s0, γ = (W0 x + b0) / s0. Paper: P0 = σ0² I; a precision, so 1/σ0²."""
    a = locations(params, X)
    return TruncatedGaussian(Diagonal(jnp.full_like(params.b0, 1.0) / s0), a / s0)


def prior_log_z(params: Shallow, X: Array, s0: Array) -> Array:
    """Log Z of the prior, exact because its units are independent."""
    return truncated_log_z(locations(params, X) / s0, jnp.full_like(params.b0, 1.0)[None, :] / s0).sum(-1)


def posterior(params: Shallow, X: Array, Y: Array, s0: Array) -> TruncatedGaussian:
    """p(h | x, y): P = I/s0 + UᵀU, γ = (W0 x + b0)/s0 + Uᵀ(y − b1)/σ1, with U = W1/σ1 row by row."""
    precision = jnp.exp(-0.5 * params.log_noise)
    U = params.W1 * precision[:, None]
    scaled = (Y - params.b1[None, :]) * precision[None, :]
    shift = locations(params, X) / s0 + scaled @ U
    return TruncatedGaussian(LowRank(jnp.full_like(params.b0, 1.0) / s0, U), shift)


def log_likelihood(params: Shallow, X: Array, Y: Array, s0: Array, log_partition: LogPartition) -> Array:
    r"""The logarithm of p(y | x) for each row, as good as the engine behind `log_partition`.

    .. math::
        \log p(y|x) = \log Z(P, \gamma) - \log Z(P_0, \gamma_0)
            - \tfrac12 \sum_j \log 2\pi s_{1j} - \tfrac12 \sum_j (y_j - b_{1j})^2 / s_{1j}

    with (P, γ) the posterior and (P0, γ0) the prior, whose log Z is known in closed form.
    """
    residual = (Y - params.b1[None, :]) ** 2 * jnp.exp(-params.log_noise)[None, :]
    constant = 0.5 * (residual + params.log_noise[None, :] + LOG_2PI).sum(-1)
    return log_partition(posterior(params, X, Y, s0)) - prior_log_z(params, X, s0) - constant


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
