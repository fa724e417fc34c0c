"""Partial dependence against a model whose effects are known, and the verdict of a comparison."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin

from tggm.predictive.moment import MomentPredictive
from tggm.report._case import Scored, examine
from tggm.report._effects import Feature, effects, importances, rank_features
from tggm.report._sections import verdict


class Known(RegressorMixin, BaseEstimator):
    """Mean 5 x0 + x1 x2 and standard deviation 2; the column after them does nothing."""

    n_features_in_ = 4

    def table_preparation(self):
        return None

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y):
        return self

    def predict(self, X):
        return 5 * X[:, 0] + X[:, 1] * X[:, 2]

    def predict_dist(self, X):
        return MomentPredictive(self.predict(X)[None], np.full((1, len(X)), 4.0))


@pytest.fixture
def case(rng):
    X = rng.normal(size=(30, 4))
    X[:, 3] = X[:, 3] > 0
    return examine(Known(), X, X[:, 0])


def test_the_strongest_feature_comes_first_and_an_idle_one_last(case):
    order = rank_features(case)
    assert [feature.name for feature, _ in (order[0], order[-1])] == ["x1", "x4"]
    low, high = np.quantile(case.X[:, 0], (0.05, 0.95))
    assert order[0][1] == pytest.approx(5 * (high - low))
    assert order[-1][1] == 0


def test_the_effect_is_the_average_over_rows_with_its_interval(case):
    first, second, last = effects(case, [Feature(f"x{j + 1}", (j,)) for j in (0, 1, 3)], 0.8)
    others = np.mean(case.X[:, 1] * case.X[:, 2])
    assert first.mean[:, 0] == pytest.approx(5 * first.at.place + others)
    half = 2 * stats.norm.ppf(0.9)
    assert first.upper[:, 0] - first.mean[:, 0] == pytest.approx(np.full(13, half), rel=1e-6)
    assert first.mean[:, 0] - first.lower[:, 0] == pytest.approx(np.full(13, half), rel=1e-6)
    assert second.mean[:, 0] == pytest.approx(5 * case.X[:, 0].mean() + second.at.place * case.X[:, 2].mean())
    assert last.at.discrete
    assert last.at.place.tolist() == [0.0, 1.0]


def test_a_category_is_one_feature_and_its_levels_exclude_each_other(rng):
    X = np.zeros((30, 4))
    X[np.arange(30), rng.integers(3, size=30)] = 1  # columns 0, 1 and 2 are levels; 2 is called c
    X[:, 3] = rng.normal(size=30)
    case = examine(Known(), X, X[:, 3], groups={"kind": {"a": 0, "b": 1, "c": 2}})
    (kind,) = [feature for feature, _ in rank_features(case) if feature.levels]
    (effect,) = effects(case, [kind], 0.9)
    assert (kind.name, effect.at.labels) == ("kind", ("a", "b", "c"))
    assert effect.mean[:, 0] == pytest.approx([5.0, 0.0, 0.0])  # the product of two levels is never 1
    with pytest.raises(ValueError, match=r"`groups\['kind'\]` must be column numbers below 4"):
        examine(Known(), X, X[:, 3], groups={"kind": {"a": 7}})


def test_parts_of_a_column_move_together(rng):
    """x0 is a number, x1 x2 how rows at it are, of which no others exist; x3 says where x0 is missing."""
    X = rng.normal(size=(200, 4))
    X[:, 1], X[:, 2], X[:, 3] = X[:, 0] > 0, 3.0, np.arange(200) < 50
    X[:50, :3] = 0, 7, 7
    names = ["size", "size: rank", "size: usual", "size is missing"]
    case = examine(Known(), X, X[:, 0], feature_names=names, parts={"size": [0, 1, 2, 3]})
    ((feature, _),) = rank_features(case)
    assert feature == Feature("size", (0, 1, 2, 3), (), "size")
    (effect,) = effects(case, [feature], 0.9)
    inside = np.abs(effect.at.place) > 0.1  # where no row is next to both
    want = 5 * effect.at.place + 3.0 * (effect.at.place > 0)
    assert effect.mean[inside, 0] == pytest.approx(want[inside])
    assert importances(case, [feature]).names == ("size",)
    with pytest.raises(ValueError, match=r"`parts\['size'\]` must be column numbers below 4"):
        examine(Known(), X, X[:, 3], parts={"size": [7]})


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (1.0, "better than the linear"),
        (-1.0, "Prefer the simpler one"),
        (0.0, "No clear difference"),
    ],
)
def test_the_verdict_needs_two_standard_errors(rng, gain, words):
    noise = rng.normal(size=100)
    noise -= noise.mean()
    judged = {"this model": Scored([], noise + gain), "linear": Scored([], np.zeros(100))}
    assert words in verdict(judged, "linear")


def test_only_estimators_are_reported_on():
    other = SimpleNamespace(fit=None, __sklearn_is_fitted__=lambda: True)
    with pytest.raises(TypeError, match="`model` must be a TGGMRegressor or a TGGMClassifier; got Simple"):
        examine(other, np.zeros((2, 1)), np.zeros(2))
