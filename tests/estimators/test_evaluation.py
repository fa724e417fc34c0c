"""Rows that a fit watches."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss

from tests.estimators.small import SMALL, three_classes
from tggm import TGGMClassifier, TGGMRegressor

SHORT = {**SMALL, "max_epochs": 30, "learning_rate": 0.03}


def table(n=60, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, np.abs(X[:, 0]) + 0.5 * X[:, 1]


@pytest.fixture(scope="module")
def plain():
    return TGGMRegressor(**SHORT, calibrate=False).fit(*table())


def test_watched_rows_change_nothing_and_end_with_the_kept_model(plain):
    X, y = table(60, 1)
    watched = TGGMRegressor(**SHORT, calibrate=False).fit(*table(), eval_set=(X, y))
    assert (watched.W0_ == plain.W0_).all()
    result = watched.evals_result_
    assert result["epoch"] == list(range(31))
    assert result["rmse"][-1] < result["rmse"][0]
    error = watched.predict(X) - y
    assert_allclose(result["rmse"][-1], np.sqrt(np.mean(error**2)), rtol=1e-5)
    watched.set_params(max_epochs=2).fit(*table())
    assert not hasattr(watched, "evals_result_")


def test_training_ends_when_asked_to(plain):
    """Targets that have nothing to do with the inputs get worse from the first epochs on."""
    X, _ = table(60, 1)
    noise = 0.01 * np.random.default_rng(2).normal(size=60) + table()[1].mean()
    model = TGGMRegressor(**SHORT, calibrate=False).fit(*table(), eval_set=(X, noise), eval_patience=3)
    found = model.evals_result_
    lowest = int(np.argmin(found["rmse"]))
    assert model.n_iter_ == found["epoch"][-1] == found["epoch"][lowest] + 3 < 30


def test_classes_and_tables_are_watched():
    X, y = three_classes()
    model = TGGMClassifier(**SHORT, calibrate=False).fit(X, y, eval_set=(X, y))
    result = model.evals_result_
    assert_allclose(
        result["log_loss"][-1], log_loss(y, model.predict_proba(X), labels=model.classes_), rtol=1e-5
    )
    assert result["accuracy"][-1] == model.score(X, y)


def test_long_fits_are_looked_at_a_hundred_times():
    X, y = table()
    model = TGGMRegressor(**{**SHORT, "max_epochs": 250, "early_stopping": False}).fit(X, y, eval_set=(X, y))
    assert model.evals_result_["epoch"] == list(range(0, 251, 2))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"eval_set": 3}, r"`eval_set` must be a pair \(X, y\) of rows and targets; got a int"),
        ({"eval_set": (np.zeros((4, 3)), np.zeros(3))}, "as many targets as rows, at least one; got 3 and 4"),
        ({"eval_set": (np.zeros((4, 2)), np.zeros(4))}, "X has 2 features"),
        (
            {"eval_set": table(), "eval_patience": 0},
            "`eval_patience` must be an integer of at least 1",
        ),
    ],
)
def test_what_is_wrong_is_said_before_training(words, sentence):
    model = TGGMRegressor(**SHORT)
    with pytest.raises(ValueError, match=sentence):
        model.fit(*table(), **words)
    assert not hasattr(model, "fitted_")
