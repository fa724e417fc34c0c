"""Estimators whose `fit` fails stay what they were; settings changed after fitting wait for the next fit."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tggm
from tests.estimators.small import SMALL
from tggm import TGGMClassifier, TGGMRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
NAMES = np.array(["a", "bb", "ccc"])


@pytest.fixture(scope="module")
def fitted():
    return TGGMClassifier(**SMALL, max_epochs=2).fit(X, NAMES[y])


def test_a_refit_that_fails_leaves_the_model(fitted):
    before = fitted.predict_proba(X)
    with pytest.raises(ValueError, match="sample_weight"):
        fitted.fit(X[:, :2], np.array(["cat", "dog", "eel"])[y], sample_weight=np.ones(3))
    assert_array_equal(fitted.classes_, NAMES)
    assert_array_equal(fitted.predict_proba(X), before)


def test_a_regressor_too():
    model = TGGMRegressor(**SMALL, max_epochs=2).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X[:, :2], y, sample_weight=np.ones(3))
    assert_array_equal(model.predict(X), before)


def test_settings_changed_after_fitting_do_not_change_predictions(fitted, tmp_path):
    before = fitted.predict_proba(X)
    fitted.set_params(sigma0=0.3)
    assert_array_equal(fitted.predict_proba(X), before)
    tggm.save(fitted, tmp_path / "m.tggm")
    assert_array_equal(tggm.load(tmp_path / "m.tggm").predict_proba(X), before)
    with pytest.raises(ValueError, match="sigma0"):
        fitted.partial_fit(X, NAMES[y])
    fitted.set_params(sigma0=1.0)


@pytest.mark.parametrize("change", [{"hidden": 5}, {"n_members": 3}, {"dtype": "float64"}])
def test_partial_fit_refuses_another_model(change, fitted):
    usual = fitted.get_params()
    with pytest.raises(ValueError, match="must stay what they were"):
        fitted.set_params(**change).partial_fit(X, NAMES[y])
    fitted.set_params(**usual)
