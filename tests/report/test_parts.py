"""Scores, warnings, effects, baselines and sentences of a report, against definitions written out."""

from itertools import pairwise
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import sparse, stats
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from tggm import Graph
from tggm.data.standardise import Columns
from tggm.plotting import plot_graph
from tggm.predictive.gaussian_mixture import GaussianMixture
from tggm.report import scores
from tggm.report._case import Scored, baselines_of, examine, score_all
from tggm.report._effects import Feature, effects, importances, rank_features
from tggm.report._page import Cell, number, numeric_columns, picture
from tggm.report._sections import class_calibration, confidence_verdict, coverage_verdict, verdict
from tggm.report.scores import calibration_error, class_scores, coverage, drift_warnings, regression_scores

NAMES = ("a", "b", "c")
MEAN, SCALE = np.array([1.0, -2.0, 5.0]), np.array([2.0, 1.0, 0.1])


def by_key(found):
    return {score.key: score.value for score in found}


def test_regression_scores_of_a_normal(rng):
    mean, sd = rng.normal(size=300), 0.7
    y = mean + rng.normal(size=300)
    got = by_key(regression_scores(GaussianMixture(mean[None], np.full((1, 300), sd**2)), y))
    assert got["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert got["r2"] == pytest.approx(1 - np.mean((y - mean) ** 2) / np.var(y))
    assert got["mae"] == pytest.approx(np.mean(np.abs(y - mean)))
    assert got["log_density"] == pytest.approx(stats.norm(mean, sd).logpdf(y).mean())
    for level, key in ((0.5, "cover50"), (0.9, "cover90")):
        low, high = stats.norm(mean, sd).interval(level)
        assert got[key] == pytest.approx(np.mean((y >= low) & (y <= high)))
    z = (y - mean) / sd  # Gneiting and Raftery (2007), section 4.2
    crps = sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert got["crps"] == pytest.approx(crps.mean(), rel=1e-6)


def test_class_scores_by_definition(rng):
    p = rng.dirichlet((1, 1, 1), size=200)
    label = rng.integers(3, size=200)
    got = by_key(class_scores(np.log(p), label))
    right = p.argmax(1) == label
    del got["ece"]
    assert got == pytest.approx({
        "accuracy": right.mean(), "balanced": np.mean([right[label == c].mean() for c in range(3)]),
        "log_loss": metrics.log_loss(label, p), "brier": np.mean(((p - np.eye(3)[label]) ** 2).sum(1)),
        "auc": metrics.roc_auc_score(label, p, multi_class="ovr"),
    })  # fmt: skip
    assert "auc" not in by_key(class_scores(np.log(p), np.zeros(200, int)))  # needs every class
    two = by_key(class_scores(np.log(p[:, :2] / p[:, :2].sum(1, keepdims=True)), label % 2))
    assert {"auc", "average_precision"} <= set(two)


def test_threshold_scores_by_counting():
    got = by_key(scores.threshold_scores(np.array([0.9, 0.8, 0.3, 0.1]), np.array([1, 0, 1, 0]), 0.5))
    assert [got[k] for k in ("accuracy", "balanced", "precision", "recall", "f1")] == [0.5] * 5
    none = by_key(scores.threshold_scores(np.array([0.1, 0.2]), np.array([0, 0]), 0.5))
    assert (none["accuracy"], none["precision"], none["f1"]) == (1.0, 0.0, 0.0)


def test_calibration_error_by_hand():
    confidence = np.array([0.55, 0.58, 0.95, 0.97, 1.0])
    right = np.array([True, False, True, True, False])
    # bins of width 0.1: two rows with accuracy 0.5, three with accuracy 2/3
    expected = (2 * abs(0.5 - 0.565) + 3 * abs(2 / 3 - (0.95 + 0.97 + 1) / 3)) / 5
    assert calibration_error(confidence, right, bins=10) == pytest.approx(expected)


def test_coverage_and_width_of_a_normal():
    y = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    dist = GaussianMixture(np.zeros((1, 1000)), np.ones((1, 1000)))
    for level, inside, width in coverage(dist, y):
        assert inside == pytest.approx(level, abs=1.1e-3)
        assert width == pytest.approx(2 * stats.norm.ppf(0.5 + level / 2), rel=1e-6)


def standardised_model(**settings):
    fitted = SimpleNamespace(scales=SimpleNamespace(x=Columns(MEAN, SCALE)))
    return SimpleNamespace(fitted_=fitted, get_params=lambda deep: settings)


def rows(N, seed=0):
    return MEAN + SCALE * np.random.default_rng(seed).standard_normal((N, 3))


@pytest.mark.parametrize("N", [1, 5, 50, 5000])
def test_rows_like_the_training_rows_give_no_warning(N):
    assert not any(drift_warnings(standardised_model(), rows(N, seed), NAMES) for seed in range(100))


def test_drift_warnings_name_shifted_columns_and_count_extreme_rows():
    model, X = standardised_model(), rows(400)
    X[:, 2] += 0.1
    (text,) = drift_warnings(model, X, NAMES)
    assert text.startswith("1 of 3 inputs have other means than in training, in standard deviations: c by +1")
    assert drift_warnings(standardised_model(class_weight="balanced"), X, NAMES) == []
    assert drift_warnings(model, sparse.csr_matrix(X + 100), NAMES) == []
    assert drift_warnings(model, X[:0], NAMES) == []
    X[:, 2] -= 0.07  # a third of a standard deviation is too small to report
    assert drift_warnings(model, X, NAMES) == []
    X[:8, 1] = 1e3
    assert drift_warnings(model, X, NAMES) == [
        "8 of 400 rows have a value more than ten standard deviations from the mean"
    ]


def test_score_warnings_need_a_large_difference_and_enough_rows():
    for new, known, count in ((-3.0, None, 100), (-3.0, -2.8, 100), (-4.0, -2.8, 10)):
        assert scores.score_warnings(new, known, count) == []
    assert "-4.00 and -2.80 nats per row" in scores.score_warnings(-4.0, -2.8, 100)[0]


class Known(RegressorMixin, BaseEstimator):
    """A model with mean 5 x0 + x1 x2 and standard deviation 2; the last column has no effect."""

    n_features_in_ = 4
    table_ = None

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y):
        return self

    def predict(self, X):
        return 5 * X[:, 0] + X[:, 1] * X[:, 2]

    def predict_dist(self, X):
        return GaussianMixture(self.predict(X)[None], np.full((1, len(X)), 4.0))


