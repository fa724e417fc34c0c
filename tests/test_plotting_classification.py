"""Pictures of classifiers: the numbers drawn are the numbers asked for."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from scipy import stats

from tggm.plotting import plot_confusion, plot_decision_regions, plot_reliability


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_reliability_draws_accuracy_against_confidence(ax):
    p = np.array([[0.75, 0.25]] * 4 + [[0.05, 0.95]] * 2)
    y = np.array(["a", "a", "a", "b", "b", "b"])
    assert plot_reliability(p, y, classes=["a", "b"], bins=10, ax=ax) is ax
    (curve,) = [line for line in ax.get_lines() if line.get_label().startswith("ECE")]
    assert_allclose(curve.get_xydata(), [[0.75, 0.75], [0.95, 1.0]])
    assert curve.get_label() == f"ECE {2 * 0.05 / 6:.4f}"
    (bars,) = ax.collections
    low, high = stats.binom.interval(0.95, 4, 0.75)
    assert_allclose(bars.get_segments()[0], [[0.75, low / 4], [0.75, high / 4]])


def test_confusion_draws_shares_of_true_classes(ax):
    plot_confusion(["a", "a", "b", "b"], ["a", "a", "a", "b"], ax=ax)
    texts = {(t.get_position()): t.get_text() for t in ax.texts}
    assert texts == {(0, 0): "66.7", (1, 0): "33.3", (1, 1): "100.0"}
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert_allclose(ax.images[0].get_array(), np.sqrt([[2 / 3, 1 / 3], [0, 1]]))


def test_decision_regions_are_pale_where_unsure(ax):
    def predict_proba(X):
        right = np.where(X[:, 0] > 0, 0.5 + 0.5 * (X[:, 0] > 0.5), 0.0)
        return np.column_stack([1 - right, right])

    model = SimpleNamespace(classes_=np.array([3, 5]), predict_proba=predict_proba)
    X = np.array([[-1.0, -1.0], [1.0, 1.0]])
    plot_decision_regions(model, X, [3, 5], resolution=50, ax=ax)
    picture = np.asarray(ax.images[0].get_array())
    assert_allclose(picture[:, 26:36], 1.0)  # white where both classes have one half
    assert np.all(picture[:, :24].min(-1) < 0.5)
    assert not np.allclose(picture[0, 0], picture[0, -1])
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["3", "5"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: plot_reliability([[0.5, 0.5]], [0, 1]),
            "`probability` must have a row for each of the 2 labels",
        ),
        (lambda: plot_reliability([[0.5, 0.5]], ["x"]), "`classes` must name the 2 columns"),
        (lambda: plot_reliability([[1.5, 0.5]], [0]), "`probability` must lie between 0 and 1"),
        (lambda: plot_reliability([[np.nan, 0.5]], [0]), "`probability` must lie between 0 and 1"),
        (lambda: plot_reliability([[0.5, 0.5]], [0], bins=0), "`bins` must be an integer"),
        (lambda: plot_confusion([1, 2], [1]), "`predicted` and `y` must be vectors alike"),
        (lambda: plot_confusion([], []), "`predicted` and `y` must be vectors alike"),
        (lambda: plot_confusion([1, 2], ["a", "b"]), "different labels"),
        (lambda: plot_confusion(["a", "b"], ["a", "b"], classes=["a"]), "'b'. are missing"),
        (lambda: plot_decision_regions(None, np.zeros((3, 4)), [0, 0, 1]), "`X` must have two features"),
    ],
)
def test_bad_input(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
