"""Drift is said where it is, and seldom where it is not."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from tggm.data.standardise import Columns
from tggm.report.drift import drift_warnings, score_warnings

NAMES = ("a", "b", "c")


def known(**settings):
    x = Columns(np.array([1.0, -2.0, 5.0]), np.array([2.0, 1.0, 0.1]))
    fitted = SimpleNamespace(scales=SimpleNamespace(x=x))
    return SimpleNamespace(fitted_=fitted, get_params=lambda deep: settings)


@pytest.fixture
def model():
    return known()


def rows(rng, N):
    return np.array([1.0, -2.0, 5.0]) + np.array([2.0, 1.0, 0.1]) * rng.standard_normal((N, 3))


@pytest.mark.parametrize("N", [1, 5, 50, 5000])
def test_rows_like_those_of_training_are_no_drift(model, N):
    rng = np.random.default_rng(N)
    assert not any(drift_warnings(model, rows(rng, N), NAMES) for _ in range(100))  # 5 errors: 1 in 6,000


def test_a_moved_column_is_named(model):
    X = rows(np.random.default_rng(0), 400)
    X[:, 2] += 0.1
    (words,) = drift_warnings(model, X, NAMES)
    assert words.startswith("1 of 3 inputs have other means than in training, in deviations: c by +1.")
    assert drift_warnings(known(class_weight="balanced"), X, NAMES) == []  # means of weighted rows
    X[:, 2] -= 0.07  # a third of a deviation: certain, and small
    assert drift_warnings(model, X, NAMES) == []


def test_rows_that_are_far_away_are_counted(model):
    X = rows(np.random.default_rng(0), 400)
    X[:8, 1] = 1e3
    assert drift_warnings(model, X, NAMES) == [
        "8 of 400 rows have a value ten deviations from the usual ones"
    ]


def test_nothing_is_said_where_nothing_is_known(model):
    X = rows(np.random.default_rng(0), 40)
    assert drift_warnings(model, sparse.csr_matrix(X + 100), NAMES) == []
    assert drift_warnings(model, X[:0], NAMES) == []


def test_observations_that_became_unlikely():
    assert score_warnings(-3.0, None, 100) == []
    assert score_warnings(-3.0, -2.8, 100) == []
    assert score_warnings(-4.0, -2.8, 10) == []
    assert "-4.00 against -2.80 nats a row" in score_warnings(-4.0, -2.8, 100)[0]
