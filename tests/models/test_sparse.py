"""Rows of a sparse table."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.models.small_models import drawn_model, log_density
from tggm.models.layers import DENSE_UP_TO, Product, SparseRows


@pytest.mark.parametrize("columns", [7, DENSE_UP_TO + 1])
def test_sparse_rows_multiply_like_dense_rows(rng, columns):
    indices = rng.integers(0, columns, (4, 5))
    values = rng.standard_normal((4, 5))
    values[0, 2:] = 0
    dense = np.zeros((4, columns))
    np.add.at(dense, (np.arange(4)[:, None], indices), values)
    matrix = rng.standard_normal((columns, 3))
    got = SparseRows(jnp.asarray(indices, jnp.int32), jnp.asarray(values)) @ jnp.asarray(matrix)
    assert_allclose(got, dense @ matrix, rtol=1e-10, atol=1e-12)


def test_a_model_uses_only_products_with_its_inputs(rng):
    model = drawn_model(rng, (4,), 1, linear=True)
    X, y = jnp.asarray(rng.standard_normal((5, 3))), jnp.asarray(rng.standard_normal((5, 1)))
    product = Product(X @ model.hidden.W0.T, X @ model.likelihood.output.A.T)
    assert_allclose(log_density(model, product, y), log_density(model, X, y), rtol=1e-12)
