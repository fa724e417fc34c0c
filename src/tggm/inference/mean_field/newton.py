"""Newton's method for the mean-field problem, all rows and all units at once.

With q = Π N_T(θ_k/P_kk, 1/P_kk), m and v its means and variances, and P̃ = P − diag P, mean field minimises

    f(m) = Σ A_k*(m_k) + ½ mᵀP̃m − γᵀm − T(m),    gradient r = θ + P̃m − γ − T',    Hessian diag(1/v) + P̃ − T″,

with T zero or a concave term such as the class of a row (`classes`). f is strictly convex: v_k ≤ 1/P_kk, so
diag(1/v) + P̃ = P + diag(1/v − P_kk) adds a nonnegative diagonal to P. A step solves H δm = −r and moves θ by
δm / v. The squared Newton decrement −rᵀδm is twice the number of nats the bound can still gain, so it is what
the iteration stops on.

A step is kept when f falls by a part of what the decrement promises. The derivative of f along the step is no
substitute: it turns up steeply where a unit comes close to zero, and most of the steps it forbids are good.
A row whose step was refused tries a shorter one, to where the derivative along the step would vanish were it
linear, and goes on from that length: twice as long after every success.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.tree_util import Partial

from tggm.gaussian import Limits, TruncatedGaussian, Walls
from tggm.inference.conjugate_gradient import conjugate_gradient
from tggm.inference.factors import log_normaliser, scaled, standardised
from tggm.precision import Dense, Diagonal, Layered, LowRank
from tggm.precision.protocol import rounding

# Above this size a factorisation per row costs more than conjugate gradients with one shared product a step.
FACTOR_UP_TO = 64
FEW_LAYERS = 3
# Squared residual that conjugate gradients may leave, by bytes a number: training asks for no more. Problems
# in double precision may be hard ones, where inexact steps cost more steps than they save.
ENOUGH = {4: 1e-8, 8: None}


class Term(NamedTuple):
    """T at given means."""

    value: Array  # (rows,)
    gradient: Array  # (rows, m)
    bend: Partial  # x ↦ T″ x, (rows, m); holds arrays with an axis of rows only


Terms = Callable[[Array], Term]


class Point(NamedTuple):
    """What is known about each row's q."""

    theta: Array  # (rows, m) natural parameters
    mean: Array  # (rows, m)
    omega2: Array  # (rows, m) variance times P_kk
    residual: Array  # (rows, m) gradient r of f
    loss: Array  # (rows,) f
    bend: Partial


class NewtonState(NamedTuple):
    """A point, and how each row is getting on."""

    point: Point
    length: Array  # (rows,) fraction of the step to try next
    done: Array  # (rows,)
    n_iter: Array  # (rows,)


def no_term(mean: Array) -> Term:
    """T = 0: mean field alone."""
    return Term(jnp.zeros(mean.shape[0], mean.dtype), jnp.zeros_like(mean), Partial(jnp.zeros_like))


def step_tolerance(dtype: Any) -> float:
    """Squared decrement at which one more full step ends at rounding error (convergence is quadratic)."""
    return 1e-12 if np.dtype(dtype).itemsize == 8 else 1e-5


def newton(tg: TruncatedGaussian, start: Array, max_iter: Array, term: Terms = no_term) -> NewtonState:
    """Minimise f for every row from natural parameters `start`; see the module's text."""
    tg = _in_one_piece(tg)
    p = tg.precision.diagonal()[None, :]
    tol = step_tolerance(tg.shift.dtype)
    rows, walls = len(tg), tg.walls()

    def keep_going(carry: tuple[Array, NewtonState]) -> Array:
        i, state = carry
        return (i < max_iter) & ~state.done.all()

    def body(carry: tuple[Array, NewtonState]) -> tuple[Array, NewtonState]:
        i, (old, length, done, n_iter) = carry
        bend = None if term is no_term else old.bend
        delta = -solve(tg, p * (1 / old.omega2 - 1), old.residual, bend, ENOUGH[p.dtype.itemsize])
        decrement = -(old.residual * delta).sum(-1)
        last = jnp.abs(decrement) <= jnp.maximum(tol, _noise(tg, old, p))
        length = jnp.where(last, 1, length)
        # bounded after it is shortened: a short step is then a descent direction for sure
        step = bounded_step(length[:, None] * delta, old.omega2 / p, old.mean, jnp.sqrt(p), walls)
        new = visit(tg, old.theta + step, term)
        good = last | (new.loss <= old.loss - 1e-4 * length * decrement + _loss_noise(tg, old))  # not for NaN
        move = good & ~done
        point = jax.tree.map(lambda a, b: jnp.where(_along(move, a), a, b), new, old)
        length = jnp.where(good, jnp.minimum(1, 2 * length), length * _shrinkage(old, new))
        return i + 1, NewtonState(point, length, done | (good & last), n_iter + (~done).astype(jnp.int32))

    first = NewtonState(
        visit(tg, start, term), jnp.ones(rows, start.dtype), jnp.zeros(rows, bool), jnp.zeros(rows, jnp.int32)
    )
    return lax.while_loop(keep_going, body, (jnp.int32(0), first))[1]


