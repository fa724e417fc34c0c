r"""Expectation propagation for the probability of a class, h and z together.

log p(c | x) is the logarithm of the integral of

    Π_k exp(−h_k²/2s0 + a_k h_k/s0) 1[h_k ≥ 0] · N(z | W1 h + b1, I) · Π_{j≠c} 1[y_j ≥ 0],   y_j = z_c − z_j,

less the prior's own log Z. Each wall, on an h_k or on a y_j, gets a Gaussian site exp(−½ λ h² + ν h) or
exp(−½ τ y² + ρ y); a site is right when the Gaussian's marginal has the moments of the same marginal with the
wall put back. Under the sites on h alone, y is Gaussian with mean δ and covariance Δ, both n-dimensional, so
a sweep over all sites costs O(m n²) a row. (y_c = 0 takes part without weight, so that rows look alike.)
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve

from tggm.inference.factors import gaussian_log_z
from tggm.models.shallow import Shallow, locations, prior_log_z
from tggm.precision.protocol import rounding
from tggm.special import standard_moments, truncated_log_z
from tggm.special.probit import own_class


class Sites(NamedTuple):
    """Natural parameters of the stand-ins for the walls."""

    h_precision: Array  # (rows, m) λ
    h_shift: Array  # (rows, m) ν
    y_precision: Array  # (rows, n) τ
    y_shift: Array  # (rows, n) ρ


class Marginals(NamedTuple):
    """Means and variances under all sites, and the logarithm of the Gaussian's integral."""

    h_mean: Array
    h_var: Array
    y_mean: Array
    y_var: Array
    log_z: Array


def _contrast(own: Array, v: Array) -> Array:
    """v_c − v_j along the last axis, for every row's own class c."""
    mask = own if v.ndim == 2 else own[:, None, :]
    return jnp.where(mask, v, 0.0).sum(-1, keepdims=True) - v


def _gaussian(params: Shallow, a: Array, s0: Array, own: Array, sites: Sites) -> Marginals:
    """The Gaussian with walls replaced by sites."""
    W1 = params.W1
    n = W1.shape[0]
    V = 1 / (1 / s0 + sites.h_precision)
    h0 = V * (a / s0 + sites.h_shift)
    pairs = (W1[:, None, :] * W1[None, :, :]).reshape(n * n, -1)
    C = jnp.eye(n, dtype=a.dtype)[None] + (V @ pairs.T).reshape(-1, n, n)
    delta = _contrast(own, h0 @ W1.T + params.b1[None, :])
    Delta = _contrast(own, _contrast(own, C).mT).mT
    root = jnp.sqrt(sites.y_precision)
    L = cholesky(jnp.eye(n, dtype=a.dtype)[None] + root[:, :, None] * Delta * root[:, None, :])
    # R = L⁻¹ √τ: all that is needed of (I + √τ Δ √τ)⁻¹
    R = triangular_solve(L, root[:, :, None] * jnp.eye(n, dtype=a.dtype)[None], left_side=True, lower=True)
    pull = delta + (Delta @ sites.y_shift[:, :, None])[:, :, 0]
    kappa = sites.y_shift - (R.mT @ (R @ pull[:, :, None]))[:, :, 0]
    y_mean = delta + (Delta @ kappa[:, :, None])[:, :, 0]
    y_var = jnp.diagonal(Delta, axis1=1, axis2=2) - ((R @ Delta) ** 2).sum(1)
    # D κ and R Dᵀ: back from differences to z
    back = jnp.where(own, kappa.sum(-1, keepdims=True), 0.0) - kappa
    R_z = jnp.where(own[:, None, :], R.sum(-1, keepdims=True), 0.0) - R
    h_mean = h0 + V * (back @ W1)
    # of a positive difference, written so that rounding keeps it so
    h_var = V * jnp.maximum(1 - V * ((R_z.mT @ R_z).reshape(-1, n * n) @ pairs), rounding(a.dtype))
    log_det = 2 * jnp.log(jnp.diagonal(L, axis1=1, axis2=2)).sum(-1)
    fit = (sites.y_shift * (delta + pull)).sum(-1) - ((R @ pull[:, :, None]) ** 2).sum((1, 2)) - log_det
    log_z = gaussian_log_z(a / s0 + sites.h_shift, 1 / V).sum(-1) + 0.5 * fit
    return Marginals(h_mean, h_var, y_mean, jnp.where(own, 1.0, y_var), log_z)


