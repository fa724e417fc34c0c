"""Pictures: the numbers drawn are the numbers asked for, and nothing global changes."""

from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from scipy import stats

from tggm.plotting import (
    plot_activation,
    plot_calibration,
    plot_explanation,
    plot_fan,
    plot_importances,
    plot_learning_curve,
    plot_pit,
    plot_predicted,
)


class Gaussian:
    """The part of the predictive interface that pictures use, on scipy."""

    def __init__(self, mean, std):
        self.law = stats.norm(mean, std)

    def mean(self):
        return self.law.mean()

    def std(self):
        return self.law.std()

    def cdf(self, y):
        return self.law.cdf(y)

    def ppf(self, q):
        return self.law.ppf(q)

    def interval(self, level):
        return self.law.interval(level)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def line(ax, label):
    (found,) = [line for line in ax.get_lines() if line.get_label().startswith(label)]
    return found


def band(collection):
    """Lower and upper edge of a filled region, at its own abscissae."""
    x, y = collection.get_paths()[0].vertices.T
    return {float(v): (float(y[x == v].min()), float(y[x == v].max())) for v in np.unique(x)}


def test_activation_draws_the_mean_of_a_truncated_normal(ax):
    assert plot_activation((0.5, 2.0), limits=(-2, 3), ax=ax) is ax
    for sigma in (0.5, 2.0):
        mu, g = line(ax, f"σ = {sigma:g}").get_data()
        assert_allclose(g, stats.truncnorm.mean(-mu / sigma, np.inf, mu, sigma), rtol=1e-6)
    mu, relu = line(ax, "max").get_data()
    assert_allclose(relu, np.where(mu > 0, mu, 0))


def test_fan_draws_nested_intervals_in_the_order_of_x(ax, rng):
    x = rng.permutation(np.linspace(0, 1, 20))
    dist = Gaussian(x**2, 1 + x)
    assert plot_fan(dist, x, levels=(0.5, 0.9), data=([0.5], [0.0]), ax=ax) is ax
    for collection, level in zip(ax.collections, (0.9, 0.5), strict=True):  # widest first, narrower on top
        z = stats.norm.ppf(0.5 + level / 2)
        for at, (lower, upper) in band(collection).items():
            assert_allclose([lower, upper], [at**2 - z * (1 + at), at**2 + z * (1 + at)], atol=1e-12)
    drawn, median = line(ax, "median").get_data()
    assert_allclose(drawn, np.sort(x))
    assert_allclose(median, drawn**2, atol=1e-12)
    assert line(ax, "data").get_xydata().tolist() == [[0.5, 0.0]]


def test_fan_of_a_model_moves_one_feature_and_holds_the_others(ax):
    model = SimpleNamespace(n_features_in_=2, predict_dist=lambda X: Gaussian(X[:, 0] + 10 * X[:, 1], 1))
    x = np.linspace(0, 1, 5)
    plot_fan(model, x, feature=1, at=[7.0, 99.0], ax=ax)
    assert_allclose(line(ax, "mean").get_ydata(), 7 + 10 * x)
    with pytest.raises(ValueError, match="has 2 features: pass `at`"):
        plot_fan(model, x, ax=ax)
    with pytest.raises(ValueError, match="`feature` must be a column number below 2; got 2"):
        plot_fan(model, x, feature=2, at=[0, 0], ax=ax)


def test_fan_of_a_model_fitted_on_a_table_gives_it_a_table(ax):
    model = SimpleNamespace(
        n_features_in_=1,
        feature_names_in_=np.array(["age"]),
        predict_dist=lambda X: Gaussian(X["age"].to_numpy(), 1),
    )
    plot_fan(model, [0.0, 1.0], ax=ax)
    assert ax.get_xlabel() == "age"
    assert line(ax, "mean").get_ydata().tolist() == [0.0, 1.0]


def test_calibration_draws_coverage_by_counting(ax, rng):
    y = rng.normal(size=200)
    dist = Gaussian(np.zeros(200), np.full(200, 0.5))
    assert plot_calibration(dist, y, ax=ax) is ax
    level, coverage = line(ax, "observed").get_data()
    for p, c in zip(level[1:-1:20], coverage[1:-1:20], strict=True):
        lower, upper = dist.interval(p)
        assert_allclose(c, np.mean((lower <= y) & (y <= upper)))
    assert coverage[50] < 0.4  # half as wide as it should be: too sure


