r"""Forward propagation of means and variances through a directed deep model.

Given x the first layer is exact. Above it, the location u = W h + b of a unit is a sum over the layer below
and taken for a Gaussian with the mean and variance that follow from that layer, so that

.. math::
    E[h] = E_u[\sigma_0\, g(u/\sigma_0)], \qquad
    \mathrm{Var}[h] = E_u[s_0\, \omega^2(u/\sigma_0)] + \mathrm{Var}_u[\sigma_0\, g(u/\sigma_0)],

by Gauss–Hermite quadrature. Units of a layer above the first share the noise of the layers below. To first
order h = E[h] + κ (u − E[u]) + own noise, with κ = E[ω²] the mean slope (for a Gaussian u, κ Var[u] is the
exact covariance of h and u), so that the variance of an output is a sum over the units of all layers of

.. math::
    J_k^2 \cdot \text{variance of the unit's own noise}, \qquad
    J^{L} = W_1, \quad J^{l} = J^{l+1} \mathrm{diag}(\kappa^{l+1})\, W^l,

which is what back-propagating the output's weights gives. docs/deep.md shows the accuracy against sampling.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.models.deep import Deep, Directed, shallow
from tggm.models.shallow import latent_moments
from tggm.special import standard_moments

N_NODES = 7
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(N_NODES)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class LayerMoments(NamedTuple):
    """Moments of a layer's units given x, (rows, m) each."""

    mean: Array
    var: Array
    slope: Array  # κ, mean derivative of E[h | u] by u
    own: Array  # the part of the variance that comes from no layer below


def _above(params: Deep, s0: Array, level: int, below: LayerMoments) -> LayerMoments:
    """Moments of the layer above `below`, which is number `level` counted from 0."""
    W, b = params.W[level], params.b[level]
    sigma0 = jnp.sqrt(s0)
    dtype = below.mean.dtype
    nodes, weights = (jnp.asarray(a, dtype)[:, None, None] for a in (_NODES, _WEIGHTS))
    mean, var = below.mean @ W.T + b[None, :], below.var @ (W**2).T
    spread = jnp.sqrt(var + np.finfo(dtype).tiny)
    g, omega2 = standard_moments((mean[None] + spread[None] * nodes) / sigma0)
    centre = (weights * g).sum(0)
    slope = (weights * omega2).sum(0)
    moved = s0 * (weights * (g - centre[None]) ** 2).sum(0)
    own = s0 * slope + jnp.maximum(moved - slope**2 * var, 0.0)
    return LayerMoments(sigma0 * centre, s0 * slope + moved, slope, own)


def layer_moments(params: Deep, X: Array, s0: Array) -> list[LayerMoments]:
    """Moments of every hidden layer given x, the first exact."""
    mean, var = latent_moments(shallow(params), X, s0)
    layers = [LayerMoments(mean, var, jnp.ones_like(var), var)]
    for level in range(len(params.W)):
        layers.append(_above(params, s0, level, layers[-1]))
    return layers


def directed_mean(params: Directed, X: Array, s0: Array) -> Array:
    """E[y | x], shape (rows, n)."""
    return layer_moments(params, X, s0)[-1].mean @ params.W1.T + params.b1[None, :]


def _sensitivities(params: Directed, layers: list[LayerMoments], weights: Array) -> list[Array]:
    """J^l, (rows, n, m_l), of `weights` h^L for every layer, the last first."""
    J = jnp.broadcast_to(weights[None], (layers[-1].own.shape[0], *weights.shape))
    found = [J]
    for level in reversed(range(len(params.W))):
        J = jnp.einsum("bik,km->bim", J * layers[level + 1].slope[:, None, :], params.W[level])
        found.append(J)
    return found


def _variance(params: Directed, layers: list[LayerMoments], weights: Array) -> Array:
    """Variances of `weights` h^L, (rows, n)."""
    pairs = zip(_sensitivities(params, layers, weights), reversed(layers), strict=True)
    return jnp.stack([jnp.einsum("bik,bk->bi", J**2, layer.own) for J, layer in pairs]).sum(0)


def _covariance(params: Directed, layers: list[LayerMoments], weights: Array) -> Array:
    """Covariance of `weights` h^L, (rows, n, n)."""
    pairs = zip(_sensitivities(params, layers, weights), reversed(layers), strict=True)
    return jnp.stack([(J * layer.own[:, None, :]) @ J.mT for J, layer in pairs]).sum(0)


def directed_output_moments(params: Directed, X: Array, s0: Array) -> tuple[Array, Array]:
    """Mean (rows, n) and covariance (rows, n, n) of y given x, noise included."""
    layers = layer_moments(params, X, s0)
    noise = jnp.diag(jnp.exp(params.log_noise))
    mean = layers[-1].mean @ params.W1.T + params.b1[None, :]
    return mean, _covariance(params, layers, params.W1) + noise[None]


def directed_class_moments(params: Directed, X: Array, s0: Array) -> tuple[Array, Array]:
    """Means and deviations of z as independent normals; see `tggm.models.probit.class_moments`."""
    layers = layer_moments(params, X, s0)
    n = params.b1.shape[0]
    contrast = params.W1 - params.W1.mean(0, keepdims=True)
    shared = _variance(params, layers, contrast)
    mean = layers[-1].mean @ params.W1.T + params.b1[None, :]
    return mean, jnp.sqrt(1 + shared * (n / (n - 1)))
