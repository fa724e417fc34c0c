"""Which transform is chosen where the right one is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from tggm.predictive.transform_choice import chosen_transform, leave_one_out
from tggm.predictive.transforms import IdentityTransform, LogTransform, YeoJohnsonTransform


@pytest.fixture
def line():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    return X, X @ [1.0, -0.5, 0.3, 0, 0] + 0.5 * rng.normal(size=600)


def test_leaving_one_out_in_closed_form():
    """Against refits without each row, by the normal equations."""
    rng = np.random.default_rng(1)
    X, z, w = rng.normal(size=(30, 3)), rng.normal(size=30), rng.uniform(0.5, 2, 30)
    w /= w.mean()
    loo = leave_one_out(X, w)
    one = loo._replace(leverage=loo.leverage[4:5], shrink=loo.shrink[4:5])  # the ridge of 1 a row
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
    assert_allclose(one.log_densities(z), norm.logpdf(errors, 0, np.sqrt(var)), rtol=1e-9)


def test_what_is_linear_stays(line):
    X, y = line
    assert chosen_transform(X, y) == IdentityTransform()
    assert chosen_transform(X, y + 100) == IdentityTransform()


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_logarithms_are_found(line, unit):
    X, y = line
    assert chosen_transform(X, unit * np.exp(y)) == LogTransform()


def test_heavy_tails_on_both_sides_are_no_reason(line):
    X, y = line
    assert chosen_transform(X, y + np.random.default_rng(2).standard_t(3, 600)) == IdentityTransform()


@pytest.mark.parametrize("power", [0.2, 1.8])
def test_powers_are_found(line, power):
    X, y = line
    want = YeoJohnsonTransform(power)
    found = chosen_transform(X, want.inverse(2 * y))
    assert found.kind == "yeo-johnson"
    assert abs(found.power - power) < 0.3


def test_few_values_stay(line):
    X, y = line
    assert chosen_transform(X, np.round(np.exp(y) + 1)) == IdentityTransform()
    often = np.exp(y)
    often[:200] = 0.5
    assert chosen_transform(X, often) == IdentityTransform()
    assert chosen_transform(X, np.ones(600)) == IdentityTransform()
    assert chosen_transform(X[:10], np.exp(y[:10])) == IdentityTransform()


def test_weights_and_targets_without_one(line):
    X, y = line
    target, weight = np.exp(y), np.ones(600)
    target[::2] = -1.0
    weight[::2] = 0.0
    assert chosen_transform(X, target, weight) == LogTransform()
    assert chosen_transform(X, target, np.zeros(600)) == IdentityTransform()


def test_many_rows_and_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 300))
    y = np.exp(X[:, 250] + 0.3 * rng.normal(size=5000))
    X[:, 7] = 1.0
    assert chosen_transform(X, y) == LogTransform()
