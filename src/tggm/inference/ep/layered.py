r"""Log Z of a layered truncated Gaussian by EP, with its gradient from EP's covariance.

Nothing is differentiated through a factorisation: the gradient of log Z is E[h] and −½ E[hhᵀ], of which a
block tridiagonal P needs the blocks on the diagonal and next to it,

.. math::
    \Sigma_{LL} = C_L^{-1}, \qquad \Sigma_{ll} = C_l^{-1} + G_l^T \Sigma_{l+1,l+1} G_l, \qquad
    \Sigma_{l+1,l} = -\Sigma_{l+1,l+1} G_l,

with C and G as in `tggm.precision.layered`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.inference.ep.engine import by_limits, log_z_value
from tggm.inference.ep.sites import cavities, gaussian_sites, site_tolerance
from tggm.precision import Layered
from tggm.precision.layered import LayeredFactor


class CovarianceBlocks(NamedTuple):
    """Covariance of EP's Gaussian: blocks on the diagonal, (rows, m_l, m_l), and below it."""

    diagonal: tuple[Array, ...]
    lower: tuple[Array, ...]  # (rows, m_{l+1}, m_l)


def covariance_blocks(factor: LayeredFactor) -> CovarianceBlocks:
    """The blocks of the inverse that P itself has."""
    diagonal: list[Array] = []
    lower: list[Array] = []
    for i in reversed(range(len(factor.roots))):
        block = factor.roots[i].R.mT @ factor.roots[i].R
        if diagonal:
            side = diagonal[0] @ factor.gains[i]
            lower.insert(0, -side)
            block = block + factor.gains[i].mT @ side
        diagonal.insert(0, block)
    return CovarianceBlocks(tuple(diagonal), tuple(lower))


def layered_ep(tg: TruncatedGaussian, max_iter: Array) -> Array:
    """EP's log Z for each row, differentiable in the shift and every block of the precision."""
    fixed = jax.tree.map(lax.stop_gradient, tg)
    sites = gaussian_sites(fixed, max_iter, site_tolerance(tg.shift.dtype))
    factor = fixed.precision.factor(sites.precision)
    if not isinstance(factor, LayeredFactor):
        raise TypeError(f"`tg` must have a Layered precision; got {type(tg.precision).__name__}.")
    mean = factor.solve(fixed.shift + sites.shift)
    blocks = covariance_blocks(factor)
    var = jnp.concatenate([jnp.diagonal(b, axis1=1, axis2=2) for b in blocks.diagonal], axis=1)
    value = log_z_value(fixed, sites, mean, var, factor.log_det())
    energy = gaussian_energy(tg, *lax.stop_gradient((mean, blocks)))
    result = lax.stop_gradient(value - energy) + energy
    return result if tg.limits is None else result + by_limits(tg, cavities(mean, var, sites))


def gaussian_energy(tg: TruncatedGaussian, mean: Array, blocks: CovarianceBlocks) -> Array:
    """E[−½ hᵀPh + γᵀh] under a Gaussian with this mean and these blocks of its covariance."""
    P = tg.precision
    assert isinstance(P, Layered)
    quadratic = ((P.off_diagonal(mean) + P.diagonal()[None, :] * mean) * mean).sum(-1)
    for A, S in zip(P.diagonal_blocks, blocks.diagonal, strict=True):
        quadratic = quadratic + jnp.einsum("ij,bij->b", A, S)
    for B, S in zip(P.lower_blocks, blocks.lower, strict=True):
        quadratic = quadratic + 2 * jnp.einsum("ij,bij->b", B, S)
    return (tg.shift * mean).sum(-1) - 0.5 * quadratic
