"""Substitutes for a matrix of inputs X: models use only X @ W0ᵀ.

`SparseRows` are rows of a sparse table with a fixed number of places each, so that mini-batches have a shape.
Place k of row i holds the value `values[i, k]` of column `indices[i, k]`; unused places hold 0 of any column.
`Product` holds products that were computed before.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

DENSE_UP_TO = 8192  # columns up to which a batch is made dense: faster than gathering rows of W0ᵀ


class SparseRows(NamedTuple):
    """A batch of rows, most of whose entries are zero."""

    indices: Array  # (rows, places) int32
    values: Array  # (rows, places)

    def __matmul__(self, matrix: Array) -> Array:
        """Return the product with a (columns, m) matrix, shape (rows, m)."""
        d = matrix.shape[0]
        if d <= DENSE_UP_TO:
            row = jnp.arange(self.values.shape[0], dtype=self.indices.dtype)[:, None]
            dense = jnp.zeros((self.values.shape[0], d), self.values.dtype)
            return dense.at[row, self.indices].add(self.values) @ matrix
        return jnp.einsum("bk,bkm->bm", self.values, matrix[self.indices])


class Product(NamedTuple):
    """The products of rows with W0ᵀ and, where there is a linear part, with Aᵀ."""

    value: Array  # (rows, m)
    linear: Array | None = None  # (rows, n)

    def __matmul__(self, matrix: Array) -> Array:
        """Return the precomputed `X @ W0.T`; `matrix` is ignored."""
        return self.value
