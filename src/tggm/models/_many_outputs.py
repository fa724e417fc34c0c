"""Compute the log-density of more outputs than hidden units, with one factorisation for all rows."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve

from tggm.runtime import full_precision

LOG_2PI = 1.8378770664093453


def _value_and_factors(e: Array, A: Array, C: Array) -> tuple[Array, Any]:
    """Return the log-density and Q, R, e − Q u, L with K = L Lᵀ, L⁻¹ R and L⁻¹ u.

    One solve gives the last two, because two independent solves may deadlock on a CPU.
    """
    Q, R = jnp.linalg.qr(A)
    u = e @ Q
    rest = e - u @ Q.T
    L = cholesky(jnp.eye(len(R), dtype=e.dtype)[None] + R @ C @ R.T)
    both = jnp.concatenate([jnp.broadcast_to(R, L.shape), u[:, :, None]], 2)
    solved = triangular_solve(L, both, left_side=True, lower=True)
    V, t = solved[:, :, :-1], solved[:, :, -1]
    log_det = 2 * jnp.log(jnp.diagonal(L, axis1=1, axis2=2)).sum(-1)
    squares = (t**2).sum(-1) + (rest**2).sum(-1)
    return -0.5 * (squares + log_det + e.shape[1] * LOG_2PI), (Q, R, rest, L, V, t)


@jax.custom_jvp
@full_precision
def many_outputs_log_density(e: Array, A: Array, C: Array) -> Array:
    """Return log N(e | 0, I + A C Aᵀ) of each row; e (rows, n), A (n, m) with n ≥ m, C (rows, m, m).

    A is W1 over the deviations of the noise and C the covariance of the units of a row. One factorisation
    A = Q R for all rows turns S = I + A C Aᵀ into m outputs with covariance K = I + R C Rᵀ, and n − m outputs
    that are independent of the units:

        log |S| = log |K|,      eᵀ S⁻¹ e = uᵀ K⁻¹ u + ‖e − Q u‖²,      u = Qᵀ e.

    No terms cancel, and K ≥ I. A row costs O(m³ + n m) instead of O(n³). Automatic differentiation would take
    a third more time, and needs R⁻¹, which does not exist if a unit has no weights.
    """
    return _value_and_factors(e, A, C)[0]


@many_outputs_log_density.defjvp
@full_precision
def _(primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    """Return ½ (αᵀ dS α − tr S⁻¹ dS) − αᵀ de with α = S⁻¹ e and β = Aᵀ α."""
    C, (d_e, d_A, d_C) = primals[2], tangents
    value, (Q, R, rest, L, V, t) = _value_and_factors(*primals)
    both = jnp.concatenate([V @ C, t[:, :, None]], 2)
    solved = triangular_solve(L, both, left_side=True, lower=True, transpose_a=True)
    H, x = solved[:, :, :-1], solved[:, :, -1]  # K⁻¹ R C and K⁻¹ u
    alpha, beta = x @ Q.T + rest, x @ R
    trace = jnp.einsum("bij,ij->b", H, Q.T @ d_A) + 0.5 * ((V.mT @ V) * d_C).sum((1, 2))
    squares = ((alpha @ d_A) * (C @ beta[:, :, None])[:, :, 0]).sum(-1)
    squares = squares + 0.5 * jnp.einsum("bi,bij,bj->b", beta, d_C, beta)
    return value, squares - trace - (alpha * d_e).sum(-1)
