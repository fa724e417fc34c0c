"""Exact moments and log Z for three kinds of truncated Gaussian.

- `Diagonal`: independent truncated normals, closed form.
- `LowRank` of rank one, any size: with x_k ~ N_T independent of mean γ_k/d_k and variance 1/d_k,

      log Z = Σ_k log Z(d_k, γ_k) + ½ log 2π + log f(0),      f the density of u·x + ε, ε ~ N(0, 1),

  and the moments are those of x given u·x + ε = 0 (`_fourier`). Variables that are not truncated are
  Gaussian: they shift f and widen ε.
- up to three variables, any structure: nested quadrature, the innermost integral in closed form,

      log Z(P, γ) = log ∫ exp(−½P₀₀x² + γ₀x + log Z(P', γ' − x P_{1:,0})) dx,

  P' and γ' being P and γ without the first variable. The integrand is log-concave, with curvature at least
  1/Σ₀₀ (Σ = P⁻¹) and no feature narrower than 1/√P₀₀. So its mode and the interval where it is not negligible
  are found by a search, and Gauss–Legendre panels of length at most 4/√P₀₀ integrate it to rounding error.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp

from tggm.gaussian import Limits, Moments, TruncatedGaussian
from tggm.inference._common import full_limits, log_normaliser, restore, unit_moments
from tggm.inference._fourier import Averages, Sum, averages, by_chunks, log_density
from tggm.precision import Diagonal, LowRank, is_concrete, rounding
from tggm.runtime import full_precision
from tggm.special import truncated_log_z

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_FLAT = 1e-200  # smallest slope, so that nothing is divided by zero
_DROP = 45.0  # the integrand is cut off where its logarithm is this far below the maximum
_MAX_PANELS = 256
_PAIR_PANELS = 8  # of two variables, between the places where the inner integral changes
_QUADRATURE = 1e-12  # relative error of the rules
MAX_VARIABLES = 3  # of the quadrature


def exact(tg: TruncatedGaussian) -> Moments:
    """Compute log Z, means and variances to rounding error, kind "exact".

    The precision is `Diagonal`, `LowRank` of rank one, or of any structure with at most three variables.
    `log_z_error` and `mean_error` bound the effects of rounding errors, which grow with the correlations; a
    row of three variables has not converged if they are too correlated for the panels. Single precision is
    computed in double and rounded.
    """
    _require_tractable(tg)
    if tg.shift.dtype != jnp.float64 and is_concrete(*jax.tree.leaves(tg)):
        with jax.enable_x64(True):
            full, eps = exact(_cast(tg, jnp.float64)), rounding(tg.shift.dtype)
            pairs = ((full.log_z, full.log_z_error), (full.mean, full.mean_error))
            errors = [jnp.asarray(error) + eps * jnp.abs(jnp.asarray(value)) for value, error in pairs]
            return _cast(replace(full, log_z_error=errors[0], mean_error=errors[1]), tg.shift.dtype)
    rows, P = tg.rows(), tg.precision
    if isinstance(P, Diagonal) or P.size == 1:
        log_z, mean, var = _independent_moments(P.diagonal(), rows)
    elif _is_rank_one(rows):
        log_z, mean, var = _rank_one_moments(P, rows)
    else:
        dense = P.dense()
        log_z, mean, var = _quadrature_moments(dense, rows.shift, full_limits(rows), _panels(dense))
    errors = _rounding_errors(P.diagonal(), rows.shift, log_z, mean, var)
    resolved = jnp.asarray(True)
    if P.size == MAX_VARIABLES and not isinstance(P, Diagonal) and not _is_rank_one(rows):
        resolved = _width(P.dense(), jnp) <= 4 * _panels(P.dense())
    resolved, steps = jnp.broadcast_to(resolved, log_z.shape), jnp.zeros(len(rows), jnp.int32)
    return restore(Moments(mean, var, log_z, resolved, steps, "exact", *errors), tg)


@jax.jit
def _rounding_errors(d: Array, shift: Array, log_z: Array, mean: Array, var: Array) -> tuple[Array, Array]:
    """Bound the effect of relative rounding errors of P and γ on log Z and the means; d is P's diagonal.

    By |P_ij| ≤ √(d_i d_j) that of a quadratic form is the product of two sums.
    """
    root, sd, eps = jnp.sqrt(d)[None, :], jnp.sqrt(var), 4 * rounding(log_z.dtype)
    size, shift = jnp.sqrt(mean**2 + var), jnp.abs(shift)
    of_log = eps * ((root * size).sum(1) ** 2 / 2 + (shift * size).sum(1)) + _QUADRATURE * (
        1 + jnp.abs(log_z)
    )
    spread = (root * sd).sum(1)
    relative = eps * ((root * size).sum(1) * spread + (shift * sd).sum(1)) + _QUADRATURE
    return of_log, relative[:, None] * sd + eps * jnp.abs(mean)


def exact_log_z(tg: TruncatedGaussian) -> Array:
    """Return log Z of shape (rows,), differentiable in the shift and every parameter of the precision."""
    _require_tractable(tg)
    rows, P = tg.rows(), tg.precision
    if isinstance(P, Diagonal) or P.size == 1:
        value: Array = _independent_log_z(P.diagonal(), rows)
    elif isinstance(P, LowRank) and _is_rank_one(rows):
        value = _independent_log_z(P.base, rows) + _HALF_LOG_2PI + jax.jit(log_density)(*_as_sum(P, rows))
    else:
        value = _quadrature_log_z(P.dense(), rows.shift, full_limits(rows), _panels(P.dense()))
    return value


def _is_rank_one(tg: TruncatedGaussian) -> bool:
    """Return whether Fourier inversion applies; it does not support boxes."""
    return isinstance(tg.precision, LowRank) and tg.precision.rank == 1 and tg.limits is None


def is_tractable(tg: TruncatedGaussian) -> bool:
    """Return whether `exact` supports the problem."""
    return isinstance(tg.precision, Diagonal) or _is_rank_one(tg) or tg.size <= MAX_VARIABLES


def _require_tractable(tg: TruncatedGaussian) -> None:
    if is_tractable(tg):
        return
    P = tg.precision
    what = f"LowRank of rank {P.rank}" if isinstance(P, LowRank) else type(P).__name__
    what = what if tg.limits is None else f"{what} in a box"
    raise ValueError(
        f"`exact` handles Diagonal, LowRank of rank 1 (with limits 0), and any precision of "
        f"{MAX_VARIABLES} variables or fewer; got {what} with {P.size} variables. "
        "Use `ep` for log Z and moments (error near 1e-3), or `orthant` for log Z with an error estimate."
    )


def _cast(tree: Any, dtype: Any) -> Any:
    return jax.tree.map(lambda a: a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a, tree)


@jax.jit
def _independent_log_z(d: Array, rows: TruncatedGaussian) -> Array:
    d = jnp.broadcast_to(d[None, :], rows.shift.shape)
    return log_normaliser(rows.shift, d, rows.walls()).sum(1)


@jax.jit
def _independent_moments(d: Array, rows: TruncatedGaussian) -> tuple[Array, Array, Array]:
    mean, omega2 = unit_moments(rows.shift, d[None, :], rows.walls())
    return _independent_log_z(d, rows), mean, omega2 / d[None, :]


def _as_sum(P: LowRank, rows: TruncatedGaussian) -> tuple[Sum, Array]:
    """Return the truncated part of u·x + ε and its value; the noise includes variables without truncation."""
    root = jnp.sqrt(P.base)[None, :]
    alpha = rows.shift / root
    coef = jnp.broadcast_to(P.weights / root, alpha.shape)
    kept = rows.truncated[None, :]
    outside = jnp.where(kept, 0.0, coef)
    sums = Sum(jnp.where(kept, alpha, 0.0), jnp.where(kept, coef, 0.0), 1 + (outside**2).sum(1))
    return sums, -(outside * alpha).sum(1)


@jax.jit
def _rank_one_moments(P: LowRank, rows: TruncatedGaussian) -> tuple[Array, Array, Array]:
    sums, y = _as_sum(P, rows)
    found: Averages = by_chunks(averages, sums, y)
    root = jnp.sqrt(P.base)[None, :]
    kept, coef = rows.truncated[None, :], P.weights / root
    free_mean = rows.shift / root + coef * found.s[:, None]
    free_var = 1 + coef**2 * (found.s2 - found.s**2)[:, None]
    mean = jnp.where(kept, found.mean, free_mean) / root
    var = jnp.where(kept, found.var, free_var) / root**2
    return _independent_log_z(P.base, rows) + _HALF_LOG_2PI + found.log_density, mean, var


def _panels(P: Array) -> int:
    """Return the number of panels, a power of two, that resolve 1/√P_kk over the widest interval."""
    if not is_concrete(P):
        return 32
    if len(P) == 2:
        return _PAIR_PANELS
    return int(min(2 ** np.ceil(np.log2(_width(np.asarray(P, dtype=np.float64), np) / 4)), _MAX_PANELS))


def _width(P: Any, xp: Any) -> Any:
    """Return the width of the widest interval in units of 1/√P_kk."""
    return 2 * xp.sqrt(2 * _DROP * xp.diag(xp.linalg.inv(P)) * xp.diag(P)).max()


@partial(jax.jit, static_argnums=3)
@full_precision
def _quadrature_log_z(P: Array, shift: Array, limits: Limits, n_panels: int) -> Array:
    """Return log Z for each row of `shift`, m ≤ 3; differentiable with respect to P and shift."""
    if P.shape[0] == 1:
        theta, p = shift[:, 0], P[0, 0]
        return truncated_log_z(
            theta, jnp.broadcast_to(p, theta.shape), limits.lower[:, 0], limits.upper[:, 0]
        )
    x, log_w = _rule(P, shift, limits, n_panels)
    return logsumexp(_log_marginal(P, shift, limits, n_panels, x) + log_w, axis=1)


@partial(jax.jit, static_argnums=3)
@full_precision
def _quadrature_moments(P: Array, shift: Array, limits: Limits, n_panels: int) -> tuple[Array, Array, Array]:
    """Return log Z, means and variances for each row; each variable in turn is the outermost."""
    m = P.shape[0]

    def outermost(order: Array) -> tuple[Array, Array, Array]:
        part = (P[order][:, order], shift[:, order], limits.map(lambda a: a[:, order]))
        x, log_w = _rule(*part, n_panels)
        log_p = _log_marginal(*part, n_panels, x) + log_w
        total = logsumexp(log_p, axis=1)
        p = jnp.exp(log_p - total[:, None])
        p = p / p.sum(1, keepdims=True)  # a large logarithm of the sum is rounded
        mean = (p * x).sum(1)
        return total, mean, (p * (x - mean[:, None]) ** 2).sum(1)

    orders = jnp.asarray([[k, *(j for j in range(m) if j != k)] for k in range(m)])
    total, mean, var = jax.vmap(outermost)(orders)
    return total[0], mean.T, var.T


def _log_marginal(P: Array, shift: Array, limits: Limits, n_panels: int, x: Array) -> Array:
    """Return the logarithm of the integrand at points x of shape (rows, points)."""
    inner = shift[:, None, 1:] - x[:, :, None] * P[None, None, 1:, 0]
    rest = limits.map(lambda a: jnp.repeat(a[:, 1:], x.shape[1], axis=0))
    flat: Array = _quadrature_log_z(P[1:, 1:], inner.reshape(-1, inner.shape[-1]), rest, n_panels)
    return -0.5 * P[0, 0] * x**2 + shift[:, :1] * x + flat.reshape(x.shape)


def _rule(P: Array, shift: Array, limits: Limits, n_panels: int) -> tuple[Array, Array]:
    """Return nodes and logarithms of weights for each row, without derivatives."""
    P, shift, limits = lax.stop_gradient((P, shift, limits))
    log_f = partial(_log_marginal, P, shift, limits, n_panels)
    reach = jnp.sqrt(2 * _DROP * jnp.linalg.inv(P)[0, 0])
    centre = _joint_mode(P, shift, limits)[:, 0]
    floor, ceiling = limits.lower[:, 0], limits.upper[:, 0]
    mode, top = _mode(log_f, jnp.maximum(centre - reach, floor), jnp.minimum(centre + reach, ceiling))
    low, high = _support(log_f, mode, top, reach)
    low, high = jnp.maximum(low, floor), jnp.minimum(high, ceiling)
    edges = jnp.stack([low, high], 1)
    if len(P) == 2:  # the inner integral changes where its mean is at its limits, on the scale √P_11 / |P_01|
        slope = jnp.where(jnp.abs(P[0, 1]) < _FLAT, _FLAT, P[0, 1])
        near = 9 * jnp.sqrt(P[1, 1]) / jnp.abs(slope)
        middle = (shift[:, 1:] - P[1, 1] * jnp.stack(limits, 2)[:, 1]) / slope
        cuts = jnp.clip(jnp.concatenate([middle - near, middle + near], 1), low[:, None], high[:, None])
        edges, n_panels = jnp.sort(jnp.concatenate([edges, cuts], 1), axis=1), _PAIR_PANELS
    # nodes in units of an interval between edges
    unit = ((np.arange(n_panels)[:, None] + 0.5 * (_NODES[None, :] + 1)) / n_panels).ravel()
    weight = np.tile(0.5 * _WEIGHTS / n_panels, n_panels)
    width = jnp.diff(edges, axis=1)[:, :, None]
    x = edges[:, :-1, None] + width * jnp.asarray(unit, shift.dtype)[None, None, :]
    log_w = jnp.log(width) + jnp.asarray(np.log(weight), shift.dtype)[None, None, :]
    return x.reshape(len(shift), -1), log_w.reshape(len(shift), -1)


@jax.jit
@full_precision
def pair_covariance(P: Array, shift: Array, limits: Limits) -> Array:
    """Return the covariance of two variables for each row."""
    x, log_w = _rule(P, shift, limits, _PAIR_PANELS)
    log_p = _log_marginal(P, shift, limits, _PAIR_PANELS, x) + log_w
    p = jnp.exp(log_p - logsumexp(log_p, axis=1)[:, None])
    walls = limits.map(lambda a: jnp.broadcast_to(a[:, 1:], x.shape))
    inner, _ = unit_moments(shift[:, 1:] - x * P[0, 1], jnp.broadcast_to(P[1, 1], x.shape), walls)
    off, beside = (y - (p * y).sum(1)[:, None] for y in (x, inner))
    return (p * off * beside).sum(1)


def _mode(log_f: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """Return place and value of the maximum of a log-concave function in [low, high], by refined grids."""
    unit = jnp.linspace(0, 1, 17, dtype=low.dtype)[None, :]

    def zoom(_: int, state: tuple[Array, ...]) -> tuple[Array, ...]:
        a, b = state[:2]
        x = a[:, None] + (b - a)[:, None] * unit
        f = log_f(x)
        best = f.argmax(1, keepdims=True)
        at = [jnp.take_along_axis(x, jnp.clip(best + k, 0, 16), 1)[:, 0] for k in (-1, 1, 0)]
        return (*at, f.max(1))

    out = lax.fori_loop(0, 11, zoom, (low, high, low, low))
    return out[2], out[3]


def _support(log_f: Callable[[Array], Array], mode: Array, top: Array, reach: Array) -> tuple[Array, Array]:
    """Find points on both sides of the mode where the function has dropped by `_DROP`, by bisection."""
    sign = jnp.asarray([-1.0, 1.0], mode.dtype)[None, :]

    def narrow(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = ends
        middle = 0.5 * (a + b)
        dropped = log_f(mode[:, None] + sign * jnp.exp(middle)) < top[:, None] - _DROP
        return jnp.where(dropped, a, middle), jnp.where(dropped, middle, b)

    end = jnp.full((mode.shape[0], 2), jnp.log(reach))
    _, distance = lax.fori_loop(0, 12, narrow, (end - 45.0, end))
    x = mode[:, None] + sign * jnp.exp(distance)
    return x[:, 0], x[:, 1]


def _joint_mode(P: Array, shift: Array, limits: Limits) -> Array:
    """Return the mode: the best feasible stationary point over all sets of variables at either limit."""
    m = P.shape[0]
    best, value = jnp.zeros_like(shift), jnp.full(shift.shape[:1], -jnp.inf, shift.dtype)
    for sides in itertools.product((0, 1, 2), repeat=m):  # free, at the lower limit, at the upper one
        at = [jnp.zeros_like(shift[:, k]) if s == 0 else limits[s - 1][:, k] for k, s in enumerate(sides)]
        h = jnp.stack([jnp.where(jnp.isfinite(a), a, 0) for a in at], 1)
        index = np.flatnonzero(np.asarray(sides) == 0)
        if index.size:
            pull = shift[:, index] - h @ P[:, index]
            h = h.at[:, index].set(pull @ jnp.linalg.inv(P[np.ix_(index, index)]))
        feasible = ((h >= limits.lower) & (h <= limits.upper)).all(1)
        feasible &= jnp.stack([jnp.isfinite(a) for a in at], 1).all(1)
        gain = jnp.where(feasible, (shift * h).sum(1) - 0.5 * ((h @ P) * h).sum(1), -jnp.inf)
        best = jnp.where((gain > value)[:, None], h, best)
        value = jnp.maximum(value, gain)
    return best
