r"""Inference for a row with a known class: hidden units h and outputs z = W h + b + ε, ε ~ N(0, I), together.

z depends on the last units of h, and the class c is the largest z.

**Mean field**: q(h) factorised, q(z) optimal given it. With S_c the logarithm of the class's probability or
its factorised bound (`tggm.special.probit`), the best q(z) given q(h) is known: N(η, I) on the region of
class c (or its factorised counterpart), η = W m + b, m the means of q(h). The remaining problem is mean field
of h, with WᵀW in its precision and the term

.. math:: T(m) = S_c(W m + b) + \tfrac12 \|W m\|^2.

The problem is strictly convex, because S_c is concave and its Hessian at least −I. So alternating q(h) and
q(z) has one limit, which Newton's method reaches directly.

**EP**: the walls are y_j = z_c − z_j ≥ 0. (y_c = 0 is included without a wall, so that all rows have the same
shape.) Sites on the walls of h and y are fitted together. Under those on h alone h ~ N(h0, Σ), and y is
Gaussian with mean δ and covariance Δ, both n-dimensional; with G = Σ Wᵀ a sweep costs one factorisation of P
and n solves per row, O(mn²) where the units are independent. With K the precision that the sites on y put on
z, and κ_z their shift,

    E[ε] = κ_z,   E[h] = h0 + G κ_z,   Cov[h] = Σ − G K Gᵀ,   Cov[ε, h] = −K Gᵀ,

from which the gradient of log Z follows, so for layers no factorisation is differentiated.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve
from jax.tree_util import Partial

from tggm.gaussian import TruncatedGaussian
from tggm.inference import _ep, _mean_field
from tggm.inference._common import gaussian_log_z, log_normaliser, unit_moments
from tggm.precision import Diagonal, Layered
from tggm.precision.protocol import rounding
from tggm.runtime import full_precision
from tggm.special.probit import Expansion

Score = Callable[[Array], Expansion]  # η (rows, n) to S_c and its derivatives


@full_precision
def class_mean_field(
    tg: TruncatedGaussian, W: Array, b: Array, expand: Score, *, start: Array | None, steps: Array,
    solver: str,
) -> tuple[Array, Array]:  # fmt: skip
    """Return a lower bound on log Z of h and z given each row's class, differentiable, and the means of h.

    The bound is stationary in q, so the derivative with q held fixed is the total derivative: the paper's EM
    gradients.

    `tg` is h with WᵀW added to the precision of the last units, on which W (n, m) acts. `start` holds means,
    by default those of the units without couplings. `steps` is the largest number of steps of the solver
    "newton", or the number of the paper's cycles over h and then z ("cyclic").
    """
    fixed = jax.tree.map(lax.stop_gradient, tg)
    if start is None:
        p = _mean_field.uncoupled_precision(fixed.precision)[None, :]
        start, _ = unit_moments(fixed.shift, p, fixed.walls())
    begin = lax.stop_gradient(start)
    term = class_term(*lax.stop_gradient((W, b)), expand)
    if solver == "newton":
        theta = fixed.shift - fixed.precision.off_diagonal(begin) + term(begin).gradient
        theta = _mean_field.newton(fixed, theta, steps, term).point.theta
    else:
        theta = _cycles(fixed, term, begin, steps)
    none = jnp.zeros(len(tg), jnp.int32)
    q = lax.stop_gradient(_mean_field.factor_moments(fixed, theta, none > 0, none))
    assert q.log_z is not None
    energy = _mean_field.expected_energy(tg, q.mean, q.var)
    if tg.limits is not None:
        energy = energy + _mean_field.limit_energy(tg, theta)
    return q.log_z + energy - lax.stop_gradient(energy) + _value(W, b, expand, q.mean), q.mean


def _last_units(W: Array, v: Array) -> Array:
    """Return the part of the last axis that z depends on."""
    return v[..., v.shape[-1] - W.shape[1] :]


def class_term(W: Array, b: Array, expand: Score) -> _mean_field.Terms:
    """Build T with its gradient and curvature."""

    def pad(z: Array, like: Array) -> Array:
        return jnp.pad(z @ W, ((0, 0), (like.shape[1] - W.shape[1], 0)))

    def product(hessian: Array, x: Array) -> Array:
        along = _last_units(W, x) @ W.T
        return pad(along + jnp.einsum("bij,bj->bi", hessian, along), x)

    def term(mean: Array) -> _mean_field.Term:
        z = _last_units(W, mean) @ W.T
        found = expand(z + b[None, :])
        value = found.value + 0.5 * (z**2).sum(-1)
        return _mean_field.Term(value, pad(found.gradient + z, mean), Partial(product, found.hessian))

    return term


def _value(W: Array, b: Array, expand: Score, mean: Array) -> Array:
    """Return T at fixed means, differentiable in W and b."""
    z = _last_units(W, mean) @ W.T
    eta = z + b[None, :]
    found = lax.stop_gradient(expand(lax.stop_gradient(eta)))
    return found.value + (found.gradient * (eta - lax.stop_gradient(eta))).sum(-1) + 0.5 * (z**2).sum(-1)


def _cycles(tg: TruncatedGaussian, term: _mean_field.Terms, start: Array, n_cycles: Array) -> Array:
    """Return θ after coordinate updates of all units, with E[z] updated before each cycle."""

    def cycle(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        mean, _ = carry
        theta = _mean_field.cyclic(tg.with_shift(tg.shift + term(mean).gradient), mean, jnp.int32(1))
        return unit_moments(theta, tg.precision.diagonal()[None, :], tg.walls())[0], theta

    theta: Array = lax.fori_loop(jnp.int32(0), n_cycles, cycle, (start, tg.shift))[1]
    return theta


class Differences(NamedTuple):
    """The Gaussian of y under its sites, and their effect on z."""

    mean: Array  # (rows, n) of y
    var: Array  # (rows, n)
    back: Array  # (rows, n) κ_z: shift of z
    root: Array  # (rows, n, n) R_z, with R_zᵀ R_z = K
    fit: Array  # (rows,) twice their contribution to log Z


class Joint(NamedTuple):
    """The Gaussian with walls replaced by sites."""

    mean: Array  # (rows, M + n) of h and y
    var: Array
    log_z: Array  # (rows,)
    y: Differences
    G: Any  # (rows, M, n) Σ Wᵀ; None for independent units
    factor: Any  # of P + Λ


@full_precision
def class_ep(tg: TruncatedGaussian, W: Array, b: Array, label: Array, max_iter: Array) -> Array:
    """Return EP's log Z of h and z given each row's class; differentiable, as it is stationary in the sites.

    `tg` is h without z, W (n, m) acts on its last m units, and `label` has shape (rows,).
    """
    own = label[:, None] == jnp.arange(len(b), dtype=label.dtype)[None, :]
    if tg.limits is not None:
        raise ValueError("`class_ep` takes limits of zero and infinity only; got a box. Use mean_field.")
    truncated = jnp.concatenate([jnp.broadcast_to(tg.truncated[None, :], tg.shift.shape), ~own], axis=1)
    fixed, W_, b_ = jax.tree.map(lax.stop_gradient, (tg, W, b))

    def marginals(sites: _ep.Sites) -> _ep.Marginals:
        q = _joint(fixed, W_, b_, own, sites)
        return q.mean, _cavities(q.mean, q.var, sites), q.mean / q.var

    alone = fixed.precision.diagonal()[None, :] + jnp.zeros_like(fixed.shift)
    start = [jnp.pad(a, ((0, 0), (0, len(b)))) for a in _ep.uncoupled_sites(alone, fixed.truncated[None, :])]
    tol = _ep.site_tolerance(tg.shift.dtype)
    sites = lax.stop_gradient(_ep.fit_sites(marginals, (start[0], start[1]), truncated, max_iter, tol))
    if not isinstance(tg.precision, Layered):
        q = _joint(tg, W, b, own, sites)
        return q.log_z + lax.stop_gradient(_walls(q.mean, q.var, sites, truncated))
    q = lax.stop_gradient(_joint(fixed, W_, b_, own, sites))
    energy = _energy(tg, W, b, q)
    return q.log_z + _walls(q.mean, q.var, sites, truncated) + energy - lax.stop_gradient(energy)


def _joint(tg: TruncatedGaussian, W: Array, b: Array, own: Array, sites: _ep.Sites) -> Joint:
    m, n = tg.size, len(W)
    W = jnp.pad(W, ((0, 0), (m - W.shape[1], 0)))  # z does not depend on the units below
    factor = tg.precision.factor(sites.precision[:, :m])
    shift = tg.shift + sites.shift[:, :m]
    h0, var0 = factor.solve(shift), 1 / (factor.cavity() + sites.precision[:, :m])
    on_y = sites.precision[:, m:], sites.shift[:, m:]
    eye, z0 = jnp.eye(n, dtype=W.dtype)[None], h0 @ W.T + b[None, :]
    if isinstance(tg.precision, Diagonal):  # G = diag(var0) Wᵀ: products of pairs of weights are shared
        G = None
        pairs = (W[:, None, :] * W[None, :, :]).reshape(n * n, -1)
        y = _differences(own, z0, eye + (var0 @ pairs.T).reshape(-1, n, n), *on_y)
        less = var0 * ((y.root.mT @ y.root).reshape(-1, n * n) @ pairs)
        mean = h0 + var0 * (y.back @ W)
    else:
        solved = jax.vmap(lambda w: factor.solve(jnp.broadcast_to(w[None, :], shift.shape)))(W)
        G = jnp.moveaxis(solved, 0, 2)
        y = _differences(own, z0, eye + jnp.einsum("ik,bkj->bij", W, G), *on_y)
        less = ((G @ y.root.mT) ** 2).sum(-1) / var0
        mean = h0 + jnp.einsum("bkj,bj->bk", G, y.back)
    # positive in exact arithmetic; rounding must not change that
    var = var0 * jnp.maximum(1 - less, rounding(var0.dtype))
    alone = (shift * h0).sum(-1) - factor.log_det() + m * math.log(2 * math.pi)
    both = jnp.concatenate([mean, y.mean], axis=1), jnp.concatenate([var, y.var], axis=1)
    return Joint(*both, 0.5 * (alone + y.fit), y, G, factor)


def _differences(own: Array, mean: Array, cov: Array, tau: Array, rho: Array) -> Differences:
    """Return the Gaussian of y under sites exp(−½ τ y² + ρ y), given moments of z without them."""
    eye = jnp.eye(mean.shape[1], dtype=mean.dtype)[None]
    delta = _contrast(own, mean)
    Delta = _contrast(own, _contrast(own, cov).mT).mT
    root = jnp.sqrt(tau)
    L = cholesky(eye + root[:, :, None] * Delta * root[:, None, :])
    # R = L⁻¹ √τ
    R = triangular_solve(L, root[:, :, None] * eye, left_side=True, lower=True)
    pull = delta + (Delta @ rho[:, :, None])[:, :, 0]
    kappa = rho - (R.mT @ (R @ pull[:, :, None]))[:, :, 0]
    y_mean = delta + (Delta @ kappa[:, :, None])[:, :, 0]
    y_var = jnp.diagonal(Delta, axis1=1, axis2=2) - ((R @ Delta) ** 2).sum(1)
    # from differences to z
    back = jnp.where(own, kappa.sum(-1, keepdims=True), 0.0) - kappa
    R_z = jnp.where(own[:, None, :], R.sum(-1, keepdims=True), 0.0) - R
    log_det = 2 * jnp.log(jnp.diagonal(L, axis1=1, axis2=2)).sum(-1)
    fit = (rho * (delta + pull)).sum(-1) - ((R @ pull[:, :, None]) ** 2).sum((1, 2)) - log_det
    return Differences(y_mean, jnp.where(own, 1.0, y_var), back, R_z, fit)


def _contrast(own: Array, v: Array) -> Array:
    """Return v_c − v_j along the last axis, for every row's own class c."""
    mask = own if v.ndim == 2 else own[:, None, :]
    return jnp.where(mask, v, 0.0).sum(-1, keepdims=True) - v