class KnownClasses(ClassifierMixin, Known):
    classes_ = np.array(["a", "b", "c"])


@pytest.fixture
def case(rng):
    X = rng.normal(size=(30, 4))
    X[:, 3] = X[:, 3] > 0
    return examine(Known(), X, X[:, 0])


def test_features_are_ranked_by_the_range_of_their_effect(case):
    order = rank_features(case)
    assert [feature.name for feature, _ in (order[0], order[-1])] == ["x1", "x4"]
    low, high = np.quantile(case.X[:, 0], (0.05, 0.95))
    assert order[0][1] == pytest.approx(5 * (high - low))
    assert order[-1][1] == 0


def test_effects_are_averages_over_rows_with_intervals(case):
    first, second, last = effects(case, [Feature(f"x{j + 1}", (j,)) for j in (0, 1, 3)], 0.8)
    others = np.mean(case.X[:, 1] * case.X[:, 2])
    assert first.mean[:, 0] == pytest.approx(5 * first.at.place + others)
    half = 2 * stats.norm.ppf(0.9)
    for width in (first.upper - first.mean, first.mean - first.lower):
        assert width == pytest.approx(np.full((13, 1), half), rel=1e-6)
    assert second.mean[:, 0] == pytest.approx(5 * case.X[:, 0].mean() + second.at.place * case.X[:, 2].mean())
    assert (last.at.discrete, last.at.place.tolist()) == (True, [0.0, 1.0])


def test_a_category_is_one_feature_with_exclusive_levels(rng):
    X = np.zeros((30, 4))
    X[np.arange(30), rng.integers(3, size=30)] = 1  # columns 0, 1 and 2 are levels
    X[:, 3] = rng.normal(size=30)
    case = examine(Known(), X, X[:, 3], groups={"kind": {"a": 0, "b": 1, "c": 2}})
    (kind,) = [feature for feature, _ in rank_features(case) if feature.levels]
    (effect,) = effects(case, [kind], 0.9)
    assert (kind.name, effect.at.labels) == ("kind", ("a", "b", "c"))
    assert effect.mean[:, 0] == pytest.approx([5.0, 0.0, 0.0])  # x1 x2 = 0, as the levels are exclusive


