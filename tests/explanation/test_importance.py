"""Permutation importance against its closed form."""

import numpy as np
from numpy.testing import assert_allclose

from tggm.explanation import permuted
from tggm.explanation.columns import ColumnMap


def test_a_linear_model_loses_twice_the_variance_of_each_term():
    """E (w (x' − x))² = 2 w² var(x) for a shuffled x', when the loss was 0 before."""
    rng = np.random.default_rng(0)
    X, w, n, times = rng.normal(size=(400, 3)), np.array([2.0, -1.0, 0.0]), 400, 20
    found = permuted(lambda Z, place: ((Z - X[place]) @ w) ** 2, X, ColumnMap.of_numbers("abc"), times, rng)
    want = 2 * w**2 * X.var(0)
    # (w (x' − x))² has variance 8 w⁴ var²; rows and shuffles are nearly independent
    assert_allclose(found.mean, want, atol=5 * np.sqrt(8 / n) * (w**2).max())
    assert found.mean[2] == 0
    assert (found.error[:2] > 0).all()


def test_features_of_a_column_are_shuffled_together():
    """Two equal features of one column stay equal, so that a loss of their difference sees nothing."""
    rng = np.random.default_rng(1)
    X = np.repeat(rng.normal(size=(50, 1)), 3, axis=1)
    columns = ColumnMap.of_widths(["unused", "pair", "other"], {"pair": 2, "other": 1})
    found = permuted(lambda Z, _: (Z[:, 0] - Z[:, 1]) ** 2, X, columns, None, rng)
    assert (found.mean == 0).all()
    assert found.names == ("unused", "pair", "other")


def test_large_tables_are_cut_into_blocks():
    sizes = []

    def loss(Z, place):
        sizes.append(len(Z))
        assert len(Z) == len(place)
        return Z[:, 0] * 0

    permuted(loss, np.zeros((3000, 2)), ColumnMap.of_numbers("ab"), 4, np.random.default_rng(0))
    assert sum(sizes) == 3000 * (1 + 8)
    assert max(sizes) <= 8192
