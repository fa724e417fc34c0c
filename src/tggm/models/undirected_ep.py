r"""Expectation propagation for the class of an undirected deep model: all hidden layers and z together.

As in `tggm.models.probit_ep`, with the block tridiagonal P of all layers in the place of I/s0. Under the
sites on h alone h ~ N(h0, Σ), and z = W1 h^L + b1 + ε enters through y_j = z_c − z_j, so with G = Σ W1ᵀ a
sweep costs a factorisation of P and n solves a row. With K the precision that the sites on y put on z,

    E[ε] = κ_z,   E[h] = h0 + G κ_z,   Cov[h] = Σ − G K Gᵀ,   Cov[ε, h] = −K Gᵀ,

from which the gradient of log Z follows: nothing is differentiated through a factorisation.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve

from tggm.gaussian import TruncatedGaussian
from tggm.inference.layered_ep import Blocks, covariance_blocks, gaussian_energy
from tggm.models.deep import Undirected
from tggm.models.deep_energy import at_top, deep_prior, top
from tggm.models.probit_ep import Sites, _contrast, _matched, _wall
from tggm.models.shallow import LOG_2PI
from tggm.precision.protocol import rounding
from tggm.special import standard_moments
from tggm.special.probit import own_class


class Joint(NamedTuple):
    """The Gaussian with walls replaced by sites."""

    h_mean: Array  # (rows, M)
    h_var: Array  # (rows, M)
    y_mean: Array  # (rows, n)
    y_var: Array  # (rows, n)
    log_z: Array  # (rows,)
    noise: Array  # (rows, n) E[ε]
    spread: Array  # (rows, M, n) V with Cov[h] = Σ − V Vᵀ
    cross: Array  # (rows, n, M) Cov[ε, h]
    factor: Any  # of P + Λ


def _gaussian(params: Undirected, tg: TruncatedGaussian, own: Array, sites: Sites) -> Joint:
    W1 = params.W1
    n = W1.shape[0]
    eye = jnp.eye(n, dtype=W1.dtype)[None]
    factor = tg.precision.factor(sites.h_precision)
    shift = tg.shift + sites.h_shift
    h0 = factor.solve(shift)

    def column(w: Array) -> Array:
        return factor.solve(jnp.broadcast_to(at_top(params, w)[None, :], shift.shape))

    G = jnp.moveaxis(jax.vmap(column)(W1), 0, 2)
    C = eye + jnp.einsum("ik,bkj->bij", W1, G[:, G.shape[1] - W1.shape[1] :])
    delta = _contrast(own, top(params, h0) @ W1.T + params.b1[None, :])
    Delta = _contrast(own, _contrast(own, C).mT).mT
    root = jnp.sqrt(sites.y_precision)
    L = cholesky(eye + root[:, :, None] * Delta * root[:, None, :])
    R = triangular_solve(L, root[:, :, None] * eye, left_side=True, lower=True)
    pull = delta + (Delta @ sites.y_shift[:, :, None])[:, :, 0]
    kappa = sites.y_shift - (R.mT @ (R @ pull[:, :, None]))[:, :, 0]
    y_mean = delta + (Delta @ kappa[:, :, None])[:, :, 0]
    y_var = jnp.diagonal(Delta, axis1=1, axis2=2) - ((R @ Delta) ** 2).sum(1)
    # from differences back to z
    noise = jnp.where(own, kappa.sum(-1, keepdims=True), 0.0) - kappa
    R_z = jnp.where(own[:, None, :], R.sum(-1, keepdims=True), 0.0) - R
    V = G @ R_z.mT
    var0 = factor.variances()
    h_var = var0 * jnp.maximum(1 - (V**2).sum(-1) / var0, rounding(var0.dtype))
    log_det = 2 * jnp.log(jnp.diagonal(L, axis1=1, axis2=2)).sum(-1)
    fit = (sites.y_shift * (delta + pull)).sum(-1) - ((R @ pull[:, :, None]) ** 2).sum((1, 2)) - log_det
    own_log_z = (shift * h0).sum(-1) - factor.log_det() + shift.shape[1] * LOG_2PI
    h_mean = h0 + jnp.einsum("bkj,bj->bk", G, noise)
    cross = -(R_z.mT @ V.mT)
    y_var = jnp.where(own, 1.0, y_var)
    return Joint(h_mean, h_var, y_mean, y_var, 0.5 * (own_log_z + fit), noise, V, cross, factor)


def _fit_sites(params: Undirected, tg: TruncatedGaussian, own: Array, max_iter: Array) -> Sites:
    """Sites of every row by parallel updates; a row whose mismatch grows is damped."""
    dtype = tg.shift.dtype
    tol = 1e-9 if dtype.itemsize == 8 else 1e-4
    h, y = jnp.zeros_like(tg.shift), jnp.zeros_like(own, dtype)
    p = tg.precision.diagonal()[None, :]
    g, omega2 = standard_moments(jnp.zeros((), dtype))
    start = Sites(h + (1 / omega2 - 1) * p, h + g / omega2 * jnp.sqrt(p), y, y)
    Carry = tuple[Array, Sites, Array, Array]

    def keep_going(carry: Carry) -> Array:
        return (carry[0] < max_iter) & (carry[2] > tol).any()

    def body(carry: Carry) -> Carry:
        i, old, before, damping = carry
        q = _gaussian(params, tg, own, old)
        on_h = _matched(q.h_mean, q.h_var, old.h_precision, old.h_shift)
        on_y = _matched(q.y_mean, q.y_var, old.y_precision, old.y_shift)
        new = Sites(*on_h[:2], *(jnp.where(own, 0.0, s) for s in on_y[:2]))
        mismatch = jnp.maximum(on_h[2].max(-1), jnp.where(own, 0.0, on_y[2]).max(-1))
        worse = ~(mismatch < before) & (i > 2)
        damping = jnp.where(worse, jnp.maximum(damping / 2, 0.1), jnp.minimum(1.5 * damping, 1))
        d = jnp.where(mismatch > tol, damping, 0)[:, None]
        return i + 1, jax.tree.map(lambda b, a: a + d * (b - a), new, old), mismatch, damping

    one = jnp.ones(len(tg), dtype)
    return lax.while_loop(keep_going, body, (jnp.int32(0), start, jnp.inf * one, one))[1]


def undirected_class_ep(params: Undirected, X: Any, label: Array, s0: Array, max_iter: Array) -> Array:
    """EP's log Z of h and z given each row's class, differentiable."""
    own = own_class(label[:, None] + jnp.zeros_like(params.b1, label.dtype)[None, :], label)
    fixed = lax.stop_gradient(params)
    held = deep_prior(fixed, X, s0)
    sites = _fit_sites(fixed, held, own, max_iter)
    q = _gaussian(fixed, held, own, sites)
    on_h = _wall(q.h_mean, q.h_var, sites.h_precision, sites.h_shift)
    on_y = _wall(q.y_mean, q.y_var, sites.y_precision, sites.y_shift)
    value = q.log_z + on_h.sum(-1) + jnp.where(own, 0.0, on_y).sum(-1)
    below = covariance_blocks(q.factor)
    parts = held.precision.split(q.spread.mT)  # type: ignore[attr-defined]  # a Layered, as deep_prior makes it
    blocks = Blocks(
        tuple(S - v.mT @ v for S, v in zip(below.diagonal, parts, strict=True)),
        tuple(S - b.mT @ a for S, a, b in zip(below.lower, parts[:-1], parts[1:], strict=True)),
    )
    mean, blocks, noise, cross = lax.stop_gradient((q.h_mean, blocks, q.noise, q.cross))
    second = top(params, cross + noise[:, :, None] * mean[:, None, :])
    energy = gaussian_energy(deep_prior(params, X, s0), mean, blocks)
    energy = energy + jnp.einsum("jk,bjk->b", params.W1, second) + noise @ params.b1
    return lax.stop_gradient(value - energy) + energy