def _cavity(mean: Array, var: Array, precision: Array, shift: Array) -> tuple[Array, Array]:
    return jnp.maximum(1 / var - precision, rounding(var.dtype) / var), mean / var - shift


def _matched(mean: Array, var: Array, precision: Array, shift: Array) -> tuple[Array, Array, Array]:
    """New site from the cavity's truncated moments, and how far the marginal was from them."""
    tau, eta = _cavity(mean, var, precision, shift)
    root = jnp.sqrt(tau)
    alpha = eta / root
    g, omega2 = standard_moments(alpha)
    off = jnp.maximum(jnp.abs(g / root - mean) / jnp.sqrt(var), jnp.abs(omega2 / (tau * var) - 1))
    # below what rounding does to the marginals, a mismatch is none
    off = jnp.where(off > 8 * rounding(var.dtype) * jnp.abs(mean) / jnp.sqrt(var), off, 0.0)
    return tau * (1 / omega2 - 1), root * (g / omega2 - alpha), off


def _wall(mean: Array, var: Array, precision: Array, shift: Array) -> Array:
    """A_T − A_G of a cavity with its wall and with its site, what a site adds to log Z."""
    tau, eta = _cavity(mean, var, precision, shift)
    return truncated_log_z(eta, tau) - gaussian_log_z(eta + shift, tau + precision)


def fit_class_sites(params: Shallow, a: Array, s0: Array, own: Array, max_iter: Array) -> Sites:
    """Sites of every row by parallel updates; a row whose mismatch grows is damped."""
    tol = 1e-9 if a.dtype.itemsize == 8 else 1e-4
    rows = a.shape[0]
    h = jnp.zeros_like(a)
    y = jnp.zeros_like(own, a.dtype)
    # a wall at the mode of each latent's own Gaussian
    g, omega2 = standard_moments(jnp.zeros((), a.dtype))
    start = Sites(h + (1 / omega2 - 1) / s0, h + g / omega2 / jnp.sqrt(s0), y, y)

    def keep_going(carry: tuple[Array, Sites, Array, Array]) -> Array:
        return (carry[0] < max_iter) & (carry[2] > tol).any()

    def body(carry: tuple[Array, Sites, Array, Array]) -> tuple[Array, Sites, Array, Array]:
        i, old, before, damping = carry
        q = _gaussian(params, a, s0, own, old)
        on_h = _matched(q.h_mean, q.h_var, old.h_precision, old.h_shift)
        on_y = _matched(q.y_mean, q.y_var, old.y_precision, old.y_shift)
        new = Sites(*on_h[:2], *(jnp.where(own, 0.0, s) for s in on_y[:2]))
        mismatch = jnp.maximum(on_h[2].max(-1), jnp.where(own, 0.0, on_y[2]).max(-1))
        worse = ~(mismatch < before) & (i > 2)
        damping = jnp.where(worse, jnp.maximum(damping / 2, 0.1), jnp.minimum(1.5 * damping, 1))
        d = jnp.where(mismatch > tol, damping, 0)[:, None]
        sites = jax.tree.map(lambda n, o: o + d * (n - o), new, old)
        return i + 1, sites, mismatch, damping

    one = jnp.ones(rows, a.dtype)
    return lax.while_loop(keep_going, body, (jnp.int32(0), start, jnp.inf * one, one))[1]


def class_log_likelihood_ep(params: Shallow, X: Array, label: Array, s0: Array, max_iter: Array) -> Array:
    """EP's estimate of log p(c | x) for each row, differentiable: stationary in the sites."""
    own = own_class(label[:, None] + jnp.zeros_like(params.b1, label.dtype)[None, :], label)
    a = locations(params, X)
    sites = lax.stop_gradient(fit_class_sites(*lax.stop_gradient((params, a, s0)), own, max_iter))
    q = _gaussian(params, a, s0, own, sites)
    fixed = lax.stop_gradient(q)
    on_h = _wall(fixed.h_mean, fixed.h_var, sites.h_precision, sites.h_shift)
    on_y = _wall(fixed.y_mean, fixed.y_var, sites.y_precision, sites.y_shift)
    walls = on_h.sum(-1) + jnp.where(own, 0.0, on_y).sum(-1)
    return q.log_z + walls - prior_log_z(params, X, s0)
