"""Any positive definite matrix. Costs a Cholesky factorisation of m×m per row."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve

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
        """Number of variables m."""
        return int(self.matrix.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating dtype of the parameters."""
        return np.dtype(self.matrix.dtype)

    def diagonal(self) -> Array:
        """Diagonal of P."""
        values: Array = jnp.diagonal(self.matrix)
        return values

    def off_diagonal(self, v: Array) -> Array:
        """P v less its diagonal part."""
        product: Array = v @ self.matrix
        return product - v * self.diagonal()[None, :]

    def factor(self, extra: Array) -> "DenseFactor":
        """P + diag(extra) for each row."""
        eye = jnp.eye(self.size, dtype=self.matrix.dtype)
        return DenseFactor(cholesky(self.matrix[None] + extra[:, :, None] * eye[None]))

    def dense(self) -> Array:
        """The matrix itself."""
        return self.matrix


@pytree("L")
@dataclass(frozen=True, eq=False)
class DenseFactor:
    """One Cholesky factor per row."""

    L: Array

    def solve(self, r: Array) -> Array:
        """Two triangular solves."""
        t = triangular_solve(self.L, r[:, :, None], left_side=True, lower=True)
        return triangular_solve(self.L, t, left_side=True, lower=True, transpose_a=True)[:, :, 0]

    def variances(self) -> Array:
        """Squared column norms of L⁻¹."""
        return (self.inverse_root() ** 2).sum(1)

    def inverse_root(self) -> Array:
        """L⁻¹ for each row."""
        eye = jnp.broadcast_to(jnp.eye(self.L.shape[-1], dtype=self.L.dtype)[None], self.L.shape)
        return triangular_solve(self.L, eye, left_side=True, lower=True)

    def log_det(self) -> Array:
        """Twice the sum of the logarithms of diag L."""
        return 2 * jnp.log(jnp.diagonal(self.L, axis1=1, axis2=2)).sum(-1)
