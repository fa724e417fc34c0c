"""Classifiers fall back to logistic regression: the regressions, the blend, and its share."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tggm.estimators.linear_part import OUTPUT
from tggm.estimators.logistic import PROBIT, Logits, blended, regressions

from tests.cases import few
from tests.estimators.small import quick
from tests.estimators.unfitted import filled
from tggm import TGGMClassifier
from tggm.estimators import logistic


def rows(rng, count, n=3, d=4, slope=2.0):
    X = rng.normal(size=(count, d))
    return X, (X @ rng.normal(size=(d, n)) * slope + rng.gumbel(size=(count, n))).argmax(1)


def test_regressions_are_of_the_rows_that_a_group_trains_on(rng):
    X, y = rows(rng, 90)
    weight = np.ones(90)
    weight[:5] = 0
    held = [np.arange(10, 30), np.arange(40, 60)]
    found = regressions(X, y, weight, held, 3)
    for logits, left in zip([*found.each, found.whole], [*held, np.zeros(0, int)], strict=True):
        part = np.setdiff1d(np.arange(5, 90), left)
        same = [LogisticRegression(C=C, tol=1e-8).fit(X[part], y[part]) for C in np.logspace(-3, 2, 6)]
        score = X @ logits.A.T + logits.b
        p = np.exp(score - np.logaddexp.reduce(score, 1)[:, None])
        assert min(np.abs(p - each.predict_proba(X)).max() for each in same) < 2e-3


def test_classes_that_a_group_never_sees_are_rare_not_impossible(rng):
    X, y = rows(rng, 60, n=2)
    y[:3] = 2
    found = regressions(X, y, np.ones(60), [np.arange(3), np.arange(30, 40)], 3)
    score = X @ found.each[0].A.T + found.each[0].b
    p = np.exp(score[:, 2] - np.logaddexp.reduce(score, 1))
    assert 1e-4 < p.mean() < 0.05
    assert regressions(X, np.zeros(60, int), np.ones(60), [np.arange(3)], 2) is None


def test_many_classes_take_one_fold_and_fewer_steps_without_a_word(rng, monkeypatch):
    """Nearly the same regression; scikit-learn warns of more classes than half of the rows."""
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 40
    X += y[:, None] % 7
    arguments = X, y, np.ones(60), [np.arange(12)], 40
    usual = regressions(*arguments)
    fits = []
    monkeypatch.setattr(logistic, "DEAR", 1000)
    monkeypatch.setattr(logistic, "_path", lambda *a, path=logistic._path: fits.append(1) or path(*a))
    found = regressions(*arguments)
    assert len(fits) == 3  # one fold, the group, and all rows
    assert np.abs(found.whole.A - usual.whole.A).max() < 0.1


def test_a_blend_has_scores_between_both(rng):
    model = filled(TGGMClassifier(hidden=6, n_members=2), 4, 3).fitted_.model
    logits = Logits(rng.normal(size=(3, 4)), rng.normal(size=3))
    some, whole = (blended(model, logits, share).arrays() for share in (0.3, 1.0))
    for name, linear in (("A", logits.A), ("b1", logits.b), ("W1", np.zeros_like(some[OUTPUT + "W1"][0]))):
        expected = 0.7 * model.arrays()[OUTPUT + name] + 0.3 * PROBIT * linear
        np.testing.assert_allclose(some[OUTPUT + name], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(whole[OUTPUT + name][0], PROBIT * linear, rtol=1e-5, atol=1e-6)
    assert blended(model, logits, 0.0) is model


@pytest.mark.parametrize("n", few([2, 3], "3"))
def test_where_members_know_nothing_probabilities_are_those_of_the_regression(rng, n):
    X, y = rows(rng, 400, n=n)
    model = quick(linear=True, max_epochs=1, learning_rate=1e-6, validation_fraction=0.3).fit(X, y)
    new, label = X[:200], y[:200]
    p = model.predict_proba(new)
    best = LogisticRegression().fit(X, y)
    loss = -np.log(p[np.arange(200), label]).mean()
    fallen = -np.log(best.predict_proba(new)[np.arange(200), label]).mean()
    assert loss < fallen + 0.03
    assert np.abs(p - best.predict_proba(new)).max() < 0.12  # a probit between unit normals is no logit
