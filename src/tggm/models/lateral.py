"""The shallow model with lateral connections between its hidden units, which the paper leaves to the future.

    p(h | x) = N_T(h | W0 x + b0, P0⁻¹),      P0 = (I + VᵀV) / s0,      V of a few rows

A pair of units whose columns of V have a positive product inhibit each other, a negative one excite. The
prior is no longer independent, so that its log Z and its moments need an engine as those of the posterior
do; for `LowRank` that costs what the posterior costs.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.gaussian import TruncatedGaussian
from tggm.models.shallow import LOG_2PI, LogPartition, Shallow, locations
from tggm.precision import LowRank


class Lateral(NamedTuple):
    """Parameters of a shallow model and its lateral connections."""

    W0: Array  # (m, d)
    b0: Array  # (m,)
    W1: Array  # (n, m)
    b1: Array  # (n,)
    log_noise: Array  # (n,)
    V: Array  # (rank, m), in units of 1/σ0: the gauge does not touch it

    @property
    def shallow(self) -> Shallow:
        """The model without its lateral connections."""
        return Shallow(*self[:5])

    def weight_norm(self) -> Array:
        """½‖W0‖² + ½‖W1‖² + ½‖V‖²."""
        return self.shallow.weight_norm() + 0.5 * (self.V**2).sum()


def connected(params: Shallow, rank: int, rng: np.random.Generator) -> "Shallow | Lateral":
    """The model with small random lateral connections; as it is for rank 0."""
    if not rank:
        return params
    V: Any = 0.1 * rng.standard_normal((rank, params.W0.shape[0]))
    return Lateral(*params, V=V)


def lateral_rank(params: "Shallow | Lateral") -> int:
    """Rank of the lateral connections of members, 0 if there are none."""
    return int(params.V.shape[-2]) if isinstance(params, Lateral) else 0


def lateral_prior(params: Lateral, X: Array, s0: Array) -> TruncatedGaussian:
    """p(h | x): P = (I + VᵀV)/s0, γ = P (W0 x + b0)."""
    a = locations(params.shallow, X)
    base = jnp.full_like(params.b0, 1.0) / s0
    V = params.V / jnp.sqrt(s0)
    return TruncatedGaussian(LowRank(base, V), a / s0 + (a @ V.T) @ V)


def lateral_posterior(params: Lateral, X: Array, Y: Array, s0: Array) -> TruncatedGaussian:
    """p(h | x, y): the prior's P and γ with UᵀU and Uᵀ(y − b1)/σ1 added, U = W1/σ1."""
    prior = lateral_prior(params, X, s0)
    precision = jnp.exp(-0.5 * params.log_noise)
    U = params.W1 * precision[:, None]
    scaled = (Y - params.b1[None, :]) * precision[None, :]
    factors = jnp.concatenate([params.V / jnp.sqrt(s0), U])
    base = jnp.full_like(params.b0, 1.0) / s0
    return TruncatedGaussian(LowRank(base, factors), prior.shift + scaled @ U)


def lateral_log_likelihood(
    params: Lateral, X: Array, Y: Array, s0: Array, log_partition: LogPartition
) -> Array:
    """Log p(y | x) of each row: posterior log Z less prior log Z, both as good as the engine behind them."""
    residual = (Y - params.b1[None, :]) ** 2 * jnp.exp(-params.log_noise)[None, :]
    constant = 0.5 * (residual + params.log_noise[None, :] + LOG_2PI).sum(-1)
    above = log_partition(lateral_posterior(params, X, Y, s0))
    return above - log_partition(lateral_prior(params, X, s0)) - constant
