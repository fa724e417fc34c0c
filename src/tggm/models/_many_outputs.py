"""The log-density of more outputs than hidden units, by one factorisation for all rows."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve

from tggm.matmul_precision import full_precision

LOG_2PI = 1.8378770664093453


class _Factors(NamedTuple):
    """Factors of the value and the derivatives of `many_outputs_log_density`."""

    Q: Array  # (n, m)
    R: Array  # (m, m)
    u: Array  # (rows, m)
    rest: Array  # (rows, n) e − Q u
    L: Array  # (rows, m, m) K = L Lᵀ
    V: Array  # (rows, m, m) L⁻¹ R
    t: Array  # (rows, m) L⁻¹ u

    def value(self) -> Array:
        """Return the log-density."""
        log_det = 2 * jnp.log(jnp.diagonal(self.L, axis1=1, axis2=2)).sum(-1)
        squares = (self.t**2).sum(-1) + (self.rest**2).sum(-1)
        return -0.5 * (squares + log_det + self.rest.shape[1] * LOG_2PI)


def _factors(e: Array, A: Array, C: Array) -> _Factors:
    """Factorise; V and t share one solve, since two independent ones may deadlock on a CPU."""
    Q, R = jnp.linalg.qr(A)
    u = e @ Q
    L = cholesky(jnp.eye(len(R), dtype=e.dtype)[None] + R @ C @ R.T)
    both = jnp.concatenate([jnp.broadcast_to(R, L.shape), u[:, :, None]], 2)
    solved = triangular_solve(L, both, left_side=True, lower=True)
    return _Factors(Q, R, u, e - u @ Q.T, L, solved[:, :, :-1], solved[:, :, -1])


@jax.custom_jvp
@full_precision
def many_outputs_log_density(e: Array, A: Array, C: Array) -> Array:
    """Return log N(e | 0, I + A C Aᵀ) of each row; e (rows, n), A (n, m) with n ≥ m, C (rows, m, m).

    A is W1 over the deviations of the noise and C the covariance of the units of a row. One factorisation
    A = Q R for all rows turns S = I + A C Aᵀ into m outputs with covariance K = I + R C Rᵀ, and n − m outputs
    that are independent of the units:

        log |S| = log |K|,      eᵀ S⁻¹ e = uᵀ K⁻¹ u + ‖e − Q u‖²,      u = Qᵀ e.

    Nothing cancels, and K ≥ I. A row costs O(m³ + n m) instead of O(n³).
    """
    return _factors(e, A, C).value()


@many_outputs_log_density.defjvp
@full_precision
def _many_outputs_jvp(
    primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
    """Return ½ (αᵀ dS α − tr S⁻¹ dS) − αᵀ de with α = S⁻¹ e and β = Aᵀ α."""
    (e, A, C), (d_e, d_A, d_C) = primals, tangents
    f = _factors(e, A, C)
    both = jnp.concatenate([f.V @ C, f.t[:, :, None]], 2)
    solved = triangular_solve(f.L, both, left_side=True, lower=True, transpose_a=True)
    H, x = solved[:, :, :-1], solved[:, :, -1]  # K⁻¹ R C and K⁻¹ u
    alpha, beta = x @ f.Q.T + f.rest, x @ f.R
    trace = jnp.einsum("bij,ij->b", H, f.Q.T @ d_A) + 0.5 * ((f.V.mT @ f.V) * d_C).sum((1, 2))
    squares = ((alpha @ d_A) * (C @ beta[:, :, None])[:, :, 0]).sum(-1)
    squares = squares + 0.5 * jnp.einsum("bi,bij,bj->b", beta, d_C, beta)
    return f.value(), squares - trace - (alpha * d_e).sum(-1)
