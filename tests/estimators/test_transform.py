"""The logarithm of the target is chosen where it is the right scale."""

import numpy as np
import pytest

from tggm.estimators._support import read_transform
from tggm.predictive.gaussian_mixture import LogTransform


@pytest.fixture
def line():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    return X, X @ [1.0, -0.5, 0.3, 0, 0] + 0.5 * rng.normal(size=600)


def choose_transform(X, y, weight=None):
    return read_transform("auto", X, y[:, None], None, np.ones(len(y)) if weight is None else weight)


def test_linear_targets_are_not_transformed(line):
    X, y = line
    assert choose_transform(X, y) is None
    assert choose_transform(X, y + 100) is None


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_logarithm_is_chosen_for_lognormal_targets(line, unit):
    X, y = line
    assert isinstance(choose_transform(X, unit * np.exp(y)), LogTransform)


def test_symmetric_heavy_tails_are_not_transformed(line):
    X, y = line
    assert choose_transform(X, y + np.random.default_rng(2).standard_t(3, 600)) is None


def test_few_or_repeated_values_are_not_transformed(line):
    X, y = line
    assert choose_transform(X, np.round(np.exp(y) + 1)) is None
    often = np.exp(y)
    often[:200] = 0.5
    assert choose_transform(X, often) is None
    assert choose_transform(X, np.ones(600)) is None
    assert choose_transform(X[:10], np.exp(y[:10])) is None


def test_rows_without_weight_are_ignored(line):
    X, y = line
    target, weight = np.exp(y), np.ones(600)
    target[::2] = np.exp(-5 * y[::2])
    assert choose_transform(X[::2], target[::2]) is not None
    weight[::2] = 0.0
    alone = choose_transform(X[1::2], target[1::2])
    assert choose_transform(X, target, weight) == alone == LogTransform()
    assert choose_transform(X, target, np.zeros(600)) is None


def test_many_rows_and_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 300))
    y = np.exp(X[:, 250] + 0.3 * rng.normal(size=5000))
    X[:, 7] = 1.0
    assert isinstance(choose_transform(X, y), LogTransform)
