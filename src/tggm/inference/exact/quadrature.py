"""Brute force for up to three variables: integrals inside one another, the innermost in closed form.

    log Z(P, γ) = log ∫ exp(−½P₀₀x² + γ₀x + log Z(P', γ' − x P_{1:,0})) dx,

P' and γ' being P and γ without the first variable. The integrand is log-concave, with curvature at least
1/Σ₀₀ (Σ = P⁻¹) and no feature narrower than 1/√P₀₀: so its mode and the interval where it is not negligible
are found by searching, and Gauss–Legendre panels no longer than 4/√P₀₀ cover it to rounding error, however
peaked or skewed it is.
"""

import itertools
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp

from tggm.gaussian import Limits, TruncatedGaussian, Walls
from tggm.precision.protocol import is_concrete
from tggm.products import full_precision
from tggm.special import box_log_z, truncated_log_z

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_DROP = 45.0  # natural logarithms below the mode at which the integrand ends
_MAX_PANELS = 256
MAX_VARIABLES = 3


def panels(P: Array) -> int:
    """Panels that resolve 1/√P_kk over the widest interval any variable may need, to a power of two."""
    if not is_concrete(P):
        return 32
    dense = np.asarray(P, dtype=np.float64)
    width = 2 * np.sqrt(2 * _DROP * np.diag(np.linalg.inv(dense)) * np.diag(dense)).max()
    return int(min(2 ** np.ceil(np.log2(width / 4)), _MAX_PANELS))


@partial(jax.jit, static_argnums=3)
@full_precision
def log_z(P: Array, shift: Array, walls: Walls, n_panels: int) -> Array:
    """Log Z for each row of `shift`, m ≤ 3; differentiable with respect to P and shift.

    `walls` are a mask of shape (m,) of what is kept nonnegative, or limits of the shape of the shift.
    """
    if P.shape[0] == 1:
        theta, p = shift[:, 0], P[0, 0]
        if isinstance(walls, Limits):
            return box_log_z(theta, jnp.broadcast_to(p, theta.shape), walls.lower[:, 0], walls.upper[:, 0])
        whole = 0.5 * theta**2 / p + 0.5 * jnp.log(2 * jnp.pi / p)
        return jnp.where(walls[0], truncated_log_z(theta, jnp.broadcast_to(p, theta.shape)), whole)
    x, log_w = _rule(P, shift, walls, n_panels)
    return logsumexp(_log_marginal(P, shift, walls, n_panels, x) + log_w, axis=1)


def walls(rows: TruncatedGaussian) -> Walls:
    """What the functions here take as walls."""
    if rows.limits is None:
        return rows.truncated
    return rows.limits.map(lambda a: jnp.broadcast_to(a, rows.shift.shape))


def _log_marginal(P: Array, shift: Array, walls: Walls, n_panels: int, x: Array) -> Array:
    """Log of the integrand above at points x of shape (rows, points)."""
    inner = shift[:, None, 1:] - x[:, :, None] * P[None, None, 1:, 0]
    if isinstance(walls, Limits):
        rest: Walls = walls.map(lambda a: jnp.repeat(a[:, 1:], x.shape[1], axis=0))
    else:
        rest = walls[1:]
    flat: Array = log_z(P[1:, 1:], inner.reshape(-1, inner.shape[-1]), rest, n_panels)
    return -0.5 * P[0, 0] * x**2 + shift[:, :1] * x + flat.reshape(x.shape)


def _rule(P: Array, shift: Array, walls: Walls, n_panels: int) -> tuple[Array, Array]:
    """Nodes and logarithms of weights for each row; constants, since the result does not depend on them."""
    P, shift, walls = lax.stop_gradient((P, shift, walls))
    log_f = partial(_log_marginal, P, shift, walls, n_panels)
    reach = jnp.sqrt(2 * _DROP * jnp.linalg.inv(P)[0, 0])
    if isinstance(walls, Limits):
        centre = _box_mode(P, shift, walls)[:, 0]
        floor, ceiling = walls.lower[:, 0], walls.upper[:, 0]
    else:
        centre = _joint_mode(P, shift, walls)[:, 0]
        floor = jnp.where(walls[0], 0.0, -jnp.inf).astype(shift.dtype)
        ceiling = jnp.asarray(jnp.inf, shift.dtype)
    mode, top = _mode(log_f, jnp.maximum(centre - reach, floor), jnp.minimum(centre + reach, ceiling))
    low, high = _support(log_f, mode, top, reach)
    low, high = jnp.maximum(low, floor), jnp.minimum(high, ceiling)
    # nodes in units of the whole interval
    unit = ((np.arange(n_panels)[:, None] + 0.5 * (_NODES[None, :] + 1)) / n_panels).ravel()
    weight = np.tile(0.5 * _WEIGHTS / n_panels, n_panels)
    width = (high - low)[:, None]
    x = low[:, None] + width * jnp.asarray(unit, shift.dtype)[None, :]
    return x, jnp.log(width) + jnp.asarray(np.log(weight), shift.dtype)[None, :]