def _energy(tg: TruncatedGaussian, W: Array, b: Array, q: Joint) -> Array:
    """Return E_q[−½ hᵀPh + γᵀh − ½‖z − Wh − b‖²] up to a constant; its gradient is that of log Z."""
    P: Any = tg.precision
    mean, noise = q.mean[:, : tg.size], q.y.back  # E[h] and E[ε]
    V = q.G @ q.y.root.mT  # Cov[h] = Σ − V Vᵀ
    (diagonal, lower), parts = q.factor.blocks(), P.split(V.mT)
    blocks = (
        tuple(S - v.mT @ v for S, v in zip(diagonal, parts, strict=True)),
        tuple(S - v.mT @ u for S, u, v in zip(lower, parts[:-1], parts[1:], strict=True)),
    )
    second = noise[:, :, None] * mean[:, None, :] - q.y.root.mT @ V.mT  # E[ε hᵀ]
    outputs = jnp.einsum("jk,bjk->b", W, second[:, :, tg.size - W.shape[1] :]) + noise @ b
    return _ep.gaussian_energy(tg, mean, blocks) + outputs


def _cavities(mean: Array, var: Array, sites: _ep.Sites) -> _ep.Cavity:
    """Return the cavity of every coordinate; half-lines have sites of moderate size."""
    # τ is positive in exact arithmetic; rounding must not change that
    tau = jnp.maximum(1 / var - sites.precision, rounding(var.dtype) / var)
    return _ep.Cavity(tau, mean / var - sites.shift)


def _walls(mean: Array, var: Array, sites: _ep.Sites, truncated: Array) -> Array:
    """Return Σ A_T − A_G over the cavities: the contribution of walls to log Z."""
    cavity = _cavities(mean, var, sites)
    whole = gaussian_log_z(cavity.shift + sites.shift, cavity.precision + sites.precision)
    return jnp.where(truncated, log_normaliser(cavity.shift, cavity.precision, truncated) - whole, 0).sum(-1)
