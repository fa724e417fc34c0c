r"""Mean field for truncated Gaussians with a term beyond the quadratic energy: what deep models need.

q factorises over units. The bound of a row is

.. math::
    L(q) = E_q[-\tfrac12 h^T P h + \gamma^T h] + H(q) + T(m),

with T a function of the means m of q, zero or one of `tggm.models.deep_terms`:

* directed: every layer above the first is normalised given the one below, by 1/Φ(u/σ0) a unit. −log Φ is
  convex, so E[−log Φ(u/σ0)] ≥ −log Φ(E[u]/σ0), which is linear in nothing but m: T = −Σ log Φ(E_q[u]/σ0).
* classes: given q(h) the best q(z) is known, see `tggm.models.probit_posterior`: with W1ᵀW1 in P,
  T = S_c(W1 m + b1) + ½ ‖W1 m‖².

Newton's method in the natural parameters θ of q solves (diag(1/v) + P̃ − T″) δm = −(θ + P̃m − γ − T′), T″
without the directed part: that leaves a majoriser (log Φ is concave), so that steps still never overshoot.
Systems are solved by conjugate gradients, one product with the shared weights a step, and never by batched
factorisations: two of those that run at the same time on a CPU may wait for each other for ever.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.inference.conjugate_gradient import conjugate_gradient
from tggm.inference.mean_field.engine import expected_energy
from tggm.inference.mean_field.newton import bounded_step, step_tolerance
from tggm.precision.protocol import rounding
from tggm.special import standard_moments, truncated_log_z


class Term(NamedTuple):
    """T at given means: its value, its gradient, and a product with (part of) its Hessian."""

    value: Array  # (rows,)
    gradient: Array  # (rows, m)
    bend: Callable[[Array], Array]  # v ↦ T″ v, (rows, m)


class Factors(NamedTuple):
    """q of each row, and how its search went."""

    theta: Array  # (rows, m) natural parameters
    mean: Array  # (rows, m)
    omega2: Array  # (rows, m) variance times P_kk
    converged: Array  # (rows,)
    n_iter: Array  # (rows,)


Terms = Callable[[Array], Term]


def no_term(mean: Array) -> Term:
    """T = 0: mean field alone."""
    return Term(jnp.zeros(mean.shape[0], mean.dtype), jnp.zeros_like(mean), jnp.zeros_like)


def best_factors(tg: TruncatedGaussian, term: Terms, start: Array, max_iter: Array) -> Factors:
    """Newton's method for all rows at once, from means `start`.

    A row has converged when the squared Newton decrement is below `step_tolerance`.
    A step that would turn the derivative of L along it by more than half is halved instead.
    """
    P = tg.precision
    p = P.diagonal()[None, :]
    root = jnp.sqrt(p)
    tol = step_tolerance(tg.shift.dtype)

    def visit(theta: Array) -> tuple[Array, Array, Array]:
        g, omega2 = standard_moments(theta / root)
        mean = g / root
        return mean, omega2, theta + P.off_diagonal(mean) - tg.shift - term(mean).gradient

    def keep_going(carry: tuple[Array, Factors, Array, Array]) -> Array:
        i, q, _, _ = carry
        return (i < max_iter) & ~q.converged.all()

    def body(carry: tuple[Array, Factors, Array, Array]) -> tuple[Array, Factors, Array, Array]:
        i, old, residual, length = carry
        bend = term(old.mean).bend
        scale = p / old.omega2
        delta = conjugate_gradient(lambda x: P.off_diagonal(x) + scale * x - bend(x), -residual, scale)
        decrement = -(residual * delta).sum(-1)
        step = bounded_step(delta, old.omega2 / p, old.mean, root)
        theta = old.theta + length[:, None] * step
        mean, omega2, later = visit(theta)
        path = mean - old.mean
        slope, new_slope = (residual * path).sum(-1), (later * path).sum(-1)
        noise = 4 * rounding(p.dtype) * (jnp.abs(tg.shift) + jnp.abs(old.theta))
        last = jnp.abs(decrement) <= jnp.maximum(tol, (noise**2 * old.omega2 / p).sum(-1))
        good = last | (new_slope <= -0.5 * slope)  # false for NaN
        move = (good & ~old.converged)[:, None]
        new = Factors(
            jnp.where(move, theta, old.theta),
            jnp.where(move, mean, old.mean),
            jnp.where(move, omega2, old.omega2),
            old.converged | (good & last),
            old.n_iter + (~old.converged).astype(jnp.int32),
        )
        return i + 1, new, jnp.where(move, later, residual), jnp.where(good, 1, length / 2)

    rows = len(tg)
    theta = tg.shift - P.off_diagonal(start) + term(start).gradient
    mean, omega2, residual = visit(theta)
    first = Factors(theta, mean, omega2, jnp.zeros(rows, bool), jnp.zeros(rows, jnp.int32))
    one = jnp.ones(rows, theta.dtype)
    return lax.while_loop(keep_going, body, (jnp.int32(0), first, residual, one))[1]


def bound(tg: TruncatedGaussian, q: Factors, value: Array) -> Array:
    """L(q) for each row, with the gradient of L under a fixed q; `value` is T at its means.

    q is (nearly) stationary, so the derivative with q held fixed is the whole derivative: EM's gradient.
    """
    q = jax.tree.map(lax.stop_gradient, q)
    p = lax.stop_gradient(tg.precision.diagonal())[None, :]
    var = q.omega2 / p
    entropy = truncated_log_z(q.theta, p) - q.theta * q.mean + 0.5 * p * (q.mean**2 + var)
    return expected_energy(tg, q.mean, var) + entropy.sum(-1) + value


def mean_field_log_z(tg: TruncatedGaussian, start: Array, max_iter: Array) -> Array:
    """Mean field's bound on log Z for each row, differentiable."""
    q = best_factors(jax.tree.map(lax.stop_gradient, tg), no_term, lax.stop_gradient(start), max_iter)
    return bound(tg, q, jnp.zeros(len(tg), tg.shift.dtype))
