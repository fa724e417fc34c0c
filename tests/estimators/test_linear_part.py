"""Ridge regression in closed form, the start of the linear part, and what predictions fall back to."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge as Other
from tggm.estimators.linear_part import PENALTIES

from tggm.estimators import linear_part
from tggm.models import Architecture
from tggm.predictive.calibration import HeldOut


@pytest.fixture
def table(rng):
    X = rng.standard_normal((40, 5))
    return X, X @ rng.standard_normal((5, 2)) + rng.standard_normal((40, 2)), rng.uniform(0.5, 2, 40)


def test_left_out_rows_are_predicted_by_the_others(table, monkeypatch):
    X, Y, weight = table
    monkeypatch.setattr(linear_part, "PENALTIES", PENALTIES[20:21])
    found = linear_part.ridge(X, Y, weight)
    unit = np.linalg.eigvalsh(np.cov(X.T, aweights=weight, ddof=0)).mean()
    alpha = PENALTIES[20] * unit
    for i in range(4):
        rest = np.arange(40) != i
        w = weight[rest] / weight.sum()  # the penalty is one for all rows
        other = Other(alpha=alpha).fit(X[rest], Y[rest], sample_weight=w)
        assert_allclose(found.left_out[i], other.predict(X[i : i + 1])[0], rtol=1e-6)


def test_noise_leaves_the_mean(rng):
    X, y = rng.standard_normal((30, 40)), rng.standard_normal((30, 1))
    found = linear_part.ridge(X, y, np.ones(30))
    assert np.abs(found.A).max() < 0.1
    assert found.error[0] < 1.2 * y.var()


def test_members_start_at_the_regression_of_their_rows(table, rng):
    X, Y, weight = table
    model = Architecture(5, (3, 3), 2, linear=True).members(rng, 2, "float64")
    halves = [np.arange(20), np.arange(20, 40)]
    arrays = linear_part.started(model, halves, X, Y, weight).arrays()
    for k, half in enumerate(halves):
        found = linear_part.ridge(X[half], Y[half], weight[half])
        assert_allclose(arrays["likelihood.output.A"][k], found.A)
        assert_allclose(arrays["likelihood.output.b1"][k], found.b)


@pytest.mark.parametrize("learned", [True, False])
def test_the_noise_starts_where_a_regression_tells_nearly_all(rng, learned):
    X = rng.standard_normal((40, 5))
    Y = X[:, :2] + [0.05, 1.0] * rng.standard_normal((40, 2))
    model = Architecture(5, (3, 3), 2, linear=True).members(rng, 2, "float64")
    halves, weight = [np.arange(20), np.arange(20, 40)], np.ones(40)
    name = "likelihood.log_noise"
    before, after = (
        model.arrays()[name],
        linear_part.started(model, halves, X, Y, weight, learned).arrays()[name],
    )
    assert_allclose(after[:, 1], before[:, 1])
    errors = [linear_part.ridge(X[half], Y[half], weight[half]).error[0] for half in halves]
    assert_allclose(after[:, 0], np.log(errors) if learned else before[:, 0])


def held_out(rng, y, good):
    """Ten members, each row held out by one; those of `good` know y."""
    N = len(y)
    there = np.arange(10)[:, None] == np.arange(N)[None, :] % 10
    scatter = (0.05 if good else 2.0) * rng.standard_normal((10, N))
    return HeldOut((y if good else 0 * y) + scatter, np.full((10, N), 0.5), there, y, np.ones(N))


@pytest.mark.parametrize("good", [True, False])
def test_the_better_model_gets_its_share(rng, good):
    X = rng.standard_normal((300, 2))
    y = np.sin(3 * X[:, 0]) if good else X[:, 0] + 0.1 * rng.standard_normal(300)
    linear = linear_part.ridge(X, y[:, None], np.ones(300))
    model = Architecture(2, (3,), 1, linear=True).members(rng, 10, "float64")
    held = held_out(rng, y, good)
    made, (later,) = linear_part.blended(model, [held], linear)
    if good:
        assert made is model
        return
    W1, A = (made.arrays()["likelihood.output." + name] for name in ("W1", "A"))
    share = 1 - W1[0, 0, 0] / model.arrays()["likelihood.output.W1"][0, 0, 0]
    assert share > 0.9
    assert_allclose(A[:, 0], np.tile(share * linear.A, (10, 1)), rtol=1e-6)
    assert np.mean((later.mean[0] - y) ** 2) < np.mean((held.mean[0] - y) ** 2)


def test_fewer_rows_than_columns_are_solved_by_their_own_number(rng):
    """The same as with the eigenvectors of all columns, without a matrix of columns × columns."""
    X, Y, w = rng.normal(size=(12, 40)), rng.normal(size=(12, 2)), rng.uniform(0.5, 2, 12)
    wide = linear_part.ridge(X, Y, w)
    tall = linear_part.ridge(
        np.vstack([X, np.zeros((30, 40))]), np.vstack([Y, np.zeros((30, 2))]), np.r_[w, np.zeros(30)]
    )
    tall = tall._replace(left_out=tall.left_out[:12])
    for a, b in zip(wide, tall, strict=True):
        assert_allclose(a, b, rtol=1e-6, atol=1e-6)  # a penalty of 1e-6 costs six digits
