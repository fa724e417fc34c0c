"""Progress, evaluation sets, interrupted fits and failed fits."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss

from tests.estimators.small import ALL_ROWS, abs_table, small_classifier, small_regressor, three_classes
from tggm.training import Observer

X, Y = abs_table()


class Reporting(Observer):
    def __init__(self, progressed):
        self.progressed = progressed


def fail(epochs, trace):
    raise RuntimeError("failed in training")


def interrupt(epochs, trace):
    raise KeyboardInterrupt


def test_progress_is_printed_or_reported(capsys):
    small_regressor(verbose=True, max_epochs=20).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"epoch 20  objective -?[0-9.]+  held out -?[0-9.]+", lines[-2])
    assert re.fullmatch(r"training ended after [0-9.]+ s: all epochs are done", lines[-1])
    reports = []
    observer = Reporting(lambda epochs, trace: reports.append((epochs, trace.train)))
    model = small_regressor(verbose=True, max_epochs=20).fit(X, Y, observer=observer)
    assert capsys.readouterr().out == ""
    assert reports[-1][0] == 20
    assert_array_equal(np.concatenate([train for _, train in reports], axis=1), model.history_["train"])


def test_an_interrupted_fit_keeps_the_best_parameters(capsys):
    model = small_regressor().fit(X, Y, observer=Reporting(interrupt))
    assert model.interrupted_
    assert not model.converged_
    assert 0 < model.n_iter_ < 60
    assert np.isfinite(model.predict(X)).all()
    assert "Interrupted after 1 epochs" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [small_regressor, small_classifier])
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"sample_weight": np.ones(3)}, "sample_weight"),
        ({"eval_set": (X[:4], Y[:4] > 0)}, "X has 3 features"),
        ({"observer": Reporting(fail), "eval_set": (X[:, :2], Y > 0)}, "failed in training"),
    ],
)
def test_a_failed_fit_leaves_a_fitted_estimator_unchanged(kind, options, error):
    model = kind(max_epochs=2).fit(X, Y > 0, eval_set=(X, Y > 0))
    before = dict(vars(model))
    with pytest.raises((ValueError, RuntimeError), match=error):
        model.fit(X[:, :2], Y > 0.5, **options)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)


def test_an_evaluation_set_does_not_affect_training_and_ends_with_the_fitted_model():
    new, target = np.random.default_rng(1).normal(size=(60, 3)), Y
    plain, model = (small_regressor(max_epochs=30).fit(X, Y, eval_set=e) for e in (None, (new, target)))
    assert_array_equal(model.W0_, plain.W0_)
    result, dist = model.evals_result_["validation_0"], model.predict_dist(new)
    assert result["epoch"] == list(range(31))
    assert_allclose(result["rmse"][-1], np.sqrt(np.mean((model.predict(new) - target) ** 2)), rtol=1e-5)
    assert_allclose(result["log_likelihood"][-1], dist.logpdf(target).mean(), rtol=1e-5)
    assert_allclose(result["crps"][-1], dist.crps(target).mean(), rtol=1e-5)
    long = small_regressor(max_epochs=250, **ALL_ROWS).fit(X, Y, eval_set=[(new, target), (X, Y)])
    result = long.evals_result_["validation_1"]
    assert result["epoch"] == list(range(0, 251, 2))  # at most about a hundred
    assert result["rmse"][-1] < result["rmse"][0]
    assert not hasattr(long.set_params(max_epochs=2).fit(X, Y), "evals_result_")


def test_training_stops_early_and_keeps_the_parameters_that_predict_the_evaluation_set_best():
    rng = np.random.default_rng(1)
    new = rng.normal(size=(60, 3))
    target = np.abs(new[:, 0]) + 2.0 * rng.normal(size=60)  # much noise: more training is worse
    settings = {"max_epochs": 200, **ALL_ROWS}
    model = small_regressor(**settings).fit(X, Y, eval_set=[(new, target)], early_stopping_rounds=8)
    result = model.evals_result_["validation_0"]
    best = int(np.argmax(result["log_likelihood"]))
    assert 0 < result["epoch"][best] == result["epoch"][-1] - 8 == model.n_iter_ - 8 < 100
    assert_allclose(model.predict_dist(new).logpdf(target).mean(), max(result["log_likelihood"]), rtol=1e-5)
    assert model.best_epoch_.max() <= result["epoch"][best]
    with pytest.raises(ValueError, match="`early_stopping_rounds` needs an `eval_set`"):
        small_regressor().fit(X, Y, early_stopping_rounds=7)


def test_missing_targets_of_an_evaluation_set_are_left_out():
    both = np.column_stack([Y, X[:, 2]])
    gaps = both.copy()
    gaps[:30, 1] = np.nan
    model = small_regressor(max_epochs=5).fit(X, both, eval_set=[(X, gaps)])
    dist = model.predict_dist(X)
    each = [dist.marginal(0).crps(Y), dist.marginal(1)[np.arange(30, 60)].crps(X[30:, 2])]
    result = model.evals_result_["validation_0"]
    assert_allclose(result["crps"][-1], np.concatenate(each).mean(), rtol=1e-5)
    assert_allclose(result["log_likelihood"][-1], dist.logpdf(both)[30:].mean(), rtol=1e-5)


def test_scores_of_a_classifier_on_an_evaluation_set():
    A, label = three_classes()
    model = small_classifier(max_epochs=30).fit(A, label, eval_set=(A, label))
    expected = log_loss(label, model.predict_proba(A), labels=model.classes_)
    result = model.evals_result_["validation_0"]
    assert_allclose([result["log_loss"][-1], -result["log_likelihood"][-1]], expected, rtol=1e-5)
    assert result["accuracy"][-1] == model.score(A, label)


@pytest.mark.parametrize(
    ("eval_set", "message"),
    [
        (3, r"`eval_set` must be a list of pairs \(X, y\) of rows and targets; got a int"),
        ([], r"`eval_set` must be a list of pairs \(X, y\) of rows and targets; got a list"),
        ((X[:4], Y[:3]), "as many targets as rows, at least one; got 3 and 4"),
    ],
)
def test_bad_evaluation_sets_are_rejected(eval_set, message):
    with pytest.raises(ValueError, match=message):
        small_regressor().fit(X, Y, eval_set=eval_set)
