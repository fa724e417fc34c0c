"""What estimators say of their columns: parts that add up, and importances that find those that matter."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_friedman1
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel

import tggm
from tests.estimators.small import SMALL
from tggm import TGGMClassifier, TGGMRegressor

QUICK = {**SMALL, "max_epochs": 150, "learning_rate": 0.03}


def houses(n=60, seed=3):
    """The price depends on the area and the kind of house; the name of the street tells nothing."""
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
    return TGGMRegressor(**wide).fit(X, y), X, y


@pytest.fixture(scope="module")
def two():
    """A classifier of two classes."""
    X, y = houses()
    return TGGMClassifier(**QUICK).fit(X.drop(columns="same"), y > 250)


def test_parts_of_a_table_add_up_to_the_prediction(regressor):
    X, _ = houses()
    found = regressor.explain(X, n_walks=8)
    assert found.names == ("street", "area", "kind", "same")
    assert found.parts.shape == (60, 4)
    assert_allclose(found.base + found.parts.sum(1), regressor.predict(X), rtol=1e-6)
    assert (found.parts[:, 3] == 0).all()  # left out by the model
    size = np.abs(found.parts).mean(0)
    assert size[0] < min(size[1], size[2]) / 4
    villa = (X["kind"] == "villa").to_numpy()
    assert 70 < found.parts[villa, 2].mean() - found.parts[~villa, 2].mean() < 130  # it was made with 100


def test_parts_of_the_deviation_add_up(regressor):
    X, _ = houses(30)
    found = regressor.explain(X, what="std", n_walks=2)
    assert_allclose(found.prediction, regressor.predict(X, return_std=True)[1], rtol=1e-6)


def test_few_rows_are_compared_with_the_mean_of_training(regressor):
    X, y = houses()
    one = regressor.explain(X[:1], n_walks=8)
    assert abs(one.base - y.mean()) < y.std() / 2
    assert_allclose(one.prediction, regressor.predict(X[:1]), rtol=1e-6)
    other = regressor.explain(X[:1], background=X, n_walks=120)  # every row begins a pair
    assert_allclose(other.base, regressor.predict(X).mean(), rtol=1e-6)


def test_the_same_seed_gives_the_same_parts(regressor):
    X, _ = houses(30)
    first, second, other = (regressor.explain(X, n_walks=2, random_state=seed).parts for seed in (1, 1, 2))
    assert (first == second).all()
    assert (first != other).any()


def test_probabilities_of_two_classes_add_up(two):
    X = houses()[0].drop(columns="same")
    found = two.explain(X, n_walks=4)
    assert_allclose(found.prediction, two.predict_proba(X)[:, 1], rtol=1e-6, atol=1e-12)
    odds = two.explain(X, what="log-odds", n_walks=4)
    assert_allclose(odds.prediction, two.decision_function(X), rtol=1e-6)


@pytest.mark.slow  # two classes, above; several outputs, below
def test_probabilities_of_three_classes_add_up():
    X, y = houses()
    X = X.drop(columns="same")
    three = TGGMClassifier(**QUICK).fit(X, np.digitize(y, (250, 350)))
    several = three.explain(X, n_walks=4)
    assert several.parts.shape == (60, 3, 3)
    assert_allclose(several.prediction, three.predict_proba(X), rtol=1e-6, atol=1e-12)
    assert_allclose(several.parts.sum(2), 0, atol=1e-6)  # probabilities sum to 1


def test_errors_name_what_is_wrong(regressor):
    X, y = houses()
    with pytest.raises(ValueError, match=r"`what` must be one of 'mean', 'std'; got 'probability'"):
        regressor.explain(X, what="probability")
    with pytest.raises(ValueError, match="`n_walks` must be an integer of at least 1; got 0"):
        regressor.explain(X, n_walks=0)
    with pytest.raises(ValueError, match="`background` must have at least one row"):
        regressor.explain(X, background=X[:0])
    with pytest.raises(ValueError, match="`y` must have 60 targets, one for each row; got 59"):
        regressor.permutation_importances(X, y[1:])
    with pytest.raises(NotFittedError):
        TGGMRegressor().explain(X)


def test_the_five_columns_of_friedman_are_found(friedman):
    """The first five of ten columns make the target."""
    model, *_ = friedman
    held_out = model.feature_importances_
    assert set(np.argsort(-held_out)[:5]) == set(range(5))
    fresh, target = make_friedman1(200, noise=0.5, random_state=1)
    found = model.permutation_importances(fresh, target)
    assert found.names == tuple(f"x{k}" for k in range(10))
    assert found.mean[:5].min() > found.mean[5:].max() + 2 * found.error.max()
    parts = np.abs(model.explain(fresh[:30]).parts).mean(0)
    assert set(np.argsort(-parts)[:5]) == set(range(5))


def test_shuffling_a_column_costs_what_scikit_learn_says(friedman):
    from sklearn.inspection import permutation_importance

    model, X, y = friedman
    ours = model.permutation_importances(X, y, n_repeats=10)
    theirs = permutation_importance(model, X, y, scoring="r2", n_repeats=10, random_state=0)
    scatter = theirs.importances_std / np.sqrt(10)
    assert (np.abs(ours.mean - theirs.importances_mean) <= 5 * np.sqrt(2) * scatter + 1e-6).all()


def test_importances_of_classes_and_their_users(two):
    X, y = houses(60, 4)
    found = two.permutation_importances(X.drop(columns="same"), y > 250)
    assert found.mean[0] < found.mean[1]
    assert two.feature_importances_.argmax() == 1
    assert SelectFromModel(two, prefit=True, max_features=1, threshold=-np.inf).get_support().tolist() == [
        False,
        True,
        False,
    ]


def test_model_files_keep_importances_that_were_asked_for(regressor, friedman, tmp_path):
    path = tmp_path / "model.tggm"
    tggm.save(pickle.loads(pickle.dumps(friedman[0])), path)
    known = friedman[0].feature_importances_
    fresh = pickle.loads(pickle.dumps(friedman[0]))
    tggm.save(fresh, path)
    assert (tggm.load(path).feature_importances_ == known).all()
    assert regressor.feature_importances_.shape == (4,)
    tggm.save(regressor, path)
    assert (tggm.load(path).feature_importances_ == regressor.feature_importances_).all()


def test_without_held_out_rows_there_are_no_importances(tmp_path):
    X, y = make_friedman1(60, n_features=5, random_state=0)
    model = TGGMRegressor(**{**SMALL, "max_epochs": 2}, early_stopping=False).fit(X, y)
    with pytest.raises(AttributeError, match=r"call permutation_importances\(X, y\)"):
        _ = model.feature_importances_
    assert not hasattr(model, "feature_importances_")
    tggm.save(model, tmp_path / "m.tggm")
    assert not hasattr(tggm.load(tmp_path / "m.tggm"), "feature_importances_")


@pytest.mark.slow  # of numbers and of classes, above
def test_importances_of_limits_and_several_outputs():
    X, y = make_friedman1(60, n_features=5, random_state=0)
    small = {**SMALL, "max_epochs": 20}
    limited = TGGMRegressor(**small).fit(X, y, censored=(y > 20).astype(int))
    assert np.isfinite(limited.feature_importances_).all()
    Y = np.stack([y, -y], axis=1)
    Y[::7, 1] = np.nan
    both = TGGMRegressor(**small).fit(X, Y)
    assert both.feature_importances_.shape == (5,)
    assert np.isfinite(both.feature_importances_).all()
    found = both.explain(X[:25], n_walks=2)
    assert_allclose(found.prediction, both.predict(X[:25]), rtol=1e-6)


def test_importances_of_other_columns_are_not_believed(friedman):
    """A file may say anything: what is not of its columns is as good as unknown."""
    model = friedman[0]
    assert model.feature_importances_.shape == (10,)
    arrays, meta = model.to_state()
    other = TGGMRegressor.from_state(arrays, {**meta, "importances": [0.5]})
    assert not hasattr(other, "feature_importances_")
