"""Shapley values against their definition and closed forms; permutation importances against closed forms."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.explanation import ColumnMap, permutation_importances, shapley_values

THREE = ColumnMap.identity(["a", "b", "c"])


def table(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def product(X):
    """Return two answers; all three columns interact in the first."""
    return np.stack([X[:, 0] * X[:, 1] * X[:, 2] + X[:, 0], X[:, 2] ** 2], axis=1)


def by_definition(f, x, Z):
    """Return Shapley values as a sum over all sets of columns, averaged over the background."""
    d = len(x)

    def worth(chosen):
        rows = Z.copy()
        rows[:, list(chosen)] = x[list(chosen)]
        return f(rows).mean(0)

    found = []
    for j in range(d):
        others = [k for k in range(d) if k != j]
        sets = [s for size in range(d) for s in combinations(others, size)]
        weights = [factorial(len(s)) * factorial(d - 1 - len(s)) / factorial(d) for s in sets]
        found.append(sum(w * (worth((*s, j)) - worth(s)) for w, s in zip(weights, sets, strict=True)))
    return np.stack(found)


def test_many_walks_converge_to_the_definition():
    X, Z = table(2, 3, 1), table(5, 3, 2)
    rng, walks = np.random.default_rng(0), 4000
    found = shapley_values(product, X, Z, THREE, walks, rng)
    want = np.stack([by_definition(product, x, Z) for x in X])
    # every z is used equally often, so only the orders are random: at most 2 max|f| per walk
    reach = 2 * max(np.abs(product(np.concatenate([X, Z, 2 * X, 2 * Z]))).max(), 1)
    assert_allclose(found.parts, want, atol=4 * reach / np.sqrt(walks))
    assert_allclose(found.base, product(Z).mean(0), rtol=1e-12)


@pytest.mark.parametrize("walks", [1, 2, 7, None])
def test_parts_add_up_for_any_number_of_walks(walks):
    X = table(30, 3)
    found = shapley_values(product, X, table(40, 3, 3), THREE, walks, np.random.default_rng(1))
    assert_allclose(found.base + found.parts.sum(1), product(X), rtol=1e-9, atol=1e-12)
    assert_allclose(found.prediction, product(X), rtol=1e-9, atol=1e-12)


def test_pairs_of_columns_are_exact_with_one_pair_of_walks():
    """For x0 x1 each column gets its own change and half of the interaction."""
    X, z = table(6, 3), table(1, 3, 4)

    def f(X):
        return (X[:, 0] * X[:, 1])[:, None]

    found = shapley_values(f, X, z, THREE, 2, np.random.default_rng(0))
    d = X - z
    together = d[:, 0] * d[:, 1] / 2
    want = np.stack([d[:, 0] * z[:, 1] + together, z[:, 0] * d[:, 1] + together, 0 * together], axis=1)
    assert_allclose(found.parts, want, atol=1e-12)
    assert found.base.shape == ()


def test_features_of_a_column_have_one_part_and_unused_columns_have_none():
    columns = ColumnMap.from_widths(["left out", "word", "number"], {"number": 1, "word": 2})
    X, Z = table(8, 3), table(50, 3, 5)
    weights = np.array([2.0, -1.0, 3.0])
    found = shapley_values(lambda X: (X @ weights)[:, None], X, Z, columns, None, np.random.default_rng(0))
    assert found.names == ("left out", "word", "number")
    assert (found.parts[:, 0] == 0).all()
    moved = found.parts[:, [2, 1]] - np.stack([2 * X[:, 0], X[:, 1:] @ weights[1:]], axis=1)
    assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-12)  # linear: x enters as itself


def test_a_single_column_gets_the_whole_difference():
    X, Z = table(4, 1), table(6, 1, 1)
    found = shapley_values(np.sin, X, Z, ColumnMap.identity(["a"]), 12, np.random.default_rng(0))
    assert_allclose(found.base, np.sin(Z).mean(), atol=1e-12)
    assert_allclose(found.parts[:, 0], np.sin(X)[:, 0] - np.sin(Z).mean(), atol=1e-12)


def test_chosen_background_rows_have_the_mean_of_all():
    """Their mean is at least four times as accurate as that of randomly drawn rows."""
    Z = table(500, 4, 8)
    columns = ColumnMap.identity("abcd")
    found = shapley_values(lambda X: X.sum(1, keepdims=True), Z[:3], Z, columns, 40, np.random.default_rng(0))
    by_chance = np.sqrt(4 / 20)  # the deviation of the mean of 20 rows of a sum with variance 4
    assert abs(found.base - Z.sum(1).mean()) < by_chance / 4


def test_answers_are_computed_in_blocks_of_few_sizes():
    sizes = []

    def f(X):
        sizes.append(len(X))
        return X[:, :1]

    shapley_values(f, table(300, 3), table(20, 3), THREE, 64, np.random.default_rng(0))
    assert sum(sizes) == 20 + 300 + 300 * 64 * 2
    assert len(set(sizes)) <= 4


def test_importances_of_a_linear_model_are_twice_the_variance_of_each_term():
    """E (w (x' − x))² = 2 w² var(x) for a shuffled x', when the loss was 0 before."""
    rng = np.random.default_rng(0)
    X, w, n, times = rng.normal(size=(400, 3)), np.array([2.0, -1.0, 0.0]), 400, 20
    found = permutation_importances(
        lambda Z, place: ((Z - X[place]) @ w) ** 2, X, ColumnMap.identity("abc"), times, rng
    )
    want = 2 * w**2 * X.var(0)
    # (w (x' − x))² has variance 8 w⁴ var²; rows and shuffles are almost independent
    assert_allclose(found.mean, want, atol=5 * np.sqrt(8 / n) * (w**2).max())
    assert found.mean[2] == 0
    assert (found.error[:2] > 0).all()


def test_features_of_a_column_are_shuffled_together():
    """Two equal features of one column remain equal, so a loss of their difference does not change."""
    rng = np.random.default_rng(1)
    X = np.repeat(rng.normal(size=(50, 1)), 3, axis=1)
    columns = ColumnMap.from_widths(["unused", "pair", "other"], {"pair": 2, "other": 1})
    found = permutation_importances(lambda Z, _: (Z[:, 0] - Z[:, 1]) ** 2, X, columns, None, rng)
    assert (found.mean == 0).all()
    assert found.names == ("unused", "pair", "other")


def test_losses_of_large_tables_are_computed_in_blocks():
    sizes = []

    def loss(Z, place):
        sizes.append(len(Z))
        assert len(Z) == len(place)
        return Z[:, 0] * 0

    permutation_importances(loss, np.zeros((3000, 2)), ColumnMap.identity("ab"), 4, np.random.default_rng(0))
    assert sum(sizes) == 3000 * (1 + 8)
    assert max(sizes) <= 8192
