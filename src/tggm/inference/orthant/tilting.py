r"""Minimax exponential tilting for separation of variables: a convex problem.

An orthant probability is the mean of exp ψ(z; μ) when z_k is drawn from N(μ_k, 1) truncated to z_k ≥ c_k −
(L̃z)_k,

    ψ(z; μ) = Σ_k ½ μ_k² − μ_k z_k + log Φ(−a_k),      a_k = c_k − (L̃ z)_k − μ_k,

where L̃ is strictly lower triangular (the Cholesky factor with rows divided by its diagonal, less I). Botev
(2017) takes the μ of the saddle point min_μ max_z ψ, two systems of equations in z and μ:

    μ = L̃ᵀ r,      z = μ + r,      r_k = φ(a_k) / Φ(−a_k).

Both can be eliminated. With U = I + L̃, B = UUᵀ − I, what is left is one equation in a alone,

    a + B r(a) = c,

the stationarity condition of f(r) = ½ rᵀBr − cᵀr + Σ_k (a_k r_k + log Φ(−a_k)), whose Hessian B + diag(1 /
r'(a)) = UUᵀ + diag(1 / r'(a) − 1) is positive definite because 0 < r' < 1. So the saddle point exists, is
unique, and Newton's method with a decreasing f finds it.

Z. I. Botev, The normal law under linear restrictions: simulation and estimation via minimax tilting, JRSS B
79 (2017).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve

from tggm.special import hazard, log_ndtr

MAX_ITER = 50


class _TiltState(NamedTuple):
    a: Array  # (m,)
    r: Array  # (m,) hazard at a, zero for free variables
    value: Array  # f
    scale: Array  # length of the next step, as a part of Newton's
    residual: Array  # largest |a + B r − c|
    n_iter: Array


def minimax_tilt(U: Array, c: Array, truncated: Array) -> Array:
    """The tilt μ of the saddle point, shape (m,); zero, which is always valid, if it was not reached.

    Parameters
    ----------
    U : Array, shape (m, m)
        Cholesky factor with unit diagonal, rows in the order of integration.
    c : Array, shape (m,)
        Standardised lower bounds: bound / diagonal of the Cholesky factor.
    truncated : Array of bool, shape (m,)
        False for free variables (which come last).
    """
    eye = jnp.eye(c.shape[0], dtype=c.dtype)
    B = U @ U.T - eye
    tol = 1e-6 * (1 + jnp.abs(c).max())  # the estimate is unbiased for any tilt

    def evaluate(a: Array) -> tuple[Array, Array, Array]:
        r = jnp.where(truncated, hazard(-a), 0)
        Br = B @ r
        pieces = jnp.where(truncated, a * r + log_ndtr(-a), 0)
        return r, (0.5 * Br - c) @ r + pieces.sum(), jnp.where(truncated, a + Br - c, 0)

    def unfinished(state: _TiltState) -> Array:
        return (state.residual > tol) & (state.n_iter < MAX_ITER)

    def step(state: _TiltState) -> _TiltState:
        a, r = state.a, state.r
        F = jnp.where(truncated, a + B @ r - c, 0)
        S = jnp.sqrt(jnp.maximum(r * (r - a), 0))  # S² = r'(a)
        G = cholesky(eye + S[:, None] * B * S[None, :])
        w = triangular_solve(G, -(S * F)[:, None], left_side=True, lower=True)
        w = triangular_solve(G, w, left_side=True, lower=True, transpose_a=True)[:, 0]
        trial = a - state.scale * (F + B @ (S * w))
        r_new, value, F_new = evaluate(trial)
        better = value <= state.value + 1e-12 * jnp.abs(state.value)
        return _TiltState(
            jnp.where(better, trial, a),
            jnp.where(better, r_new, r),
            jnp.where(better, value, state.value),
            jnp.where(better, jnp.minimum(1, 2 * state.scale), state.scale / 4),
            jnp.where(better, jnp.abs(F_new).max(), state.residual),
            state.n_iter + 1,
        )

    a = jnp.where(truncated, jnp.maximum(c, -3) / jnp.diagonal(B + eye), 0)
    r, value, F = evaluate(a)
    start = _TiltState(a, r, value, jnp.ones_like(value), jnp.abs(F).max(), jnp.int32(0))
    end = lax.while_loop(unfinished, step, start)
    reached = (end.residual <= tol) & jnp.isfinite(end.value)
    return jnp.where(reached, U.T @ end.r - end.r, 0)
