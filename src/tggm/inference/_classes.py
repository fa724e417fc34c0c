r"""Mean field of a row with a known class: hidden units h and outputs z = W h + b + ε, ε ~ N(0, I), together.

z depends on the last units of h, and the class c is the largest z. q(h) is factorised, q(z) optimal given it.
With S_c the logarithm of the class's probability or its factorised bound (`tggm.special.probit`), the best
q(z) given q(h) is known: N(η, I) on the region of class c (or its factorised counterpart), η = W m + b, m the
means of q(h). The remaining problem is mean field of h, with WᵀW in its precision and the term

.. math:: T(m) = S_c(W m + b) + \tfrac12 \|W m\|^2.

The problem is strictly convex, because S_c is concave and its Hessian at least −I. So alternating q(h) and
q(z) has one limit, which Newton's method reaches directly.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.tree_util import Partial

from tggm.gaussian import TruncatedGaussian
from tggm.inference import _mean_field
from tggm.inference._common import unit_moments
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

    return lax.fori_loop(jnp.int32(0), n_cycles, cycle, (start, tg.shift))[1]