def _mode(log_f: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """Maximum of a log-concave function in [low, high]: where and how high, zooming in eightfold a time."""
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
    """Points on both sides of the mode, within reach, that have dropped enough: bisecting the exponent."""
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


def _joint_mode(P: Array, shift: Array, truncated: Array) -> Array:
    """Mode of the truncated Gaussian: the best feasible stationary point over all sets of zeros."""
    m = P.shape[0]
    best, value = jnp.zeros_like(shift), jnp.full(shift.shape[:1], -jnp.inf, shift.dtype)
    for free in itertools.product((False, True), repeat=m):
        index = np.flatnonzero(free)
        h = jnp.zeros_like(shift)
        if index.size:
            h = h.at[:, index].set(shift[:, index] @ jnp.linalg.inv(P[np.ix_(index, index)]))
        fixed = ~np.asarray(free)
        feasible = ((h >= 0) | ~truncated[None, :]).all(1) & ~(jnp.asarray(fixed) & ~truncated).any()
        gain = jnp.where(feasible, 0.5 * (shift * h).sum(1), -jnp.inf)
        best = jnp.where((gain > value)[:, None], h, best)
        value = jnp.maximum(value, gain)
    return best


def _box_mode(P: Array, shift: Array, walls: Limits) -> Array:
    """Mode in a box: the best feasible stationary point over all sets of variables at either limit."""
    m = P.shape[0]
    best, value = jnp.zeros_like(shift), jnp.full(shift.shape[:1], -jnp.inf, shift.dtype)
    for sides in itertools.product((0, 1, 2), repeat=m):  # free, at the lower limit, at the upper one
        at = [jnp.zeros_like(shift[:, k]) if s == 0 else walls[s - 1][:, k] for k, s in enumerate(sides)]
        h = jnp.stack([jnp.where(jnp.isfinite(a), a, 0) for a in at], 1)
        index = np.flatnonzero(np.asarray(sides) == 0)
        if index.size:
            pull = shift[:, index] - h @ P[:, index]
            h = h.at[:, index].set(pull @ jnp.linalg.inv(P[np.ix_(index, index)]))
        feasible = ((h >= walls.lower) & (h <= walls.upper)).all(1)
        feasible &= jnp.stack([jnp.isfinite(a) for a in at], 1).all(1)
        gain = jnp.where(feasible, (shift * h).sum(1) - 0.5 * ((h @ P) * h).sum(1), -jnp.inf)
        best = jnp.where((gain > value)[:, None], h, best)
        value = jnp.maximum(value, gain)
    return best


@partial(jax.jit, static_argnums=3)
@full_precision
def moments(P: Array, shift: Array, walls: Walls, n_panels: int) -> tuple[Array, Array, Array]:
    """Log Z, means and variances for each row; each variable in turn is the outermost."""
    m = P.shape[0]

    def outermost(order: Array) -> tuple[Array, Array, Array]:
        own = walls.map(lambda a: a[:, order]) if isinstance(walls, Limits) else walls[order]
        part = (P[order][:, order], shift[:, order], own)
        x, log_w = _rule(*part, n_panels)
        log_p = _log_marginal(*part, n_panels, x) + log_w
        total = logsumexp(log_p, axis=1)
        p = jnp.exp(log_p - total[:, None])
        mean = (p * x).sum(1)
        return total, mean, (p * (x - mean[:, None]) ** 2).sum(1)

    orders = jnp.asarray([[k, *(j for j in range(m) if j != k)] for k in range(m)])
    total, mean, var = jax.vmap(outermost)(orders)
    return total[0], mean.T, var.T
