r"""Separation of variables with minimax tilting for a box: both limits of every variable, possibly infinite.

As in `separation`, `ordering` and `tilting`, with an interval [l, u] in place of [l, ∞). The saddle point of
the tilt is again a convex problem. With the letters of `tilting`, t = −L̃z − μ and r(t) the mean of a
standard normal truncated to [l + t, u + t], it is

    t + B r(t) = 0,      f = ½ rᵀBr + Σ_k (t_k r_k + log(Φ(u_k + t_k) − Φ(l_k + t_k))),

and r' = 1 − V, V the variance of that normal, is between 0 and 1 as before: Hessian UUᵀ + diag(1/r' − 1). A
free variable has r = r' = 0 and drops out by itself.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve

from tggm.gaussian import Limits
from tggm.inference.orthant.ordering import OrderedFactor
from tggm.inference.orthant.separation import Integral, averaged
from tggm.special import log_ndtr, log_ndtr_interval
from tggm.special.box_standard import standard
from tggm.special.quantile import survival_quantile

_TINY = 1e-300
_EPS = 2.0**-53
_LAST = 1e300  # score of a free variable
MAX_ITER = 50


class SeparatedBox(NamedTuple):
    """A box whose variables are integrated one after the other, in their order of integration."""

    U: Array  # (m, m) Cholesky factor of the covariance, rows divided by its diagonal
    scale: Array  # (m,) that diagonal
    mean: Array  # (m,) over scale
    limits: Limits  # (m,) of (U z)_k
    tilt: Array  # (m,) mean of the normal that z_k is drawn from
    peak: Array  # logarithm of the largest weight a point can have; infinite if the tilt was not found
    truncated: Array  # (m,) bool
    order: Array  # (m,) which variable it is


class _Tilt(NamedTuple):
    t: Array  # (m,)
    r: Array  # (m,)
    slope: Array  # (m,) r'
    value: Array  # f
    scale: Array  # length of the next step, as a part of Newton's
    residual: Array  # largest |t + B r|
    n_iter: Array


def separate_box(covariance: Array, mean: Array, limits: Limits) -> SeparatedBox:
    """Order the variables, factorise, and find the tilt; shapes (m, m), (m,), (m,)."""
    centred = Limits(limits.lower - mean, limits.upper - mean)
    L, order = ordered_box(covariance, centred)
    scale = jnp.diagonal(L)
    U = L / scale[:, None]
    bounds = centred.map(lambda a: a[order] / scale)
    truncated = jnp.isfinite(bounds.lower) | jnp.isfinite(bounds.upper)
    return SeparatedBox(U, scale, mean[order] / scale, bounds, *minimax_tilt_box(U, bounds), truncated, order)


def ordered_box(covariance: Array, limits: Limits) -> OrderedFactor:
    """Cholesky factor of a covariance, the least probable interval first, free variables last.

    `limits` are those of h less its mean.
    """
    m = covariance.shape[0]
    free = ~(jnp.isfinite(limits.lower) | jnp.isfinite(limits.upper))
    zero, one = jnp.zeros(m, covariance.dtype), jnp.ones(m, covariance.dtype)

    def step(k: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        columns, order, left, var, drift = state
        root = jnp.sqrt(var)
        low, high = (limits.lower - drift) / root, (limits.upper - drift) / root
        sides = standard(zero, one, low, high)
        score = jnp.where(free, _LAST, sides.log_mass)
        p = jnp.argmin(jnp.where(left, score, jnp.inf)).astype(jnp.int32)
        column = covariance[p] - columns[:, p] @ columns
        column = jnp.where(left, column, 0) / root[p]
        expected = sides.mean[p]
        return (
            columns.at[k].set(column),
            order.at[k].set(p),
            left.at[p].set(False),
            jnp.maximum(var - column * column, _TINY),
            drift + expected * column,
        )

    start = (
        jnp.zeros_like(covariance),
        jnp.zeros(m, jnp.int32),
        jnp.ones(m, bool),
        jnp.diagonal(covariance),
        jnp.zeros(m, covariance.dtype),
    )
    columns, order, *_ = lax.fori_loop(0, m, step, start)
    return OrderedFactor(columns.T[order], order)


def minimax_tilt_box(U: Array, limits: Limits) -> tuple[Array, Array]:
    """The tilt μ of the saddle point, shape (m,), and ψ there, which no point exceeds.

    If the saddle point was not reached, μ is zero, which is always valid, and ψ infinite.
    """
    eye = jnp.eye(U.shape[0], dtype=U.dtype)
    B = U @ U.T - eye
    nearest = jnp.clip(jnp.zeros_like(limits.lower), limits.lower, limits.upper)
    tol = 1e-6 * (1 + jnp.abs(nearest).max())  # the estimate is unbiased for any tilt

    def evaluate(t: Array) -> tuple[Array, ...]:
        s = standard(-t, jnp.ones_like(t), *limits)
        Br = B @ s.mean
        value = 0.5 * s.mean @ Br + (t * s.mean + s.log_mass).sum()
        return s.mean, jnp.clip(1 - s.var, 0, 1), value, t + Br

    def unfinished(state: _Tilt) -> Array:
        return (state.residual > tol) & (state.n_iter < MAX_ITER)

    def step(state: _Tilt) -> _Tilt:
        F = jnp.where(state.slope > 0, state.t + B @ state.r, 0)
        S = jnp.sqrt(state.slope)
        G = cholesky(eye + S[:, None] * B * S[None, :])
        w = triangular_solve(G, -(S * F)[:, None], left_side=True, lower=True)
        w = triangular_solve(G, w, left_side=True, lower=True, transpose_a=True)[:, 0]
        trial = state.t - state.scale * (F + B @ (S * w))
        r, slope, value, F_new = evaluate(trial)
        better = value <= state.value + 1e-12 * jnp.abs(state.value)
        new = _Tilt(trial, r, slope, value, state.scale, _largest(F_new, slope), state.n_iter)
        old = state._replace(scale=state.scale / 4)
        grown = jnp.minimum(1, 2 * state.scale)
        kept = _Tilt(*(jnp.where(better, x, y) for x, y in zip(new._replace(scale=grown), old, strict=True)))
        return kept._replace(n_iter=state.n_iter + 1)

    t = -nearest * (1 - 1 / jnp.diagonal(B + eye))
    r, slope, value, F = evaluate(t)
    start = _Tilt(t, r, slope, value, jnp.ones_like(value), _largest(F, slope), jnp.int32(0))
    end = lax.while_loop(unfinished, step, start)
    reached = (end.residual <= tol) & jnp.isfinite(end.value)
    tilt = jnp.where(reached, U.T @ end.r - end.r, 0)
    # ψ is concave in z, and this close to its top it errs by the residual squared
    mass = end.value - (0.5 * B @ end.r + end.t) @ end.r
    peak = mass - (tilt * (tilt / 2 + end.r)).sum() + 1e-6
    return tilt, jnp.where(reached, peak, jnp.inf)


def _largest(F: Array, slope: Array) -> Array:
    """Of the equations that bind: where r does not move with t there is nothing to solve."""
    return jnp.where(slope > 0, jnp.abs(F), 0).max()


def integrate_box(box: SeparatedBox, log_u: Array, n_sets: int) -> Integral:
    """Average over points u of the unit cube; see `tggm.inference.orthant.separation.integrate`."""
    log_w, h = walk_box(box, log_u)
    return averaged(log_w, h, n_sets, box)


def walk_box(box: SeparatedBox, log_u: Array, total: Any = None) -> tuple[Array, Array]:
    """Log weights (n,) and places (m, n) over scale of points u (m, n); of free variables, the means.

    Computed in the dtype of `log_u`; log weights are summed in the dtype `total`, the same if not given.
    """
    m = log_u.shape[0]
    below = box.U - jnp.eye(m, dtype=log_u.dtype)

    def variable(state: Any, given: Any) -> tuple[Any, Array]:
        Z, log_w, k = state
        row, lower, upper, tilt, truncated, log_u_k = given
        drift = row @ Z
        low, high = lower - drift - tilt, upper - drift - tilt
        log_mass = log_ndtr_interval(low, high)
        z = jnp.where(truncated, _inside(low, high, log_mass, log_u_k) + tilt, 0)
        log_w = log_w + jnp.where(truncated, log_mass + tilt * (tilt / 2 - z), 0).astype(log_w.dtype)
        return (lax.dynamic_update_index_in_dim(Z, z, k, 0), log_w, k + 1), drift + z

    start = (jnp.zeros_like(log_u), jnp.zeros_like(log_u[0], dtype=total), jnp.int32(0))
    given = (below, *box.limits, box.tilt, box.truncated, log_u)
    (_, log_w, _), h = lax.scan(variable, start, given)
    return log_w, h + box.mean[:, None]


def _inside(low: Array, high: Array, log_mass: Array, log_u: Array) -> Array:
    """Quantile u of a standard normal in [low, high], to rounding error of the larger limit.

    On the side of zero where the nearer limit is, the chance to be exceeded is Φ(−a) − u times the mass.
    (`box_quantile` has all digits of narrow boxes as well, which no weight depends on, and takes longer.)
    """
    flipped = -low > high
    a = jnp.where(flipped, -high, low)
    u = jnp.exp(log_u)
    log_tail = log_ndtr(-a)
    share = jnp.where(flipped, 1 - u, u) * jnp.exp(jnp.minimum(log_mass - log_tail, 0))
    x = survival_quantile(-(log_tail + jnp.log1p(-jnp.minimum(share, 1 - _EPS))))
    return jnp.clip(jnp.where(flipped, -x, x), low, high)
