"""Probabilities become as sharp as held-out rows advise, and files keep it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.estimators.small import quick
from tggm import load, save

SHARP = {
    "weight_decay": 0.0,
    "n_members": 4,
    "validation_fraction": 0.25,
    "early_stopping": True,
    "average": 0.0,
}


@pytest.fixture(scope="module")
def rows():
    """Labels that inputs say little of: a network that learned them by heart is too sure."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 3))
    return X, (X[:, 0] + 2 * rng.standard_normal(500) > 0).astype(int)


@pytest.fixture(scope="module")
def fitted(rows):
    X, y = rows
    return quick(**SHARP, calibrate=True, max_epochs=30).fit(X[:200], y[:200])


def score(model, X, y):
    return model.label_log_proba(X, y).mean()


def test_probabilities_are_the_mixture_with_a_temperature(rows, fitted):
    X, _ = rows
    raw = np.array(fitted.predict_proba(X))
    mixture = fitted.fitted_._replace(calibration=())
    before, fitted.fitted_ = fitted.fitted_, mixture
    plain = fitted.predict_log_proba(X)
    fitted.fitted_ = before
    for pool in before.calibration:
        plain = plain / pool.numbers[0] + (np.array(pool.numbers[1:]) if len(pool.numbers) > 1 else 0.0)
    want = np.exp(plain)
    assert_allclose(raw, want / want.sum(1, keepdims=True), rtol=1e-5)
    assert_allclose(np.exp(fitted.predict_log_proba(X)), raw, rtol=1e-5)


def test_fresh_rows_make_sharp_probabilities_softer(rows, fitted, tmp_path):
    X, y = rows
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 2, 500)  # labels have lost what they had to do with the inputs
    kept = fitted.fitted_
    worse = score(fitted, X[350:], noise[350:])
    fitted.recalibrate(X[200:350], noise[200:350])
    (pool,) = fitted.fitted_.calibration
    assert pool.numbers[0] > 1.5
    assert score(fitted, X[350:], noise[350:]) > worse
    save(fitted, tmp_path / "m.tggm")
    again = load(tmp_path / "m.tggm")
    assert again.fitted_.calibration == fitted.fitted_.calibration
    assert_allclose(again.predict_proba(X), fitted.predict_proba(X), rtol=1e-6)
    with pytest.raises(ValueError, match="`y` has 2 labels"):
        fitted.recalibrate(X[:3], y[:2])
    fitted.fitted_ = kept


def test_uncalibrated_on_demand(rows):
    X, y = rows
    assert quick(**SHARP, calibrate=False, max_epochs=30).fit(X[:200], y[:200]).fitted_.calibration == ()
