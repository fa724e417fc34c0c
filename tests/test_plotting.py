"""Plots draw the right numbers and change no global settings."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from scipy import stats

from tggm.explanation import Importances
from tggm.plotting import plot_calibration, plot_fan, plot_importances, plot_predicted


class Gaussian:
    """The part of the predictive interface that plots use, on SciPy."""

    def __init__(self, mean, std):
        law = stats.norm(mean, std)
        self.mean, self.pit, self.ppf, self.interval = law.mean, law.cdf, law.ppf, law.interval


@pytest.fixture
def ax():
    return Figure().add_subplot()


def line(ax, label):
    (found,) = [line for line in ax.get_lines() if line.get_label().startswith(label)]
    return found


def band(collection):
    """Return lower and upper edge of a filled region by abscissa."""
    x, y = collection.get_paths()[0].vertices.T
    return {float(v): (float(y[x == v].min()), float(y[x == v].max())) for v in np.unique(x)}


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


def test_calibration_draws_coverage_by_counting(ax, rng):
    y = rng.normal(size=200)
    dist = Gaussian(np.zeros(200), np.full(200, 0.5))
    assert plot_calibration(dist, y, ax=ax) is ax
    level, coverage = line(ax, "observed").get_data()
    for p, c in zip(level[1:-1:20], coverage[1:-1:20], strict=True):
        lower, upper = dist.interval(p)
        assert_allclose(c, np.mean((lower <= y) & (y <= upper)))
    assert coverage[50] < 0.4  # intervals are half as wide as they should be


def test_predicted_marks_the_rows_that_are_missed(ax):
    y = np.array([0.0, 1.0, 5.0])
    plot_predicted(Gaussian(np.array([0.1, 0.9, 2.0]), 1.0), y, level=0.9, ax=ax)
    assert line(ax, "90 % interval").get_xydata().tolist() == [[0.0, 0.1], [1.0, 0.9]]
    assert line(ax, "interval misses y (33.3 %)").get_xydata().tolist() == [[5.0, 2.0]]


def test_errors_name_the_argument(ax):
    dist = Gaussian(np.zeros(3), 1.0)
    with pytest.raises(ValueError, match="`dist` must have 2 values, one for each row; got 3"):
        plot_predicted(dist, [0.0, 1.0], ax=ax)
    with pytest.raises(ValueError, match=r"`y` must have one value per row; got shape \(3, 2\)"):
        plot_calibration(dist, np.zeros((3, 2)), ax=ax)
    with pytest.raises(ValueError, match="`y` is empty"):
        plot_calibration(dist, [], ax=ax)


def test_a_new_figure_is_made_by_default_and_settings_do_not_change():
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    before = dict(mpl.rcParams)
    made = plot_importances(Importances(np.ones(2), np.ones(2), ("a", "b")))
    assert made.figure in [pyplot.figure(number) for number in pyplot.get_fignums()]
    assert dict(mpl.rcParams) == before
    pyplot.close(made.figure)


def test_importances_are_drawn_largest_first():
    found = Importances(np.array([0.1, 0.5]), np.array([0.01, 0.02]), ("small", "large"))
    ax = plot_importances(found)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["large", "small"]
