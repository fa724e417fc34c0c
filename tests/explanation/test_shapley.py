"""Shapley values against their definition, closed forms and the sums they must keep."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.explanation import explained
from tggm.explanation.columns import ColumnMap

THREE = ColumnMap.of_numbers(["a", "b", "c"])


def table(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def product(X):
    """All three columns act together."""
    return np.stack([X[:, 0] * X[:, 1] * X[:, 2] + X[:, 0], X[:, 2] ** 2], axis=1)


def by_definition(f, x, Z):
    """Shapley values as a sum over all sets of columns, averaged over the background."""
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


def test_the_definition_is_met_with_many_walks():
    X, Z = table(2, 3, 1), table(5, 3, 2)
    rng, walks = np.random.default_rng(0), 4000
    found = explained(product, X, Z, THREE, walks, rng)
    want = np.stack([by_definition(product, x, Z) for x in X])
    # every z is taken equally often; what is left is the choice of orders: at most 2 max|f| a walk
    reach = 2 * max(np.abs(product(np.concatenate([X, Z, 2 * X, 2 * Z]))).max(), 1)
    assert_allclose(found.parts, want, atol=4 * reach / np.sqrt(walks))
    assert_allclose(found.base, product(Z).mean(0), rtol=1e-12)


@pytest.mark.parametrize("walks", [1, 2, 7, None])
def test_parts_add_up_whatever_the_number_of_walks(walks):
    X = table(30, 3)
    found = explained(product, X, table(40, 3, 3), THREE, walks, np.random.default_rng(1))
    assert_allclose(found.base + found.parts.sum(1), product(X), rtol=1e-9, atol=1e-12)
    assert_allclose(found.prediction, product(X), rtol=1e-9, atol=1e-12)


def test_pairs_of_columns_are_exact_with_one_pair_of_walks():
    """x0 x1 from z: each gets its own change, and half of what both do together."""
    X, z = table(6, 3), table(1, 3, 4)

    def f(X):
        return (X[:, 0] * X[:, 1])[:, None]

    found = explained(f, X, z, THREE, 2, np.random.default_rng(0))
    d = X - z
    together = d[:, 0] * d[:, 1] / 2
    want = np.stack([d[:, 0] * z[:, 1] + together, z[:, 0] * d[:, 1] + together, 0 * together], axis=1)
    assert_allclose(found.parts, want, atol=1e-12)
    assert found.base.shape == ()


def test_a_column_of_several_features_is_one_and_an_unused_one_has_no_part():
    columns = ColumnMap.of_widths(["left out", "word", "number"], {"number": 1, "word": 2})
    X, Z = table(8, 3), table(50, 3, 5)
    weights = np.array([2.0, -1.0, 3.0])
    found = explained(lambda X: (X @ weights)[:, None], X, Z, columns, None, np.random.default_rng(0))
    assert found.names == ("left out", "word", "number")
    assert (found.parts[:, 0] == 0).all()
    moved = found.parts[:, [2, 1]] - np.stack([2 * X[:, 0], X[:, 1:] @ weights[1:]], axis=1)
    assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-12)  # linear: x enters as itself


def test_one_column_has_it_all():
    X, Z = table(4, 1), table(6, 1, 1)
    found = explained(np.sin, X, Z, ColumnMap.of_numbers(["a"]), 12, np.random.default_rng(0))
    assert_allclose(found.base, np.sin(Z).mean(), atol=1e-12)
    assert_allclose(found.parts[:, 0], np.sin(X)[:, 0] - np.sin(Z).mean(), atol=1e-12)


def test_background_rows_stand_for_all():
    """The few rows that walks begin with have the mean of all, far better than drawn ones would."""
    Z = table(500, 4, 8)
    columns = ColumnMap.of_numbers("abcd")
    found = explained(lambda X: X.sum(1, keepdims=True), Z[:3], Z, columns, 40, np.random.default_rng(0))
    by_chance = np.sqrt(4 / 20)  # the deviation of the mean of 20 rows of a sum with variance 4
    assert abs(found.base - Z.sum(1).mean()) < by_chance / 4


def test_answers_are_asked_in_blocks_of_few_sizes():
    sizes = []

    def f(X):
        sizes.append(len(X))
        return X[:, :1]

    explained(f, table(300, 3), table(20, 3), THREE, 64, np.random.default_rng(0))
    assert sum(sizes) == 20 + 300 + 300 * 64 * 2
    assert len(set(sizes)) <= 4
