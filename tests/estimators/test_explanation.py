"""Explanations whose parts add up to the prediction, and importances of columns."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_friedman1
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import permutation_importance

import tggm
from tests.estimators.small import SMALL
from tggm import TGGMClassifier, TGGMRegressor
from tggm.estimators import from_state, to_state

QUICK = {**SMALL, "max_epochs": 150, "learning_rate": 0.03}


def houses(n=60, seed=3):
    """Draw prices that depend on area and kind but not on the street."""
    rng = np.random.default_rng(seed)
    area, kind = rng.uniform(50, 150, n), rng.choice(["flat", "house", "villa"], n)
    street = rng.choice(["north", "south"], n)
    price = 3 * area + 100 * (kind == "villa") + 5 * rng.normal(size=n)
    return pd.DataFrame({"street": street, "area": area, "kind": kind, "same": 1.0}), price


@pytest.fixture(scope="module")
def regressor():
    X, y = houses()
    with pytest.warns(tggm.TableWarning, match="same"):
        return TGGMRegressor(**QUICK).fit(X, y)


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(200, noise=0.5, random_state=0)
    wide = {**SMALL, "hidden": (20,), "max_epochs": 200, "learning_rate": 0.03}
    return TGGMRegressor(**wide).fit(X, y)


@pytest.fixture(scope="module")
def two():
    X, y = houses()
    return TGGMClassifier(**QUICK).fit(X.drop(columns="same"), y > 250)


def test_parts_of_a_table_add_up_to_the_prediction(regressor):
    X, _ = houses()
    found = regressor.explain(X, n_walks=8)
    assert found.names == ("street", "area", "kind", "same")
    assert found.parts.shape == (60, 4)
    assert_allclose(found.base + found.parts.sum(1), regressor.predict(X), rtol=1e-6)
    assert (found.parts[:, 3] == 0).all()  # a constant is not used
    size = np.abs(found.parts).mean(0)
    assert size[0] < min(size[1], size[2]) / 4
    villa = (X["kind"] == "villa").to_numpy()
    assert 70 < found.parts[villa, 2].mean() - found.parts[~villa, 2].mean() < 130  # 100 was drawn
    std = regressor.explain(X, of="std", n_walks=2)
    assert_allclose(std.prediction, regressor.predict(X, return_std=True)[1], rtol=1e-6)


def test_few_rows_are_compared_with_the_mean_of_training(regressor):
    X, y = houses()
    one = regressor.explain(X[:1], n_walks=8)
    assert abs(one.base - y.mean()) < y.std() / 2
    assert_allclose(one.prediction, regressor.predict(X[:1]), rtol=1e-6)
    other = regressor.explain(X[:1], background=X, n_walks=120)  # each background row twice
    assert_allclose(other.base, regressor.predict(X).mean(), rtol=1e-6)


def test_probabilities_of_two_classes_add_up(two):
    X = houses()[0].drop(columns="same")
    found = two.explain(X, n_walks=4)
    assert_allclose(found.prediction, two.predict_proba(X)[:, 1], rtol=1e-6, atol=1e-12)
    odds = two.explain(X, of="log-odds", n_walks=4)
    assert_allclose(odds.prediction, two.decision_function(X), rtol=1e-6)


def test_bad_arguments_are_rejected(regressor):
    X, y = houses()
    for options, message in (
        ({"of": "probability"}, r"`of` must be one of 'mean', 'std'; got 'probability'"),
        ({"n_walks": 0}, "`n_walks` must be an integer of at least 1; got 0"),
        ({"background": X[:0]}, "`background` must have rows like those of `fit`: it has no rows"),
        ({"background": X.iloc[:, 0]}, "`background` must have rows like .*: it must have rows and columns"),
        ({"background": 3}, "`background` must have rows like .*: it must be a table or an array; got 3"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            regressor.explain(X, **options)
    with pytest.raises(ValueError, match="`y` must have 60 targets, one for each row; got 59"):
        regressor.permutation_importances(X, y[1:])
    for wrong, found in ((np.c_[y, y], "1 targets per row"), (y * np.inf, "must be finite"), (None, "None")):
        with pytest.raises(ValueError, match=found):
            regressor.permutation_importances(X, wrong)


def test_the_five_columns_of_friedman_are_found(friedman):
    """The target depends on the first five of ten columns."""
    assert set(np.argsort(-friedman.feature_importances_)[:5]) == set(range(5))
    X, y = make_friedman1(200, noise=0.5, random_state=1)
    found = friedman.permutation_importances(X, y, n_repeats=10)
    assert found.names == tuple(f"x{k}" for k in range(10))
    assert found.mean[:5].min() > found.mean[5:].max() + 2 * found.error.max()
    parts = np.abs(friedman.explain(X[:30]).parts).mean(0)
    assert set(np.argsort(-parts)[:5]) == set(range(5))
    other = permutation_importance(friedman, X, y, scoring="r2", n_repeats=10, random_state=0)
    scatter = 5 * np.sqrt(2) * other.importances_std / np.sqrt(10)
    assert (np.abs(found.mean - other.importances_mean) <= scatter + 1e-6).all()


def test_importances_of_a_classifier_in_scikit_learn(two):
    X, y = houses(60, 4)
    found = two.permutation_importances(X.drop(columns="same"), y > 250)
    assert found.mean[0] < found.mean[1]
    assert two.feature_importances_.argmax() == 1
    chosen = SelectFromModel(two, prefit=True, max_features=1, threshold=-np.inf).get_support()
    assert chosen.tolist() == [False, True, False]


def test_a_model_file_has_no_rows_for_importances(regressor):
    assert regressor.feature_importances_.shape == (4,)
    assert not hasattr(from_state(TGGMRegressor, *to_state(regressor)), "feature_importances_")
