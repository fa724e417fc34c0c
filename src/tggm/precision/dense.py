"""Any positive definite matrix. Costs a Cholesky factorisation of m×m per row."""

import jax.numpy as jnp
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve

from tggm.precision.protocol import Precision, as_float, pytree, require_positive_definite
from tggm.runtime import full_precision


@pytree
class Dense(Precision):
    """P given entry by entry.

    Attributes
    ----------
    matrix : array_like, shape (m, m)
        Symmetric positive definite.
    """

    matrix: Array

    def __post_init__(self) -> None:
        matrix = as_float("matrix", self.matrix, ndim=2)
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"`matrix` must be square; got shape {matrix.shape}.")
        require_positive_definite("matrix", matrix)
        object.__setattr__(self, "matrix", matrix)

    def diagonal(self) -> Array:
        return jnp.diagonal(self.matrix)

    @full_precision
    def off_diagonal(self, v: Array) -> Array:
        return v @ self.matrix - v * self.diagonal()[None, :]

    def factor(self, extra: Array) -> "DenseFactor":
        eye = jnp.eye(self.size, dtype=self.matrix.dtype)
        return DenseFactor.of(self.matrix[None] + extra[:, :, None] * eye[None], self.matrix[None])

    def dense(self) -> Array:
        return self.matrix


@pytree
class DenseFactor:
    """One Cholesky factor L per row, its inverse R, and the matrix without `extra`.

    All methods use products only: independent batched triangular solves run at the same time on a CPU and may
    deadlock on its thread pool (jaxlib 0.10).
    """

    L: Array
    R: Array
    P: Array

    @classmethod
    def of(cls, matrices: Array, P: Array) -> "DenseFactor":
        """Factorise matrices of shape (rows, m, m)."""
        L = cholesky(matrices)
        eye = jnp.broadcast_to(jnp.eye(L.shape[-1], dtype=L.dtype)[None], L.shape)
        return cls(L, triangular_solve(L, eye, left_side=True, lower=True), P)

    @full_precision
    def solve(self, r: Array) -> Array:
        return jnp.einsum("bji,bj->bi", self.R, jnp.einsum("bij,bj->bi", self.R, r))

    @full_precision
    def cavity(self) -> Array:
        """Return diag(C P) / diag(C), C the inverse, as C (P + extra) = I."""
        C = self.covariance()
        return (C * self.P).sum(-1) / jnp.diagonal(C, axis1=1, axis2=2)

    @full_precision
    def covariance(self) -> Array:
        """Return the inverse, RᵀR."""
        return self.R.mT @ self.R

    def log_det(self) -> Array:
        return 2 * jnp.log(jnp.diagonal(self.L, axis1=1, axis2=2)).sum(-1)
