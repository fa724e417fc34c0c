r"""Mean field for the latent variables of a row whose class is known: q(h) factorised, q(z) optimal given it.

With S_c the logarithm of the class's probability or its factorised bound (`tggm.special.probit_bound`), the
joint bound on log p(c | x) is

.. math::
    L(q) = S_c(W_1 m + b_1) - \tfrac12 \sum_k \|w_k\|^2 v_k - \mathrm{KL}(q(h) \,\|\, p(h|x)),

m and v the means and variances of q(h), w_k the columns of W1: given q(h), the best q(z) is N(η, I) on the
region of class c (or its factorised counterpart), η = W1 m + b1, and has gone into S_c. The best factors are
N_T(θ_k/p_k, 1/p_k) with p_k = 1/s0 + ‖w_k‖², and in m

.. math::
    -L = \sum_k A_k^*(m_k) - \tfrac12 \|w_k\|^2 m_k^2 - a_k m_k / s_0 - S_c(W_1 m + b_1) + \mathrm{const}

is strictly convex: its Hessian diag(1/v − ‖w_k‖²) − W1ᵀ S_c″ W1 is at least I/s0. So alternating q(h) and
q(z) has one limit, and Newton's method goes there directly, an n×n solve a row and step.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.inference.mean_field.newton import bounded_step, step_tolerance
from tggm.models.shallow import Shallow, locations, prior_log_z
from tggm.precision.protocol import rounding
from tggm.special import standard_moments, truncated_log_z
from tggm.special.probit_bound import Expansion

Score = Callable[[Array], Expansion]  # η (rows, n) to S_c and its derivatives


class Latent(NamedTuple):
    """q(h) of each row, and how its search went."""

    theta: Array  # (rows, m) natural parameters
    mean: Array  # (rows, m)
    omega2: Array  # (rows, m) variance times p_k
    residual: Array  # (rows, m) gradient of −L with respect to the means
    expansion: Expansion  # S_c at W1 m + b1
    converged: Array  # (rows,)
    n_iter: Array  # (rows,)


def latent_posterior(params: Shallow, a: Array, s0: Array, score: Score, max_iter: Array) -> Latent:
    """Newton's method for all rows at once; `a` are the locations W0 x + b0.

    A row has converged when the squared Newton decrement, twice the number of nats that L can still gain, is
    below 1e-12 (float64) or 1e-6 (float32), or below what rounding does to it. A step that would turn the
    derivative of L along it by more than half is halved instead, so L never falls.
    """
    W1 = params.W1
    norms = (W1**2).sum(0)[None, :]
    p = 1 / s0 + norms
    tol = step_tolerance(a.dtype)

    def visit(theta: Array) -> tuple[Array, Array, Array, Expansion]:
        g, omega2 = standard_moments(theta / jnp.sqrt(p))
        mean = g / jnp.sqrt(p)
        expansion = score(mean @ W1.T + params.b1[None, :])
        residual = theta - a / s0 - norms * mean - expansion.gradient @ W1
        return mean, omega2, residual, expansion

    def keep_going(carry: tuple[Array, Latent, Array]) -> Array:
        i, q, _ = carry
        return (i < max_iter) & ~q.converged.all()

    def body(carry: tuple[Array, Latent, Array]) -> tuple[Array, Latent, Array]:
        i, old, length = carry
        curvature = p / old.omega2 - norms
        delta = -_solve(curvature, W1, -old.expansion.hessian, old.residual)
        decrement = -(old.residual * delta).sum(-1)
        step = bounded_step(delta, old.omega2 / p, old.mean, jnp.sqrt(p))
        theta = old.theta + length[:, None] * step
        new = Latent(theta, *visit(theta), old.converged, old.n_iter)
        path = new.mean - old.mean
        slope, new_slope = (old.residual * path).sum(-1), (new.residual * path).sum(-1)
        noise = 4 * rounding(a.dtype) * (jnp.abs(a) / s0 + jnp.abs(old.theta))
        last = jnp.abs(decrement) <= jnp.maximum(tol, (noise**2 * old.omega2 / p).sum(-1))
        good = last | (new_slope <= -0.5 * slope)  # false for NaN
        move = good & ~old.converged
        chosen = jax.tree.map(lambda n, o: jnp.where(_along(move, n), n, o), new, old)
        n_iter = old.n_iter + (~old.converged).astype(jnp.int32)
        state = chosen._replace(converged=old.converged | (good & last), n_iter=n_iter)
        return i + 1, state, jnp.where(good, 1, length / 2)

    rows = a.shape[0]
    # the prior's means with the coupling they bring
    theta = a / s0 + norms * jnp.sqrt(s0) * standard_moments(a / jnp.sqrt(s0))[0]
    start = Latent(theta, *visit(theta), jnp.zeros(rows, bool), jnp.zeros(rows, jnp.int32))
    one = jnp.ones(rows, a.dtype)
    return lax.while_loop(keep_going, body, (jnp.int32(0), start, one))[1]


def _along(mask: Array, like: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (like.ndim - 1))


def _solve(E: Array, W1: Array, M: Array, r: Array) -> Array:
    """(diag(E) + W1ᵀ M W1)⁻¹ r for each row, M symmetric and at least 0, perhaps singular.

    = E⁻¹ r − E⁻¹ W1ᵀ (I + M G)⁻¹ M W1 E⁻¹ r,  G = W1 E⁻¹ W1ᵀ.
    """
    n = W1.shape[0]
    x = r / E
    pairs = (W1[:, None, :] * W1[None, :, :]).reshape(n * n, -1)
    G = ((1 / E) @ pairs.T).reshape(-1, n, n)
    K = jnp.eye(n, dtype=E.dtype)[None] + M @ G
    y = jnp.linalg.solve(K, M @ (x @ W1.T)[:, :, None])[:, :, 0]
    solution: Array = x - (y @ W1) / E
    return solution


def latent_cycles(params: Shallow, a: Array, s0: Array, score: Score, n_cycles: Array) -> Latent:
    """The paper's way: visit one h_k after the other, then z, `n_cycles` times, from the prior's means.

    e = E[z] − b1 − W1 m is kept up to date, so a cycle costs O(mn) a row.
    """
    W1 = params.W1
    norms = (W1**2).sum(0)
    p = 1 / s0 + norms
    root = jnp.sqrt(p)
    mean = (jnp.sqrt(s0) * standard_moments(a / jnp.sqrt(s0))[0]).T

    def visit(e: Array, inputs: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
        w, shift, norm, root_k, m_k = inputs
        theta = shift + e @ w + norm * m_k
        new = standard_moments(theta / root_k)[0] / root_k
        return e - (new - m_k)[:, None] * w[None, :], (new, theta)

    def cycle(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        mean, _ = carry
        e = score(mean.T @ W1.T + params.b1[None, :]).gradient  # E[z] − η
        _, (mean, theta) = lax.scan(visit, e, (W1.T, a.T / s0, norms, root, mean))
        return mean, theta

    theta = lax.fori_loop(jnp.int32(0), n_cycles, cycle, (mean, a.T / s0))[1].T
    g, omega2 = standard_moments(theta / root[None, :])
    q = g / root[None, :]
    expansion = score(q @ W1.T + params.b1[None, :])
    residual = theta - a / s0 - norms[None, :] * q - expansion.gradient @ W1
    rows = a.shape[0]
    n_iter = jnp.zeros(rows, jnp.int32) + n_cycles
    return Latent(theta, q, omega2, residual, expansion, jnp.zeros(rows, bool), n_iter)


def class_bound(
    params: Shallow, X: Array, s0: Array, score: Score, max_iter: Array, *, cyclic: bool = False
) -> Array:
    """L(q) at the best q for each row, with the gradient of L under that q.

    q is stationary, so the derivative with q held fixed is the whole derivative: it gives the paper's EM
    gradients. (∂L/∂W1 = (E[z] − b1) E[h]ᵀ − W1 E[hhᵀ], with E[z] = η + ∇S_c.)
    """
    fixed = lax.stop_gradient((params, locations(params, X), s0))
    solve = latent_cycles if cyclic else latent_posterior
    q = lax.stop_gradient(solve(*fixed, score, max_iter))
    a = locations(params, X)
    p = 1 / s0 + (params.W1**2).sum(0)[None, :]
    var = q.omega2 / lax.stop_gradient(p)
    eta = q.mean @ params.W1.T + params.b1[None, :]
    fit = q.expansion.value + (q.expansion.gradient * (eta - lax.stop_gradient(eta))).sum(-1)
    energy = (a * q.mean / s0 - 0.5 * (params.W1**2).sum(0)[None, :] * var).sum(-1)
    entropy = truncated_log_z(q.theta, lax.stop_gradient(p)) - q.theta * q.mean
    second = 0.5 * (lax.stop_gradient(p) - 1 / s0) * (q.mean**2 + var)
    return fit + energy + (entropy + second).sum(-1) - prior_log_z(params, X, s0)
