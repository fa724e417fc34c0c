"""Newton's method for the mean-field problem, all rows and all units at once.

With q = Π N_T(θ_k/P_kk, 1/P_kk), m and v its means and variances, and P̃ = P − diag P, mean field minimises

    f(m) = Σ A_k*(m_k) + ½ mᵀP̃m − γᵀm,    gradient r = θ + P̃m − γ,    Hessian H = diag(1/v) + P̃ ≽ P,

which is strictly convex: v_k ≤ 1/P_kk, so H = P + diag(1/v − P_kk) adds a nonnegative diagonal to P. A step
solves H δm = −r and moves θ by δm / v. The squared Newton decrement −rᵀδm is twice the number of nats the
bound can still gain, so it is what the iteration stops on.

A step is kept when the derivative of f along it has not turned up by more than half of what it was going
down; f being convex, that is a line search that needs no further function. Otherwise the step is halved.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.inference.conjugate_gradient import conjugate_gradient
from tggm.inference.factors import standardised
from tggm.precision.protocol import rounding

# Above this size a factorisation per row costs more than conjugate gradients with one shared product a step.
FACTOR_UP_TO = 64


class Point(NamedTuple):
    """What is known about each row's q."""

    theta: Array  # (rows, m) natural parameters
    mean: Array  # (rows, m)
    omega2: Array  # (rows, m) variance times P_kk
    residual: Array  # (rows, m) gradient r of f


class NewtonState(NamedTuple):
    """A point, and how each row is getting on."""

    point: Point
    length: Array  # (rows,) fraction of the step to try next
    done: Array  # (rows,)
    n_iter: Array  # (rows,)


def step_tolerance(dtype: Any) -> float:
    """Squared decrement at which one more full step ends at rounding error (convergence is quadratic)."""
    return 1e-12 if np.dtype(dtype).itemsize == 8 else 1e-5


def newton(tg: TruncatedGaussian, start: Array, max_iter: Array) -> NewtonState:
    """Minimise f for every row from natural parameters `start`; see the module's text."""
    p = tg.precision.diagonal()[None, :]
    tol = step_tolerance(tg.shift.dtype)
    rows = len(tg)

    def keep_going(carry: tuple[Array, NewtonState]) -> Array:
        i, state = carry
        return (i < max_iter) & ~state.done.all()

    def body(carry: tuple[Array, NewtonState]) -> tuple[Array, NewtonState]:
        i, (old, length, done, n_iter) = carry
        delta = -solve(tg, p * (1 / old.omega2 - 1), old.residual)
        decrement = -(old.residual * delta).sum(-1)
        step = bounded_step(delta, old.omega2 / p, old.mean, jnp.sqrt(p))
        new = visit(tg, old.theta + length[:, None] * step)
        path = new.mean - old.mean
        slope, new_slope = (old.residual * path).sum(-1), (new.residual * path).sum(-1)
        last = jnp.abs(decrement) <= jnp.maximum(tol, _noise(tg, old, p))
        good = last | (new_slope <= -0.5 * slope)  # false for NaN
        move = (good & ~done)[:, None]
        point = jax.tree.map(lambda a, b: jnp.where(move, a, b), new, old)
        state = NewtonState(
            point, jnp.where(good, 1, length / 2), done | (good & last), n_iter + (~done).astype(jnp.int32)
        )
        return i + 1, state

    first = NewtonState(
        visit(tg, start), jnp.ones(rows, start.dtype), jnp.zeros(rows, bool), jnp.zeros(rows, jnp.int32)
    )
    return lax.while_loop(keep_going, body, (jnp.int32(0), first))[1]


def _noise(tg: TruncatedGaussian, point: Point, p: Array) -> Array:
    """What the decrement cannot fall below: rounding of the residual's terms, which may be large."""
    noise = 4 * rounding(p.dtype) * (jnp.abs(tg.shift) + jnp.abs(point.theta))
    return (noise**2 * point.omega2 / p).sum(-1)


def visit(tg: TruncatedGaussian, theta: Array) -> Point:
    """Moments of q and the gradient of f at θ."""
    root = jnp.sqrt(tg.precision.diagonal())[None, :]
    g, omega2 = standardised(theta / root, tg.truncated[None, :])
    mean = g / root
    return Point(theta, mean, omega2, theta + tg.precision.off_diagonal(mean) - tg.shift)


def bounded_step(delta: Array, var: Array, mean: Array, root: Array) -> Array:
    """Move of θ for a move of the mean: the tangent, unless it overshoots grossly.

    The mean is a convex function of θ, so a unit that leaves zero would be thrown far out by its tangent.
    With x = m √p the inverse function is close to √p (x − 1/x); twice its secant bounds the step.
    """
    x = jnp.maximum(mean * root, float(np.finfo(mean.dtype).tiny) ** 0.5)
    dx = delta * root
    secant = root * dx * (1 + 1 / (x * (x + jnp.maximum(dx, 0))))
    return jnp.where(dx > 0, jnp.minimum(delta / var, 2 * secant), delta / var)


def solve(tg: TruncatedGaussian, extra: Array, r: Array) -> Array:
    """(P + diag(extra))⁻¹ r: by factorisation where that is cheap, by conjugate gradients elsewhere."""
    P = tg.precision
    if hasattr(P, "rank") or hasattr(P, "values") or P.size <= FACTOR_UP_TO:
        return P.factor(extra).solve(r)
    scale = extra + P.diagonal()[None, :]
    return conjugate_gradient(lambda x: P.off_diagonal(x) + scale * x, r, scale)