def test_columns_that_encode_one_column_change_together(rng):
    """Set x0 with x1 x2 of the nearest row that is not missing; x3 marks missing values of x0."""
    X = rng.normal(size=(200, 4))
    X[:, 1], X[:, 2], X[:, 3] = X[:, 0] > 0, 3.0, np.arange(200) < 50
    X[:50, :3] = 0, 7, 7
    names = ["size", "size: rank", "size: target", "size is missing"]
    case = examine(Known(), X, X[:, 0], feature_names=names, parts={"size": [0, 1, 2, 3]})
    ((feature, _),) = rank_features(case)
    assert feature == Feature("size", (0, 1, 2, 3), (), "size")
    (effect,) = effects(case, [feature], 0.9)
    inside = np.abs(effect.at.place) > 0.1
    want = 5 * effect.at.place + 3.0 * (effect.at.place > 0)
    assert effect.mean[inside, 0] == pytest.approx(want[inside])
    assert importances(case, [feature]).names == ("size",)
    for name, places in (("groups", {"a": 7}), ("parts", [7])):
        with pytest.raises(
            ValueError, match=rf"`{name}\['size'\]` must be column numbers below 4; got \[7\]"
        ):
            examine(Known(), X, X[:, 3], **{name: {"size": places}})


def test_only_estimators_are_accepted():
    other = SimpleNamespace(fit=None, __sklearn_is_fitted__=lambda: True)
    with pytest.raises(TypeError, match="`model` must be a TGGMRegressor or a TGGMClassifier; got Simple"):
        examine(other, np.zeros((2, 1)), np.zeros(2))


def test_without_training_rows_the_naive_baseline_is_fitted_to_the_evaluated_rows():
    case = examine(Known(), np.zeros((3, 4)), [1.0, 2.0, 6.0])
    assert baselines_of(case).naive == pytest.approx([3.0, 7.0])
    assert baselines_of(case).coef is None
    assert list(score_all(case)) == ["this model", "naive"]
    counted = examine(KnownClasses(), np.zeros((3, 4)), np.array(["a", "a", "c"]))
    assert np.exp(baselines_of(counted).naive) == pytest.approx([3 / 6, 1 / 6, 2 / 6])  # counts plus one


def test_verdicts_need_two_standard_errors(rng):
    noise = rng.normal(size=100)
    for gain, text in (
        (1, "better than the linear"),
        (-1, "Prefer the simpler one"),
        (0, "No clear difference"),
    ):
        ours = Scored([], noise - noise.mean() + gain)
        assert text in verdict({"this model": ours, "linear": Scored([], np.zeros(100))}, "linear")
    assert "are calibrated" in coverage_verdict(0.9, 0.87, 100)  # two standard errors are 0.06
    assert "too narrow: only 80 %" in coverage_verdict(0.9, 0.8, 100)
    assert "wider than necessary: 99 %" in coverage_verdict(0.9, 0.99, 100)
    for count, text in ((90, "are calibrated"), (70, "overconfident"), (100, "underconfident")):
        assert text in confidence_verdict(np.full(100, 0.9), np.arange(100) < count)


def test_long_tick_labels_do_not_touch():
    kept = []

    def draw(ax):
        ax.plot([10_000_000, 94_000_000], [0, 1])
        ax.ticklabel_format(style="plain")
        kept.append(ax)

    picture(draw, "p", "a", 3.0)
    boxes = [label.get_window_extent() for label in kept[0].get_xticklabels() if label.get_text()]
    shown = sorted((box.x0, box.x1) for box in boxes)
    assert len(shown) > 2
    assert all(left[1] < right[0] for left, right in pairwise(shown))


def test_arrow_heads_are_outside_their_boxes():
    with mpl.rc_context({"font.size": 10}):
        figure = Figure(figsize=(4.7, 1.7), layout="constrained")
        ax = figure.add_subplot()
        graph = Graph().input("x", 100).latent("h", 100).observed("y", 1)
        plot_graph(graph.connect("x", "h").connect("h", "y"), ax=ax)
        figure.canvas.draw()
        boxes = [text.get_bbox_patch().get_window_extent() for text in ax.texts]
        for arrow in ax.patches:
            ends = arrow.get_path().transformed(arrow.get_transform()).vertices
            right = ends[ends[:, 0].argmax()]
            assert not any(box.padded(-1).contains(*right) for box in boxes)


def test_a_column_of_numbers_and_gaps_is_numeric():
    gap = Cell("")
    assert numeric_columns([[number(1), number(2), Cell("x")], [number(2), gap, gap]]) == [True, True, False]


def test_reliability_diagrams_allow_probabilities_at_the_edges_of_bins():
    """Let all rows of a bin be at its edge, where the bars must count the same rows as the points."""
    model, p = KnownClasses(), [[0.6, 0.2, 0.2], [0.8, 0.1, 0.1], [0.2, 0.4, 0.4], [1, 0.0, 0.0]]
    model.predict_log_proba = lambda X: np.log(p)
    with np.errstate(divide="ignore"):
        found = class_calibration(examine(model, np.zeros((4, 4)), np.array(["a", "a", "c", "a"])))
    assert "<svg" in found["figure"]
