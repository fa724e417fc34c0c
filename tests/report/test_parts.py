"""Scores, warnings, effects, baselines and sentences of a report, against definitions written out."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import sparse, stats
from sklearn import metrics

from tggm import TGGMClassifier, TGGMRegressor
from tggm.data.standardise import Columns
from tggm.predictive.gaussian_mixture import GaussianMixture
from tggm.report import scores as module
from tggm.report._case import Case, Feature, examine
from tggm.report._effects import effect, plot_effect
from tggm.report._page import Cell, number, numeric_columns, picture
from tggm.report._sections import confidence_verdict, coverage_verdict, effect_plots, verdict
from tggm.report.scores import shown
from tggm.tables.baselines import calibration_error, positive_class, scores

NAMES = ("a", "b", "c")
MEAN, SCALE = np.array([1.0, -2.0, 5.0]), np.array([2.0, 1.0, 0.1])


def test_regression_scores_of_a_normal(rng):
    mean, sd = rng.normal(size=300), 0.7
    y = mean + rng.normal(size=300)
    got = scores(GaussianMixture(mean[None], np.full((1, 300), sd**2)), y)
    assert got["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert got["r2"] == pytest.approx(1 - np.mean((y - mean) ** 2) / np.var(y))
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
    got = scores(np.log(p), label)
    right = p.argmax(1) == label
    del got["ece"]
    assert got == pytest.approx({
        "accuracy": right.mean(), "balanced": np.mean([right[label == c].mean() for c in range(3)]),
        "log_loss": metrics.log_loss(label, p),
        "auc": metrics.roc_auc_score(label, p, multi_class="ovr"),
    })  # fmt: skip
    assert "auc" not in scores(np.log(p), np.zeros(200, int))  # needs every class
    two = scores(np.log(p[:, :2] / p[:, :2].sum(1, keepdims=True)), label % 2)
    assert {"auc", "average_precision"} <= set(two)


def test_threshold_scores_by_counting():
    def of(second, label):
        return scores(np.log(np.column_stack([1 - second, second])), label, 0.5)

    got = of(np.array([0.9, 0.8, 0.3, 0.1]), np.array([1, 0, 1, 0]))
    assert [got[k] for k in ("accuracy", "balanced", "precision", "recall", "f1")] == [0.5] * 5
    none = of(np.array([0.1, 0.2]), np.array([0, 0]))
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
    for level, inside, width in module.coverage(dist, y):
        assert inside == pytest.approx(level, abs=1.1e-3)
        assert width == pytest.approx(2 * stats.norm.ppf(0.5 + level / 2), rel=1e-6)


def standardised_model(*, novelty=0.0, **settings):
    around = SimpleNamespace(novelty=lambda Z: np.full(len(Z), novelty))
    fitted = SimpleNamespace(scales=SimpleNamespace(x=Columns(MEAN, SCALE)), neighbourhood=around)
    return SimpleNamespace(fitted_=fitted, get_params=lambda deep: settings)


def rows(N, seed=0):
    return MEAN + SCALE * np.random.default_rng(seed).standard_normal((N, 3))


@pytest.mark.parametrize("N", [1, 5, 50, 5000])
def test_rows_like_the_training_rows_give_no_warning(N):
    assert not any(module.drift_warnings(standardised_model(), rows(N, seed), NAMES) for seed in range(100))


def test_drift_warnings_count_rows_beyond_the_training_rows():
    (text,) = module.drift_warnings(standardised_model(novelty=3.0), rows(50), NAMES)
    assert "50 of 50 rows are unlike the training rows (novelty above 2), so that their predictions" in text
    assert not module.drift_warnings(standardised_model(novelty=3.0), rows(1), NAMES)


def test_drift_warnings_name_shifted_columns_and_count_extreme_rows():
    model, X = standardised_model(), rows(400)
    X[:, 2] += 0.1
    (text,) = module.drift_warnings(model, X, NAMES)
    assert text.startswith("c: values are higher than in training (by 1.0 standard deviations)")
    assert "c: values are later than" in module.drift_warnings(model, X, ["a", "b", "c: years"])[0]
    assert "c: more rows have 'd' than" in module.drift_warnings(model, X, ["a", "b", "c = d"])[0]
    assert "c: more values are missing" in module.drift_warnings(model, X, ["a", "b", "c is missing"])[0]
    assert module.drift_warnings(model, X, ["a", "b", "c: rows"]) == []
    assert module.drift_warnings(standardised_model(class_weight="balanced"), X, NAMES) == []
    X[:, 2] -= 0.07  # a third of a standard deviation is too small to report
    assert module.drift_warnings(model, X, NAMES) == []
    X[:8, 1] = 1e3
    message = (
        "8 of 400 rows have a value more than ten standard deviations from the mean of the training rows; "
    )
    assert module.drift_warnings(model, X, NAMES) == [message + module.REMEDY]
    assert module.drift_warnings(model, X, ["a", "b = rare word", "c"]) == []


def test_scores_are_shown_with_their_digits_and_classes():
    assert [shown("r2", value) for value in (0.6464, -0.0002669)] == ["0.646", "0.000"]
    assert module.title("average_precision", "fraud") == "average precision of class fraud"
    text = module.figures_table({"model": {"rmse": 1.5, "r2": 0.6464}})
    assert text.endswith("(lower is better: RMSE; higher is better: R²)")
    wide = {"model": dict.fromkeys(module.MEASURES, 0.5)}  # too wide for lines
    lines = module.figures_table(wide, "fraud").splitlines()
    assert (lines[0].split(), lines[1].split()[0]) == (["this", "model"], "RMSE")


def test_groups_are_labels_parts_of_numbers_and_others(rng):
    inside, size = rng.integers(2, size=100), rng.uniform(size=100)
    number = np.append(np.arange(96.0), [np.nan] * 4)
    found = module.group_rows(number, inside, size)
    assert [(name, rows) for name, rows, *_ in found[:1] + found[-2:]] == [
        ("up to 23.75", 24), ("above 71.25", 24), ("missing", 4)]  # fmt: skip
    assert type(found[0][0]) is str  # as table cells need
    assert found[0][2:] == pytest.approx((inside[:24].mean(), size[:24].mean()))
    words = np.array([None, *["a"] * 50, *[f"w{k % 20}" for k in range(49)]], dtype=object)
    names = [name for name, *_ in module.group_rows(words, inside, size)]
    assert (names[0], names[-1], len(names)) == ("a", "others", 12)
    log_p = np.log(np.column_stack([size, 1 - size]))
    ((name, rows, right, mean),) = module.by_group(log_p, inside, np.ones(100))["group"]
    assert (name, rows) == ("1.0", 100)
    want = np.mean((size < 0.5) == inside), np.maximum(size, 1 - size).mean()
    assert (right, mean) == pytest.approx(want)


def test_the_positive_class_is_the_rarer_one_or_given(rng):
    p = rng.uniform(size=200)
    label = (rng.uniform(size=200) < p).astype(int)
    log_p = np.log(np.column_stack([1 - p, p]))
    for positive in (0, 1):
        got = scores(log_p, label, 0.3, positive)
        chance = p if positive else 1 - p
        want = metrics.average_precision_score(label == positive, chance)
        assert got["average_precision"] == pytest.approx(want)
        assert got["recall"] == pytest.approx((chance >= 0.3)[label == positive].mean())
    assert positive_class("ab", np.array(list("abb"))) == 0
    assert positive_class("ab", np.array(list("aab"))) == 1
    assert positive_class([1, 2], np.array([1, 1, 2]), "1") == 0
    assert positive_class("abc", np.array(list("abc"))) is None
    with pytest.raises(ValueError, match="a positive class is for targets of two classes; leave it out"):
        positive_class("abc", np.array(list("abc")), "a")


class Known(TGGMRegressor):
    """A model with mean 5 x0 + x1 x2 and standard deviation 2; the last column has no effect."""

    def predict(self, X):
        return 5 * X[:, 0] + X[:, 1] * X[:, 2]

    def predict_dist(self, X):
        return GaussianMixture(self.predict(X)[None], np.full((1, len(X)), 4.0))


def case(X, y, features):
    """Return a case of arrays; numbers of rows, names and baselines do not matter."""
    names, model = [f"x{j}" for j in range(X.shape[1])], Known()
    return Case(model, model, X, X, np.asarray(y), np.arange(len(X)), len(X), "y", features, names, None)


def test_effects_are_averages_over_rows_with_intervals(rng):
    X = rng.normal(size=(30, 4))
    X[:, 3] = X[:, 3] > 0
    given = case(X, X[:, 0], ())
    first, second, last = (effect(given, Feature(f"x{j}", (j,)), 0.8) for j in (0, 1, 3))
    assert first.mean[:, 0] == pytest.approx(5 * first.place + np.mean(X[:, 1] * X[:, 2]))
    half = 2 * stats.norm.ppf(0.9)
    for width in (first.upper - first.mean, first.mean - first.lower):
        assert width == pytest.approx(np.full((13, 1), half), rel=1e-6)
    assert second.mean[:, 0] == pytest.approx(5 * X[:, 0].mean() + second.place * X[:, 2].mean())
    assert (last.discrete, last.place.tolist()) == (True, [0.0, 1.0])


def test_a_category_is_one_feature_with_exclusive_levels(rng):
    X = np.zeros((30, 4))
    X[np.arange(30), rng.integers(3, size=30)] = 1  # columns 0, 1 and 2 are levels
    X[:, 3] = rng.normal(size=30)
    found = effect(case(X, X[:, 3], ()), Feature("kind", (0, 1, 2), ("a", "b", "c")), 0.9)
    assert found.labels == ("a", "b", "c")
    assert found.mean[:, 0] == pytest.approx([5.0, 0.0, 0.0])  # x1 x2 = 0, as the levels are exclusive


def test_columns_that_encode_one_column_change_together(rng):
    """Set x0 with x1 x2 of the nearest row that is not missing; x3 marks missing values of x0."""
    X = rng.normal(size=(200, 4))
    X[:, 1], X[:, 2], X[:, 3] = X[:, 0] > 0, 3.0, np.arange(200) < 50
    X[:50, :3] = 0, 7, 7
    given = case(X, X[:, 0], ())
    given.names[3] = "size is missing"
    found = effect(given, Feature("size", (0, 1, 2, 3)), 0.9)
    inside = np.abs(found.place) > 0.1
    want = 5 * found.place + 3.0 * (found.place > 0)
    assert found.mean[inside, 0] == pytest.approx(want[inside])


def test_captions_of_effects_name_the_positive_class_and_the_input(rng):
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, 60), unit="D")
    frame = pd.DataFrame({"a" * 40: rng.normal(size=60), "sold": days})
    y = np.where(rng.random(60) < 0.3, "b", "a")  # the classes' averages move by the same amount
    model = TGGMClassifier(hidden=(4, 3), n_members=1, max_epochs=1).fit(frame, y)
    found = examine(model, frame, y, "y", None, None)
    for _, caption in (plots := effect_plots(found, list(found.features), 0.9)):
        assert "probability of b between" in caption
    assert plots[1][1].startswith("sold: years: probability")
    ax = Figure().add_subplot()
    plot_effect(found, effect(found, found.features[0], 0.9), ax)
    assert "…" in ax.get_xlabel()


def test_the_inputs_of_a_column_of_a_table_are_one_feature(rng):
    frame = pd.DataFrame({"size": rng.normal(size=60), "kind": rng.choice(["a", "b"], 60)})
    frame.loc[::9, "size"] = np.nan
    y = (frame["kind"] == "a").to_numpy(float) + rng.normal(size=60)
    model = TGGMRegressor(hidden=(4, 3), n_members=1, max_epochs=1).fit(frame, y)
    found = examine(model, frame, y, "y", (frame, y), None)
    assert found.features == (Feature("size", (0, 1)), Feature("kind", (2, 3), ("a", "b")))
    assert found.names == ["size", "size is missing", "kind = a", "kind = b"]
    assert list(found.predictions) == ["model", "linear", "naive"]
    by_place = examine(model, frame.to_numpy(), y, "y", None, None)
    np.testing.assert_array_equal(by_place.X, found.X)


def test_only_dense_rows_of_estimators_are_accepted():
    other = SimpleNamespace(fit=None, __sklearn_is_fitted__=lambda: True)
    with pytest.raises(TypeError, match="`model` must be a TGGMRegressor or a TGGMClassifier; got Simple"):
        examine(other, np.zeros((2, 1)), np.zeros(2), "y", None, None)
    model = TGGMRegressor(hidden=(4, 3), n_members=1, max_epochs=1).fit(np.eye(9), np.arange(9.0))
    with pytest.raises(TypeError, match=r"`X` must be dense; pass X.toarray\(\)"):
        examine(model, sparse.eye(9), np.arange(9.0), "y", None, None)


def test_verdicts_need_two_standard_errors(rng):
    noise = rng.normal(size=100)
    for gain, text in (
        (1, "better than the linear"),
        (-1, "Use the simpler one"),
        (0, "No clear difference"),
    ):
        assert text in verdict(noise - noise.mean() + gain, "linear")
    assert "are calibrated" in coverage_verdict(0.9, 0.87, 100)  # two standard errors are 0.06
    assert "too narrow: only 80 %" in coverage_verdict(0.9, 0.8, 100)
    assert "wider than necessary: 99 %" in coverage_verdict(0.9, 0.99, 100)
    for count, text in ((90, "are calibrated"), (70, "(`n_members`)"), (100, "underconfident")):
        assert text in confidence_verdict(np.full(100, 0.9), np.arange(100) < count)


def test_long_tick_labels_do_not_touch():
    kept = []

    def draw(ax):
        ax.plot([10_000_000, 94_000_000], [0, 1])
        ax.ticklabel_format(style="plain")
        kept.append(ax)

    picture(draw, "a", 3.0)
    boxes = [label.get_window_extent() for label in kept[0].get_xticklabels() if label.get_text()]
    shown = sorted((box.x0, box.x1) for box in boxes)
    assert len(shown) > 2
    assert all(left[1] < right[0] for left, right in pairwise(shown))


def test_a_column_of_numbers_and_gaps_is_numeric():
    gap = Cell("")
    assert numeric_columns([[number(1), number(2), Cell("x")], [number(2), gap, gap]]) == [True, True, False]
