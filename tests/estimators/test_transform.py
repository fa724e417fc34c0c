"""The logarithm of the target is chosen where it is the right scale."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from tggm.predictive import transforms
from tggm.predictive.transforms import LogTransform, choose_transform


@pytest.fixture
def line():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    return X, X @ [1.0, -0.5, 0.3, 0, 0] + 0.5 * rng.normal(size=600)


def test_leave_one_out_against_refits(monkeypatch):
    """Refit without each row by the normal equations."""
    monkeypatch.setattr(transforms, "_RIDGES", [1.0])
    rng = np.random.default_rng(1)
    X, z, w = rng.normal(size=(30, 3)), rng.normal(size=30), rng.uniform(0.5, 2, 30)
    w /= w.mean()
    A = X - w @ X / w.sum()
    A = A / np.sqrt(w @ A**2 / w.sum())
    B = np.column_stack([np.ones(30), A])
    errors = np.empty(30)
    for i in range(30):
        keep = np.arange(30) != i
        W = np.diag(w[keep])
        G = B[keep].T @ W @ B[keep] + np.diag([0, 30.0, 30.0, 30.0])
        errors[i] = z[i] - B[i] @ np.linalg.solve(G, B[keep].T @ W @ z[keep])
    var = ((w * errors**2).sum() - w * errors**2) / (w.sum() - w)
    found = transforms.leave_one_out(X, np.stack([z, 2 * z], 1), w)
    assert_allclose(found[:, 1], found[:, 0] - np.log(2), rtol=1e-9)
    assert_allclose(found[:, 0], norm.logpdf(errors, 0, np.sqrt(var)), rtol=1e-9)


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
    target[::2] = -1.0
    weight[::2] = 0.0
    assert isinstance(choose_transform(X, target, weight), LogTransform)
    assert choose_transform(X, target, np.zeros(600)) is None


def test_many_rows_and_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 300))
    y = np.exp(X[:, 250] + 0.3 * rng.normal(size=5000))
    X[:, 7] = 1.0
    assert isinstance(choose_transform(X, y), LogTransform)