def _in_one_piece(tg: TruncatedGaussian) -> TruncatedGaussian:
    """Few layers as one matrix with hardly more entries: one product a step instead of many small ones."""
    P = tg.precision
    if isinstance(P, Layered) and len(P.sizes) <= FEW_LAYERS and P.size > FACTOR_UP_TO and tg.limits is None:
        return TruncatedGaussian(Dense(P.dense()), tg.shift, tg.truncated)
    return tg


def _along(mask: Array, like: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (like.ndim - 1))


def _noise(tg: TruncatedGaussian, point: Point, p: Array) -> Array:
    """What the decrement cannot fall below: rounding of the residual's terms, which may be large."""
    noise = 4 * rounding(p.dtype) * (jnp.abs(tg.shift) + jnp.abs(point.theta))
    return (noise**2 * point.omega2 / p).sum(-1)


def _loss_noise(tg: TruncatedGaussian, point: Point) -> Array:
    """Rounding of f: a rise below it is none."""
    terms = (jnp.abs(tg.shift - point.theta) + jnp.abs(point.theta)) * jnp.abs(point.mean)
    return 8 * rounding(terms.dtype) * (terms.sum(-1) + jnp.abs(point.loss))


def _shrinkage(old: Point, new: Point) -> Array:
    """Where the derivative along the step vanishes, were it linear, as a fraction between 0.1 and 0.5."""
    path = new.mean - old.mean
    slope, new_slope = (old.residual * path).sum(-1), (new.residual * path).sum(-1)
    return jnp.clip(jnp.where(new_slope > slope, -slope / (new_slope - slope), 0.5), 0.1, 0.5)


def visit(tg: TruncatedGaussian, theta: Array, term: Terms = no_term) -> Point:
    """Moments of q, f and its gradient at θ."""
    p, walls = tg.precision.diagonal()[None, :], tg.walls()
    g, omega2 = standardised(theta / jnp.sqrt(p), scaled(walls, jnp.sqrt(p)))
    mean = g / jnp.sqrt(p)
    coupling = tg.precision.off_diagonal(mean)
    T = term(mean)
    parts = log_normaliser(theta, p, walls) + (tg.shift - theta - coupling / 2) * mean
    residual = theta + coupling - tg.shift - T.gradient
    return Point(theta, mean, omega2, residual, -parts.sum(-1) - T.value, T.bend)


def bounded_step(delta: Array, var: Array, mean: Array, root: Array, walls: Walls) -> Array:
    """Move of θ for a move of the mean: the tangent, unless it overshoots grossly.

    The mean is a convex function of θ, so a unit that leaves zero would be thrown far out by its tangent.
    With x = m √p the inverse function is close to √p (x − 1/x); twice its secant bounds the step. Between two
    limits it is close to √p (x − 1/(x − l) + 1/(u − x)), of which the same holds.
    """
    if isinstance(walls, Limits):
        return _bounded_in_box(delta * root, var, mean * root, root, walls.map(lambda a: a * root))
    x = jnp.maximum(mean * root, float(np.finfo(mean.dtype).tiny) ** 0.5)
    dx = delta * root
    secant = root * dx * (1 + 1 / (x * (x + jnp.maximum(dx, 0))))
    return jnp.where(dx > 0, jnp.minimum(delta / var, 2 * secant), delta / var)


def _bounded_in_box(dx: Array, var: Array, x: Array, root: Array, walls: Limits) -> Array:
    least = float(np.finfo(x.dtype).tiny) ** 0.5
    behind = jnp.maximum(jnp.where(dx > 0, x - walls.lower, walls.upper - x), least)
    ahead = jnp.maximum(jnp.where(dx > 0, walls.upper - x, x - walls.lower), least)
    size = jnp.minimum(jnp.abs(dx), 0.9 * ahead)  # a mean cannot leave the box
    secant = root * size * (1 + 1 / (behind * (behind + size)) + 1 / (ahead * (ahead - size)))
    return jnp.sign(dx) * jnp.minimum(jnp.abs(dx) / (root * var), 2 * secant)


def solve(
    tg: TruncatedGaussian,
    extra: Array,
    r: Array,
    bend: Callable[[Array], Array] | None = None,
    enough: float | None = None,
) -> Array:
    """(P + diag(extra) − T″)⁻¹ r; as exactly as a step needs it where `enough` is given.

    By factorisation where that is cheap and there is no T; elsewhere by conjugate gradients, which need no
    batched factorisation (see `tggm.blas_lock`). With U of n rows in a `LowRank` P, and T a
    function of U m, what is left beside diag(base + extra) has rank n at most, which bounds their steps.
    """
    P = tg.precision
    if bend is None and (
        isinstance(P, LowRank | Diagonal) or (isinstance(P, Dense) and P.size <= FACTOR_UP_TO)
    ):
        return P.factor(extra).solve(r)
    scale = extra + P.diagonal()[None, :]
    near = extra + P.base[None, :] if isinstance(P, LowRank) else scale

    def product(x: Array) -> Array:
        flat = P.off_diagonal(x) + scale * x
        return flat if bend is None else flat - bend(x)

    return conjugate_gradient(product, r, near, enough)
