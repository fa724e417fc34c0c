r"""Sites on the walls of a class: what expectation propagation shares whatever model stands below z.

Given the class c of a row, z_c exceeds every other z_j: y_j = z_c − z_j ≥ 0. Each wall, on an h_k or on a
y_j, gets a Gaussian site exp(−½ λ h² + ν h) or exp(−½ τ y² + ρ y); a site is right when the Gaussian's
marginal has the moments of the same marginal with the wall put back. Under the sites on h alone y is Gaussian
with mean δ and covariance Δ, both n-dimensional. (y_c = 0 takes part without weight: rows look alike.)
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve

from tggm.inference.factors import gaussian_log_z
from tggm.precision.protocol import rounding
from tggm.special import standard_moments, truncated_log_z


class Sites(NamedTuple):
    """Natural parameters of the stand-ins for the walls."""

    h_precision: Array  # (rows, m) λ
    h_shift: Array  # (rows, m) ν
    y_precision: Array  # (rows, n) τ
    y_shift: Array  # (rows, n) ρ


class Marginals(NamedTuple):
    """Means and variances under all sites."""

    h_mean: Array  # (rows, m)
    h_var: Array
    y_mean: Array  # (rows, n)
    y_var: Array


class Differences(NamedTuple):
    """What the sites on y do to y, and to z."""

    mean: Array  # (rows, n) of y
    var: Array  # (rows, n)
    back: Array  # (rows, n) D κ: the pull on z
    root: Array  # (rows, n, n) R_z, with R_zᵀ R_z the precision that the sites put on z
    fit: Array  # (rows,) twice what they add to log Z


def differences(own: Array, mean: Array, cov: Array, sites: Sites) -> Differences:
    """The Gaussian of y under its sites, from mean (rows, n) and covariance of z without them."""
    eye = jnp.eye(mean.shape[1], dtype=mean.dtype)[None]
    delta = _contrast(own, mean)
    Delta = _contrast(own, _contrast(own, cov).mT).mT
    root = jnp.sqrt(sites.y_precision)
    L = cholesky(eye + root[:, :, None] * Delta * root[:, None, :])
    # R = L⁻¹ √τ: all that is needed of (I + √τ Δ √τ)⁻¹
    R = triangular_solve(L, root[:, :, None] * eye, left_side=True, lower=True)
    pull = delta + (Delta @ sites.y_shift[:, :, None])[:, :, 0]
    kappa = sites.y_shift - (R.mT @ (R @ pull[:, :, None]))[:, :, 0]
    y_mean = delta + (Delta @ kappa[:, :, None])[:, :, 0]
    y_var = jnp.diagonal(Delta, axis1=1, axis2=2) - ((R @ Delta) ** 2).sum(1)
    # D κ and R Dᵀ: back from differences to z
    back = jnp.where(own, kappa.sum(-1, keepdims=True), 0.0) - kappa
    R_z = jnp.where(own[:, None, :], R.sum(-1, keepdims=True), 0.0) - R
    log_det = 2 * jnp.log(jnp.diagonal(L, axis1=1, axis2=2)).sum(-1)
    fit = (sites.y_shift * (delta + pull)).sum(-1) - ((R @ pull[:, :, None]) ** 2).sum((1, 2)) - log_det
    return Differences(y_mean, jnp.where(own, 1.0, y_var), back, R_z, fit)


def fit_sites(gaussian: Callable[[Sites], Marginals], precision: Array, own: Array, max_iter: Array) -> Sites:
    """Sites of every row by parallel updates; a row whose mismatch grows is damped.

    Parameters
    ----------
    gaussian : callable
        The marginals under sites.
    precision : array, shape (rows, m)
        Diagonal of the prior's precision of h; sites on h start as walls at the mode of each latent alone.
    own : array of bool, shape (rows, n)
        The class of each row.
    max_iter : int
        Most updates.
    """
    dtype = precision.dtype
    tol = 1e-9 if dtype.itemsize == 8 else 1e-4
    y = jnp.zeros_like(own, dtype)
    g, omega2 = standard_moments(jnp.zeros((), dtype))
    start = Sites((1 / omega2 - 1) * precision, g / omega2 * jnp.sqrt(precision), y, y)
    Carry = tuple[Array, Sites, Array, Array]

    def keep_going(carry: Carry) -> Array:
        return (carry[0] < max_iter) & (carry[2] > tol).any()

    def body(carry: Carry) -> Carry:
        i, old, before, damping = carry
        q = gaussian(old)
        on_h = _matched(q.h_mean, q.h_var, old.h_precision, old.h_shift)
        on_y = _matched(q.y_mean, q.y_var, old.y_precision, old.y_shift)
        new = Sites(*on_h[:2], *(jnp.where(own, 0.0, s) for s in on_y[:2]))
        mismatch = jnp.maximum(on_h[2].max(-1), jnp.where(own, 0.0, on_y[2]).max(-1))
        worse = ~(mismatch < before) & (i > 2)
        damping = jnp.where(worse, jnp.maximum(damping / 2, 0.1), jnp.minimum(1.5 * damping, 1))
        d = jnp.where(mismatch > tol, damping, 0)[:, None]
        return i + 1, jax.tree.map(lambda b, a: a + d * (b - a), new, old), mismatch, damping

    one = jnp.ones(len(own), dtype)
    return lax.while_loop(keep_going, body, (jnp.int32(0), start, jnp.inf * one, one))[1]


def walls(q: Marginals, own: Array, sites: Sites) -> Array:
    """What all walls add to log Z of the Gaussian with sites, for each row."""
    on_h = _wall(q.h_mean, q.h_var, sites.h_precision, sites.h_shift)
    on_y = _wall(q.y_mean, q.y_var, sites.y_precision, sites.y_shift)
    return on_h.sum(-1) + jnp.where(own, 0.0, on_y).sum(-1)


def _contrast(own: Array, v: Array) -> Array:
    """v_c − v_j along the last axis, for every row's own class c."""
    mask = own if v.ndim == 2 else own[:, None, :]
    return jnp.where(mask, v, 0.0).sum(-1, keepdims=True) - v


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
