"""Evaluation sets of `fit`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss

from tests.estimators.small import ALL_ROWS, SMALL, three_classes
from tggm import TGGMClassifier, TGGMRegressor

SHORT = {**SMALL, "max_epochs": 30, "learning_rate": 0.03}


def table(n=60, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, np.abs(X[:, 0]) + 0.5 * X[:, 1]


@pytest.fixture(scope="module")
def plain():
    return TGGMRegressor(**SHORT, calibrate=False).fit(*table())


def test_an_evaluation_set_does_not_affect_training_and_ends_with_the_fitted_model(plain):
    X, y = table(60, 1)
    evaluated = TGGMRegressor(**SHORT, calibrate=False).fit(*table(), eval_set=(X, y))
    assert (evaluated.W0_ == plain.W0_).all()
    result = evaluated.evals_result_
    assert result["epoch"] == list(range(31))
    assert result["rmse"][-1] < result["rmse"][0]
    error = evaluated.predict(X) - y
    assert_allclose(result["rmse"][-1], np.sqrt(np.mean(error**2)), rtol=1e-5)
    evaluated.set_params(max_epochs=2).fit(*table())
    assert not hasattr(evaluated, "evals_result_")


def test_scores_of_a_classifier():
    X, y = three_classes()
    model = TGGMClassifier(**SHORT).fit(X, y, eval_set=(X, y))
    result = model.evals_result_
    assert_allclose(
        result["log_loss"][-1], log_loss(y, model.predict_proba(X), labels=model.classes_), rtol=1e-5
    )
    assert result["accuracy"][-1] == model.score(X, y)


def test_long_fits_are_evaluated_a_hundred_times():
    X, y = table()
    model = TGGMRegressor(**{**SHORT, **ALL_ROWS, "max_epochs": 250}).fit(X, y, eval_set=(X, y))
    assert model.evals_result_["epoch"] == list(range(0, 251, 2))


@pytest.mark.parametrize(
    ("eval_set", "message"),
    [
        (3, r"`eval_set` must be a pair \(X, y\) of rows and targets; got a int"),
        ((np.zeros((4, 3)), np.zeros(3)), "as many targets as rows, at least one; got 3 and 4"),
        ((np.zeros((4, 2)), np.zeros(4)), "X has 2 features"),
    ],
)
def test_bad_evaluation_sets_are_refused_before_training(eval_set, message):
    model = TGGMRegressor(**SHORT)
    with pytest.raises(ValueError, match=message):
        model.fit(*table(), eval_set=eval_set)
    assert not hasattr(model, "fitted_")
