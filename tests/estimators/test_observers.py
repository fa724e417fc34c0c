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
    assert re.fullmatch(r"epoch 20/20  objective -?[0-9.]+  held out -?[0-9.]+", lines[-1])
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
    result = model.evals_result_
    assert result["epoch"] == list(range(31))
    assert_allclose(result["rmse"][-1], np.sqrt(np.mean((model.predict(new) - target) ** 2)), rtol=1e-5)
    long = small_regressor(max_epochs=250, **ALL_ROWS).fit(X, Y, eval_set=(X, Y))
    assert long.evals_result_["epoch"] == list(range(0, 251, 2))  # at most about a hundred
    assert long.evals_result_["rmse"][-1] < long.evals_result_["rmse"][0]
    assert not hasattr(long.set_params(max_epochs=2).fit(X, Y), "evals_result_")


def test_scores_of_a_classifier_on_an_evaluation_set():
    A, label = three_classes()
    model = small_classifier(max_epochs=30).fit(A, label, eval_set=(A, label))
    expected = log_loss(label, model.predict_proba(A), labels=model.classes_)
    assert_allclose(model.evals_result_["log_loss"][-1], expected, rtol=1e-5)
    assert model.evals_result_["accuracy"][-1] == model.score(A, label)


@pytest.mark.parametrize(
    ("eval_set", "message"),
    [
        (3, r"`eval_set` must be a pair \(X, y\) of rows and targets; got a int"),
        ((X[:4], Y[:3]), "as many targets as rows, at least one; got 3 and 4"),
    ],
)
def test_bad_evaluation_sets_are_rejected(eval_set, message):
    with pytest.raises(ValueError, match=message):
        small_regressor().fit(X, Y, eval_set=eval_set)
