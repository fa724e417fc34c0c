r"""The truncated Gaussians of a deep model: all its hidden layers together, without and with what y says.

With u¹ = W0 x + b0 and u^{l+1} = W^l h^l + b^l the energy Σ_l ‖h^l − u^l‖² / 2 s0 is a quadratic form whose
precision is block tridiagonal,

.. math::
    A_l = (I + W^{lT} W^l) / s_0 \;\; (A_L = I / s_0), \qquad B_l = -W^l / s_0, \qquad
    \gamma^l = (b^{l-1} - W^{lT} b^l) / s_0 \;\; (b^{0} = W_0 x + b_0,\; \gamma^L = b^{L-1} / s_0),

and y adds UᵀU to A_L and Uᵀ(y − b1)/σ1 to γ^L, U = W1/σ1. For the undirected model they are its prior and its
posterior. (Supplement, Eqs. for Q, β, P_i, γ_i: those scale the output's blocks by 1/σ0² too.)
"""

import jax.numpy as jnp
from jax import Array

from tggm.gaussian import TruncatedGaussian
from tggm.models.deep import Deep, shallow
from tggm.models.shallow import LOG_2PI, LogPartition, locations
from tggm.precision import Layered


def layer_sizes(params: Deep) -> tuple[int, ...]:
    """Units in each hidden layer."""
    return (params.b0.shape[0], *(b.shape[0] for b in params.b))


def top(params: Deep, v: Array) -> Array:
    """The last hidden layer's part of the last axis."""
    return v[..., v.shape[-1] - params.W1.shape[1] :]


def at_top(params: Deep, v: Array) -> Array:
    """A vector for the last hidden layer as one for all layers, zero elsewhere."""
    below = sum(layer_sizes(params)[:-1])
    return jnp.pad(v, [*[(0, 0)] * (v.ndim - 1), (below, 0)])


def deep_precision(params: Deep, s0: Array, U: Array | None = None) -> Layered:
    """P of all hidden layers, with UᵀU added to the last block if U is given."""
    blocks = []
    for i, m in enumerate(layer_sizes(params)):
        A = jnp.eye(m, dtype=params.W0.dtype)
        if i < len(params.W):
            A = A + params.W[i].T @ params.W[i]
        blocks.append(A / s0)
    if U is not None:
        blocks[-1] = blocks[-1] + U.T @ U
    return Layered(tuple(blocks), tuple(-W / s0 for W in params.W))


def deep_shift(params: Deep, X: Array, s0: Array) -> Array:
    """γ of the prior, (rows, m_1 + … + m_L)."""
    biases = [locations(shallow(params), X), *(b[None, :] for b in params.b)]
    parts = []
    for i, bias in enumerate(biases):
        pull = params.b[i] @ params.W[i] if i < len(params.W) else jnp.zeros_like(params.W1[0])
        parts.append(jnp.broadcast_to((bias - pull[None, :]) / s0, (biases[0].shape[0], bias.shape[1])))
    return jnp.concatenate(parts, axis=1)


def deep_prior(params: Deep, X: Array, s0: Array) -> TruncatedGaussian:
    """The Gaussian of all hidden layers given x."""
    return TruncatedGaussian(deep_precision(params, s0), deep_shift(params, X, s0))


def deep_posterior(params: Deep, X: Array, Y: Array, s0: Array) -> TruncatedGaussian:
    """The Gaussian of all hidden layers given x and y."""
    root = jnp.exp(-0.5 * params.log_noise)
    U = params.W1 * root[:, None]
    pull = ((Y - params.b1[None, :]) * root[None, :]) @ U
    return TruncatedGaussian(deep_precision(params, s0, U), deep_shift(params, X, s0) + at_top(params, pull))


def output_constant(params: Deep, Y: Array) -> Array:
    """½ Σ_j [log 2π s1_j + (y_j − b1_j)² / s1_j], what is subtracted from the posterior's log Z."""
    residual = (Y - params.b1[None, :]) ** 2 * jnp.exp(-params.log_noise)[None, :]
    return 0.5 * (residual + params.log_noise[None, :] + LOG_2PI).sum(-1)


def undirected_log_likelihood(
    params: Deep, X: Array, Y: Array, s0: Array, above: LogPartition, below: LogPartition
) -> Array:
    """Log p(y | x) of the undirected model: log Z of the posterior less log Z of the prior.

    As good as the two functions that compute them; a lower bound if `above` gives one and `below` an upper
    bound.
    """
    posterior = above(deep_posterior(params, X, Y, s0))
    return posterior - below(deep_prior(params, X, s0)) - output_constant(params, Y)