def test_calibration_band_holds_a_calibrated_model(ax, rng):
    """The band is drawn for single levels at 95 %: of 19 levels rarely more than a few fall outside."""
    plot_calibration(Gaussian(np.zeros(1000), 1.0), rng.normal(size=1000), ax=ax)
    edges = band(ax.collections[0])
    level, coverage = line(ax, "observed").get_data()
    inside = [edges[p][0] <= c <= edges[p][1] for p, c in zip(level[5:96:5], coverage[5:96:5], strict=True)]
    assert np.mean(inside) > 0.8
    assert_allclose(edges[0.5], stats.binom.interval(0.95, 1000, 0.5) / np.array(1000.0))


def test_pit_histogram_is_a_density_of_the_cdf(ax, rng):
    y = rng.normal(size=100)
    plot_pit(Gaussian(np.zeros(100), 1.0), y, bins=4, ax=ax)
    heights = [bar.get_height() for bar in ax.patches if bar.get_width() == 0.25]
    quarters = np.digitize(y, stats.norm.ppf([0.25, 0.5, 0.75]))
    assert_allclose(heights, np.bincount(quarters, minlength=4) / 25)


def test_predicted_marks_the_rows_that_are_missed(ax):
    y = np.array([0.0, 1.0, 5.0])
    plot_predicted(Gaussian(np.array([0.1, 0.9, 2.0]), 1.0), y, level=0.9, ax=ax)
    assert line(ax, "90 % interval").get_xydata().tolist() == [[0.0, 0.1], [1.0, 0.9]]
    assert line(ax, "misses y (33.3 %)").get_xydata().tolist() == [[5.0, 2.0]]


def test_learning_curve_draws_each_name_and_the_median_of_members(ax):
    history = {"training": [3.0, 2.0, 1.0], "validation": np.array([[1, 2, 1], [5, 2, 1], [2, 9, 1]])}
    plot_learning_curve(history, best=[2, 3, 3], ax=ax)
    assert line(ax, "training").get_xydata().tolist() == [[1, 3], [2, 2], [3, 1]]
    assert line(ax, "validation").get_ydata().tolist() == [2, 2, 1]
    assert [mark.get_xdata() for mark in ax.get_lines()[-3:]] == [[2, 2], [3, 3], [3, 3]]
    assert line(ax, "kept").get_xdata() == [2, 2]
    plot_learning_curve({"epoch": [10, 20], "bound": [0.0, 1.0]}, ax=ax)
    assert line(ax, "bound").get_xdata().tolist() == [10, 20]


def test_bad_input_is_named(ax):
    dist = Gaussian(np.zeros(3), 1.0)
    with pytest.raises(ValueError, match="`dist` must have 2 values, one for each row; got 3"):
        plot_predicted(dist, [0.0, 1.0], ax=ax)
    with pytest.raises(ValueError, match=r"`y` must have one value a row; got shape \(3, 2\)"):
        plot_calibration(dist, np.zeros((3, 2)), ax=ax)
    with pytest.raises(ValueError, match="`y` is empty"):
        plot_pit(dist, [], ax=ax)
    with pytest.raises(ValueError, match="`levels` must be probabilities between 0 and 1; got 90"):
        plot_predicted(dist, np.zeros(3), level=90, ax=ax)
    with pytest.raises(ValueError, match="`sigmas` must be positive"):
        plot_activation((0.0,), ax=ax)
    with pytest.raises(ValueError, match="`history` has no curve"):
        plot_learning_curve({}, ax=ax)


def test_a_new_figure_is_made_when_none_is_given_and_settings_stay(monkeypatch):
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    before = dict(mpl.rcParams)
    made = plot_learning_curve([1.0, 2.0])
    assert made.figure in [pyplot.figure(number) for number in pyplot.get_fignums()]
    assert dict(mpl.rcParams) == before
    pyplot.close(made.figure)


def test_explanations_are_drawn_from_the_base_to_the_prediction():
    from tggm.explanation import Explanation

    found = Explanation(np.float64(2.0), np.array([[1.0, -0.5, 0.25]]), ("a", "b", "c"))
    ax = plot_explanation(found, most=2)
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert_allclose(bars, [(2.0, 1.0), (3.0, -0.5), (2.5, 0.25)])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "1 others"]
    several = Explanation(np.array([0.0, 1.0]), np.array([[[0.0, 3.0], [0.0, -1.0]]]), ("a", "b"))
    ax = plot_explanation(several, output=1)
    assert_allclose([bar.get_width() for bar in ax.patches], [3.0, -1.0])


def test_importances_are_drawn_largest_first():
    from tggm.explanation import Importances

    found = Importances(np.array([0.1, 0.5]), np.array([0.01, 0.02]), ("small", "large"))
    ax = plot_importances(found, xlabel="loss")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["large", "small"]
    assert ax.get_xlabel() == "loss"
