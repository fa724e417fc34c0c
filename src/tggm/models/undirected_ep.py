r"""Expectation propagation for the class of an undirected deep model: all hidden layers and z together.

As in `tggm.models.probit_ep`, with the same sites and the block tridiagonal P of all layers in the place of
I/s0. Under the sites on h alone h ~ N(h0, Σ), and z = W1 h^L + b1 + ε enters through y_j = z_c − z_j, so with
G = Σ W1ᵀ a sweep costs a factorisation of P and n solves a row. With K the precision that the
sites on y put on z,

    E[ε] = κ_z,   E[h] = h0 + G κ_z,   Cov[h] = Σ − G K Gᵀ,   Cov[ε, h] = −K Gᵀ,

from which the gradient of log Z follows: nothing is differentiated through a factorisation.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.inference.ep.layered import Blocks, covariance_blocks, gaussian_energy
from tggm.models.class_sites import Marginals, Sites, differences, fit_sites, walls
from tggm.models.deep import Undirected
from tggm.models.deep_energy import at_top, deep_prior, top
from tggm.models.shallow import LOG_2PI
from tggm.precision.protocol import rounding
from tggm.special.probit import own_class


class Joint(NamedTuple):
    """The Gaussian with walls replaced by sites."""

    marginals: Marginals
    log_z: Array  # (rows,)
    noise: Array  # (rows, n) E[ε]
    spread: Array  # (rows, M, n) V with Cov[h] = Σ − V Vᵀ
    cross: Array  # (rows, n, M) Cov[ε, h]
    factor: Any  # of P + Λ


def _gaussian(params: Undirected, tg: TruncatedGaussian, own: Array, sites: Sites) -> Joint:
    W1 = params.W1
    factor = tg.precision.factor(sites.h_precision)
    shift = tg.shift + sites.h_shift
    h0 = factor.solve(shift)

    def column(w: Array) -> Array:
        return factor.solve(jnp.broadcast_to(at_top(params, w)[None, :], shift.shape))

    G = jnp.moveaxis(jax.vmap(column)(W1), 0, 2)
    C = jnp.eye(len(W1), dtype=W1.dtype)[None] + jnp.einsum(
        "ik,bkj->bij", W1, G[:, G.shape[1] - W1.shape[1] :]
    )
    y = differences(own, top(params, h0) @ W1.T + params.b1[None, :], C, sites)
    V = G @ y.root.mT
    var0 = factor.variances()
    h_var = var0 * jnp.maximum(1 - (V**2).sum(-1) / var0, rounding(var0.dtype))
    own_log_z = (shift * h0).sum(-1) - factor.log_det() + shift.shape[1] * LOG_2PI
    q = Marginals(h0 + jnp.einsum("bkj,bj->bk", G, y.back), h_var, y.mean, y.var)
    cross = -(y.root.mT @ V.mT)
    return Joint(q, 0.5 * (own_log_z + y.fit), y.back, V, cross, factor)


def undirected_class_ep(params: Undirected, X: Any, label: Array, s0: Array, max_iter: Array) -> Array:
    """EP's log Z of h and z given each row's class, differentiable."""
    own = own_class(label[:, None] + jnp.zeros_like(params.b1, label.dtype)[None, :], label)
    fixed = lax.stop_gradient(params)
    held = deep_prior(fixed, X, s0)
    alone = jnp.zeros_like(held.shift) + held.precision.diagonal()[None, :]
    sites = fit_sites(lambda sites: _gaussian(fixed, held, own, sites).marginals, alone, own, max_iter)
    q = _gaussian(fixed, held, own, sites)
    value = q.log_z + walls(q.marginals, own, sites)
    below = covariance_blocks(q.factor)
    parts = held.precision.split(q.spread.mT)  # type: ignore[attr-defined]  # a Layered, as deep_prior makes it
    blocks = Blocks(
        tuple(S - v.mT @ v for S, v in zip(below.diagonal, parts, strict=True)),
        tuple(S - b.mT @ a for S, a, b in zip(below.lower, parts[:-1], parts[1:], strict=True)),
    )
    mean, blocks, noise, cross = lax.stop_gradient((q.marginals.h_mean, blocks, q.noise, q.cross))
    second = top(params, cross + noise[:, :, None] * mean[:, None, :])
    energy = gaussian_energy(deep_prior(params, X, s0), mean, blocks)
    energy = energy + jnp.einsum("jk,bjk->b", params.W1, second) + noise @ params.b1
    return lax.stop_gradient(value - energy) + energy
