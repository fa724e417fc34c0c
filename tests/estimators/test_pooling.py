"""Ridge and logistic regression: closed forms, the start of the linear part, and the blend."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.linear_model import Ridge as SklearnRidge

from tests.cases import few
from tests.estimators.small import settings_of, small_classifier, untrained
from tggm import TGGMClassifier, TGGMRegressor
from tggm.estimators import _ridge
from tggm.estimators._class_predictions import PROBIT, Logits, blend_scores, regressions
from tggm.estimators._data import read_numbers
from tggm.estimators._fitted import initialise
from tggm.estimators._ridge import OUTPUT, PENALTIES, ridge, start_at_ridge
from tggm.models import Identity, Network
from tggm.training.rows import RowBlock, Rows, membership

NOISE = "likelihood.log_noise"


@pytest.fixture
def table(rng):
    X = rng.standard_normal((40, 5))
    return X, X @ rng.standard_normal((5, 2)) + rng.standard_normal((40, 2)), rng.uniform(0.5, 2, 40)


def test_ridge_regression_is_that_of_scikit_learn(table):
    """RidgeCV chooses the penalty of each output by leave-one-out errors; it has no infinite penalty."""
    X, Y, _ = table
    found = ridge(X, Y, np.ones(40))
    unit = 40 * np.linalg.eigvalsh(np.cov(X.T, ddof=0)).mean()
    for j in range(2):
        other = RidgeCV(PENALTIES[:-1] * unit).fit(X, Y[:, j])
        assert_allclose(found.A[j], other.coef_, rtol=1e-6)
        assert_allclose(found.b[j], other.intercept_, rtol=1e-6)


def test_the_leave_one_out_error_is_that_of_refits(table, monkeypatch):
    X, Y, weight = table
    monkeypatch.setattr(_ridge, "PENALTIES", PENALTIES[20:21])
    unit = np.linalg.eigvalsh(np.cov(X.T, aweights=weight, ddof=0)).mean()
    w, error = weight / weight.sum(), np.zeros(2)
    for i in range(40):
        rest = np.arange(40) != i  # one penalty for all rows
        other = SklearnRidge(alpha=PENALTIES[20] * unit).fit(X[rest], Y[rest], sample_weight=w[rest])
        error += w[i] * (Y[i] - other.predict(X[i : i + 1])[0]) ** 2
    assert_allclose(ridge(X, Y, weight).error, error, rtol=1e-6)


def test_wide_and_tall_tables_have_the_same_solution(rng):
    """Rows of weight 0 make the table tall."""
    X, Y, w = rng.normal(size=(12, 40)), rng.normal(size=(12, 2)), rng.uniform(0.5, 2, 12)
    more = [np.zeros((30, 40)), np.zeros((30, 2)), np.zeros(30)]
    tall = ridge(*(np.concatenate(pair) for pair in zip((X, Y, w), more, strict=True)))
    for a, b in zip(ridge(X, Y, w), tall, strict=True):
        # a penalty of 1e-6 costs six digits
        assert_allclose(a, b[:12] if len(b) > 12 else b, rtol=1e-6, atol=1e-6)


def network(d, n, rng, members, units=(3, 3)):
    return Network(units, Identity).draw(rng, d, n, members=members)


@pytest.mark.parametrize("learned", [True, False])
def test_members_start_at_the_ridge_regression_of_their_rows(rng, learned):
    X = rng.standard_normal((40, 5))
    Y = X[:, :2] + [0.05, 1.0] * rng.standard_normal((40, 2))
    model, weight = network(5, 2, rng, 2), rng.uniform(0.5, 2, 40)
    halves = [np.arange(20), np.arange(20, 40)]
    block = RowBlock(membership([(half, half[:0]) for half in halves]), Rows(X, Y), weight)
    before, after = model.arrays(), start_at_ridge(model, block, learned).arrays()
    for k, half in enumerate(halves):
        found = ridge(X[half], Y[half], weight[half])
        assert_allclose(after[OUTPUT + "A"][k], found.A)
        assert_allclose(after[OUTPUT + "b1"][k], found.b)
        factor = np.sqrt(np.clip(found.error, 1e-4, 1))
        assert_allclose(after[OUTPUT + "W1"][k], factor[:, None] * before[OUTPUT + "W1"][k])
        # only the first output is nearly linear
        assert_allclose(after[NOISE][k, 0], np.log(found.error[0]) if learned else before[NOISE][k, 0])
        assert_allclose(after[NOISE][k, 1], before[NOISE][k, 1])


@pytest.mark.parametrize(("settings", "low"), [({}, True), ({"max_epochs": 5}, False)])
def test_the_noise_starts_low_only_if_training_is_automatic(rng, settings, low):
    """Steps of a size that the user chose could be too large at first."""
    X = rng.standard_normal((60, 3))
    checked = settings_of(TGGMRegressor(hidden=4, **settings))
    data = read_numbers(TGGMRegressor(), X, X[:, 0], None, None, None, checked, rng)
    model, _ = initialise(checked, data, rng)
    assert (model.arrays()[NOISE] < -6).all() == low


def rows_of_classes(rng, count, n=3, d=4, slope=2.0):
    X = rng.normal(size=(count, d))
    return X, (X @ rng.normal(size=(d, n)) * slope + rng.gumbel(size=(count, n))).argmax(1)


def test_logistic_regressions_are_of_the_training_rows_of_each_group(rng):
    X, y = rows_of_classes(rng, 90)
    weight = np.ones(90)
    weight[:5] = 0
    held = [np.arange(10, 30), np.arange(40, 60)]
    parts = [np.setdiff1d(np.arange(5, 90), left) for left in held]
    found = regressions(X, y, weight, parts, 3)
    for logits, part in zip(found, [*parts, np.arange(5, 90)], strict=True):
        same = [LogisticRegression(C=C, tol=1e-8).fit(X[part], y[part]) for C in np.logspace(-3, 2, 6)]
        score = X @ logits.A.T + logits.b
        p = np.exp(score - np.logaddexp.reduce(score, 1)[:, None])
        assert min(np.abs(p - each.predict_proba(X)).max() for each in same) < 2e-3


def test_classes_without_training_rows_are_rare_but_possible(rng):
    X, y = rows_of_classes(rng, 60, n=2)
    y[:3] = 2
    parts = [np.arange(3, 60), np.r_[:30, 40:60]]
    found = regressions(X, y, np.ones(60), parts, 3)
    score = X @ found[0].A.T + found[0].b
    p = np.exp(score[:, 2] - np.logaddexp.reduce(score, 1))
    assert 1e-4 < p.mean() < 0.05
    assert regressions(X, np.zeros(60, int), np.ones(60), parts, 2) is None


def test_a_blend_with_logistic_regression_mixes_the_scores(rng):
    model = untrained(TGGMClassifier(hidden=6, n_members=2), 4, 3).fitted_.model
    logits = Logits(rng.normal(size=(3, 4)), rng.normal(size=3))
    some, whole = (blend_scores(model, logits, share).arrays() for share in (0.3, 1.0))
    for name, linear in (("A", logits.A), ("b1", logits.b), ("W1", np.zeros_like(some[OUTPUT + "W1"][0]))):
        expected = 0.7 * model.arrays()[OUTPUT + name] + 0.3 * PROBIT * linear
        assert_allclose(some[OUTPUT + name], expected, rtol=1e-5, atol=1e-6)
        assert_allclose(whole[OUTPUT + name][0], PROBIT * linear, rtol=1e-5, atol=1e-6)
    assert blend_scores(model, logits, 0.0) is model


@pytest.mark.parametrize("n", few([2, 3], "3"))
def test_untrained_members_are_replaced_by_logistic_regression(rng, n):
    X, y = rows_of_classes(rng, 400, n=n)
    settings = {"linear": True, "max_epochs": 1, "learning_rate": 1e-6, "cv": 0.3}
    model = small_classifier(**settings).fit(X, y)
    other = LogisticRegression().fit(X, y).predict_proba(X)
    p = model.predict_proba(X)
    rows = np.arange(400)
    assert -np.log(p[rows, y]).mean() < -np.log(other[rows, y]).mean() + 0.03
    assert np.abs(p - other).mean() < 0.06  # probit and logit differ, and a prior favours smaller weights
