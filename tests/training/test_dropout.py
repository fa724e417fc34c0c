"""Inputs left out at random: how many, which, and what learning from them amounts to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tggm import TGGMClassifier
from tggm.models.sparse import SparseRows
from tggm.training import dropout

thinned = jax.jit(dropout.thinned)


def thin(X, rate, *, rows=None, seed=0, step=0):
    rows = np.arange(len(X)) if rows is None else rows
    X = jnp.asarray(X)
    return np.asarray(
        thinned(X, jnp.asarray(rows), jnp.uint32(seed), jnp.int32(step), jnp.asarray(rate, X.dtype))
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_that_part_is_left_out_and_the_rest_makes_up(rate, dtype):
    X = np.ones((400, 500), dtype)
    found = thin(X, rate)
    assert found.dtype == dtype
    error = np.sqrt(rate * (1 - rate))
    left_out = found == 0
    # five standard deviations of a mean of independent draws: over all, of every row and of every column
    assert abs(left_out.mean() - rate) < 5 * error / np.sqrt(left_out.size)
    assert_allclose(left_out.mean(1), rate, atol=5 * error / np.sqrt(500))
    assert_allclose(left_out.mean(0), rate, atol=5 * error / np.sqrt(400))
    assert_allclose(found[~left_out], 1 / (1 - rate), rtol=1e-6)


def test_none_is_left_out_at_rate_zero(rng):
    X = rng.standard_normal((30, 4))
    assert_array_equal(thin(X, 0.0), X)


def test_every_step_seed_and_row_leaves_out_others():
    X = np.ones((50, 60))
    first = thin(X, 0.5) == 0
    # where two draws are independent they agree in half the places; five standard deviations
    for other in (thin(X, 0.5, step=1), thin(X, 0.5, seed=1), thin(X, 0.5, rows=np.arange(50, 100))):
        assert abs(np.mean(first == (other == 0)) - 0.5) < 5 * 0.5 / np.sqrt(first.size)
    agree = (first[:, None] == first[None]).mean(2)[np.triu_indices(50, 1)]
    assert abs(agree.mean() - 0.5) < 5 * 0.5 / np.sqrt(agree.size * 60)


def test_a_row_loses_the_same_wherever_it_stands_in_a_batch(rng):
    X = rng.standard_normal((20, 7))
    order = rng.permutation(20)
    assert_array_equal(thin(X[order], 0.3, rows=order), thin(X, 0.3)[order])


def test_sparse_rows_keep_their_columns():
    rows = SparseRows(jnp.array([[0, 5], [2, 3]], jnp.int32), jnp.ones((2, 2)))
    found = thinned(rows, jnp.arange(2), jnp.uint32(0), jnp.int32(0), jnp.asarray(0.5))
    assert_array_equal(found.indices, rows.indices)
    assert set(np.unique(found.values)) <= {0.0, 2.0}


def test_least_squares_with_inputs_left_out_is_a_ridge_regression(rng):
    """Averaged over what is left out, the squared error has the Hessian XᵀX + p/(1−p) diag(XᵀX)."""
    X, rate, draws = rng.standard_normal((40, 3)), 0.25, 4000
    every = jax.jit(jax.vmap(dropout.thinned, (None, None, None, 0, None)))
    Z = np.asarray(every(X, jnp.arange(40), jnp.uint32(0), jnp.arange(draws), jnp.asarray(rate)))
    each = Z.mT @ Z
    expected = X.T @ X + rate / (1 - rate) * np.diag(np.diag(X.T @ X))
    error = each.std(0) / np.sqrt(draws)
    assert (np.abs(each.mean(0) - expected) < 5 * error).all()


def wide(rng, n):
    """Two classes told apart a little by each of many columns."""
    label = rng.integers(0, 2, n)
    return (2 * label[:, None] - 1) * 0.1 + rng.standard_normal((n, 60)), label


@pytest.mark.slow  # what learning from the rest amounts to, above
def test_it_helps_where_columns_repeat_each_other(rng):
    X, y = wide(rng, 60)
    X_test, y_test = wide(rng, 1000)
    settings = {"hidden": 20, "n_members": 2, "weight_decay": 0.0, "max_epochs": 300, "early_stopping": False}

    def score(dropout):
        model = TGGMClassifier.one_layer(**settings, dropout=dropout, random_state=0).fit(X, y)
        return model.label_log_proba(X_test, y_test).mean()

    assert score(0.5) > score(0.0) + 0.3  # 0.8 nats here


@pytest.mark.parametrize("value", [-0.1, 1.0, np.nan, "half"])
def test_bad_values_are_named(value, rng):
    X = rng.standard_normal((10, 2))
    with pytest.raises(ValueError, match="`dropout` must be"):
        TGGMClassifier(dropout=value).fit(X, X[:, 0] > 0)
