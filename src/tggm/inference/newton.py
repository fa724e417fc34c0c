"""Newton's method for the mean-field problem, all rows and all units at once.

With q = Π N_T(θ_k/P_kk, 1/P_kk), m and v its means and variances, and P̃ = P − diag P, mean field minimises

    f(m) = Σ A_k*(m_k) + ½ mᵀP̃m − γᵀm,    gradient r = θ + P̃m − γ,    Hessian H = diag(1/v) + P̃ ≽ P,

which is strictly convex: v_k ≤ 1/P_kk, so H = P + diag(1/v − P_kk) adds a nonnegative diagonal to P. A step solves
H δm = −r and moves θ by δm / v. The squared Newton decrement −rᵀδm is twice the number of nats the bound can
still gain, so it is what the iteration stops on.

A step is kept when the derivative of f along it has not turned up by more than half of what it was going down;
f being convex, that is a line search that needs no further function. Otherwise the step is halved.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.inference.conjugate_gradient import conjugate_gradient
from tggm.inference.factors import standardised

# Above this size a factorisation per row costs more than conjugate gradients with one shared product a step.
FACTOR_UP_TO = 64


class NewtonState(NamedTuple):
    """The point, and the step that leaves it."""

    theta: Array  # (rows, m) natural parameters of q
    mean: Array  # (rows, m)
    residual: Array  # (rows, m) gradient r of f
    step: Array  # (rows, m) Newton direction in θ
    decrement: Array  # (rows,) −rᵀδm
    length: Array  # (rows,) fraction of the step to try next
    done: Array  # (rows,)
    n_iter: Array  # (rows,)


def step_tolerance(dtype: object) -> float:
    """Squared decrement at which one more full step ends at rounding error (convergence is quadratic)."""
    return 1e-15 if jnp.finfo(dtype).bits == 64 else 1e-7


def newton(tg: TruncatedGaussian, start: Array, max_iter: Array) -> NewtonState:
    """Minimise f for every row from natural parameters `start`; see the module's text."""
    tol = step_tolerance(tg.shift.dtype)

    def keep_going(carry: tuple[Array, NewtonState]) -> Array:
        i, state = carry
        return (i < max_iter) & ~state.done.all()

    def body(carry: tuple[Array, NewtonState]) -> tuple[Array, NewtonState]:
        i, old = carry
        new = _visit(tg, old.theta + old.length[:, None] * old.step)
        path = new.mean - old.mean
        slope, new_slope = (old.residual * path).sum(-1), (new.residual * path).sum(-1)
        good = jnp.isfinite(new.decrement) & (new_slope <= -0.5 * slope)
        good = good | (old.decrement <= tol)  # nothing left but rounding
        done = old.done | (good & ((old.decrement <= tol) | (new.decrement <= 1e-6 * tol)))
        new = new._replace(done=done, n_iter=old.n_iter + 1)
        stay = old._replace(length=old.length / 2, n_iter=old.n_iter + 1)
        keep = jax.tree.map(lambda a, b: _where(good, a, b), new, stay)
        return i + 1, jax.tree.map(lambda a, b: _where(old.done, b, a), keep, old)

    first = _visit(tg, start)
    return lax.while_loop(keep_going, body, (jnp.int32(0), first))[1]


def _where(rows: Array, a: Array, b: Array) -> Array:
    return jnp.where(rows.reshape(rows.shape + (1,) * (a.ndim - 1)), a, b)


def _visit(tg: TruncatedGaussian, theta: Array) -> NewtonState:
    """Everything that is known at θ, the next step included."""
    p = tg.precision.diagonal()[None, :]
    root = jnp.sqrt(p)
    g, omega2 = standardised(theta / root, tg.truncated[None, :])
    mean, var = g / root, omega2 / p
    residual = theta + tg.precision.off_diagonal(mean) - tg.shift
    curvature = p * (1 / omega2 - 1)  # 1/v − P_kk, nonnegative
    delta = -solve(tg, curvature, residual)
    n = theta.shape[0]
    return NewtonState(
        theta=theta,
        mean=mean,
        residual=residual,
        step=bounded_step(delta, var, mean, root),
        decrement=-(residual * delta).sum(-1),
        length=jnp.ones(n, theta.dtype),
        done=jnp.zeros(n, bool),
        n_iter=jnp.zeros(n, jnp.int32),
    )


def bounded_step(delta: Array, var: Array, mean: Array, root: Array) -> Array:
    """Move of θ for a move of the mean: the tangent, unless it overshoots grossly.

    The mean is a convex function of θ, so a unit that leaves zero would be thrown far out by its tangent. With
    x = m √p the inverse function is close to √p (x − 1/x); twice its secant bounds the step.
    """
    x = jnp.maximum(mean * root, jnp.finfo(mean.dtype).tiny ** 0.5)
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
