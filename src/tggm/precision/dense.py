"""Any positive definite matrix. Costs a Cholesky factorisation of m×m per row."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve

from tggm.matmul_precision import full_precision
from tggm.precision.protocol import as_float, pytree, require_positive_definite


@pytree("matrix")
@dataclass(frozen=True, eq=False)
class Dense:
    """P given entry by entry.

    Parameters
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

    @property
    def size(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.matrix.dtype)

    def diagonal(self) -> Array:
        values: Array = jnp.diagonal(self.matrix)
        return values

    @full_precision
    def off_diagonal(self, v: Array) -> Array:
        """Return P v less its diagonal part."""
        product: Array = v @ self.matrix
        return product - v * self.diagonal()[None, :]

    def factor(self, extra: Array) -> "DenseFactor":
        eye = jnp.eye(self.size, dtype=self.matrix.dtype)
        return DenseFactor.of(self.matrix[None] + extra[:, :, None] * eye[None])

    def dense(self) -> Array:
        return self.matrix


@pytree("L", "R")
@dataclass(frozen=True, eq=False)
class DenseFactor:
    """One Cholesky factor L per row, and its inverse R.

    All methods are products only. Independent batched triangular solves would run at the same time on a CPU,
    wait for threads of the same pool, and may never end (jaxlib 0.10).
    """

    L: Array
    R: Array

    @classmethod
    def of(cls, matrices: Array) -> "DenseFactor":
        """Factorise matrices of shape (rows, m, m)."""
        L = cholesky(matrices)
        return cls(L, inverse_triangular(L))

    @full_precision
    def solve(self, r: Array) -> Array:
        """Return Rᵀ(R r)."""
        return jnp.einsum("bji,bj->bi", self.R, jnp.einsum("bij,bj->bi", self.R, r))

    def variances(self) -> Array:
        """Return the squared column norms of R."""
        return (self.R**2).sum(1)

    def log_det(self) -> Array:
        """Return twice the sum of the logarithms of diag L."""
        return 2 * jnp.log(jnp.diagonal(self.L, axis1=1, axis2=2)).sum(-1)


def inverse_triangular(L: Array) -> Array:
    """Return L⁻¹ for each row."""
    eye = jnp.broadcast_to(jnp.eye(L.shape[-1], dtype=L.dtype)[None], L.shape)
    return triangular_solve(L, eye, left_side=True, lower=True)
