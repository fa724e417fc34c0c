"""Rows of a sparse table."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.models.sparse import DENSE_UP_TO, Product, SparseRows


@pytest.mark.parametrize("columns", [7, DENSE_UP_TO + 1])
def test_sparse_rows_multiply_like_dense_ones(rng, columns):
    indices = rng.integers(0, columns, (4, 5))
    values = rng.standard_normal((4, 5))
    values[0, 2:] = 0
    dense = np.zeros((4, columns))
    for i, j, v in zip(np.repeat(np.arange(4), 5), indices.ravel(), values.ravel(), strict=True):
        dense[i, j] += v
    matrix = rng.standard_normal((columns, 3))
    got = SparseRows(jnp.asarray(indices, jnp.int32), jnp.asarray(values)) @ jnp.asarray(matrix)
    assert_allclose(got, dense @ matrix, rtol=1e-10, atol=1e-12)


def test_a_product_is_what_it_is():
    value = jnp.ones((2, 3))
    assert Product(value) @ jnp.zeros((7, 3)) is value
