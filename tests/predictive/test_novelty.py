"""Distances from the training rows, for members whose means are known functions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.predictive.calibration import Calibration
from tggm.predictive.novelty import (
    EDGE,
    FAR,
    MOST,
    REACH,
    WEAK,
    WIDER,
    Neighbourhood,
    TrainingRows,
    added_variance,
    checked_rows,
)

SLOPES = np.array([1.0, 1.4])  # of two members, along the first column


def neighbourhood(function=lambda x: SLOPES[:, None] * x[None, :], rows=500):
    """Return rows in [−1, 1]² whose second column has no effect; z is the first column."""
    Z = np.random.default_rng(0).uniform(-1, 1, (rows, 2))
    train = TrainingRows(np.array([-1.0, -1.0]), np.array([1.0, 1.0]), Z)
    return Neighbourhood(train, lambda Z: (function(Z[:, 0])[:, :, None], np.stack(2 * [Z[:, :1]])))


def at(*values):
    return np.array([[value, 0.0] for value in values])


def test_inside_nothing_is_added():
    around = neighbourhood()
    Z = around.train.rows[around.novelty(around.train.rows) <= 1]
    assert len(Z) > 0.85 * len(around.train.rows)
    assert_allclose(around.variance(Z, np.ones((len(Z), 1))), 0)


def test_beyond_the_range_the_variance_is_that_of_the_formula():
    around, e = neighbourhood(), 0.5
    relevance = around.relevance(np.array([0, 1]))[:, 0]
    V = 1.2**2 * around.train.rows[:, 0].var()
    assert_allclose(relevance, [V / (V + WEAK), 0], atol=0.02)  # by 64 rows
    wanted = (0.7 * 1.2 * e) ** 2 + (1.5 * e) ** 2 * SLOPES.var(ddof=1)  # straight lines: no change of slope
    assert_allclose(around.variance(at(1.0 + e), np.zeros((1, 1))), relevance[0] ** 2 * wanted, rtol=1e-9)
    curved = neighbourhood(lambda x: np.stack([x**2, x**2]))
    rho = curved.relevance(np.array([0]))[0, 0]
    last, change = (1 - 0.5**2) / 0.5, (1 - 2 * 0.5**2 + 0) / 0.5  # secants over h = 1/2
    wanted = (0.7 * last * e) ** 2 + (1.0 * change * (1 + 0.5 * e / 0.5) * e) ** 2
    assert_allclose(curved.variance(at(-1.0 - e), np.zeros((1, 1))), rho**2 * wanted, rtol=1e-9)


def test_the_width_grows_and_never_falls_back():
    around = neighbourhood()
    Z = at(1.0, 1.01, 1.5, 2, 1 + 2 * FAR, 1.01 + 2 * FAR, 20, 1e4)
    variance = around.variance(Z, np.ones((len(Z), 1)))[:, 0]
    assert (np.diff(variance) > 0).all()
    novelty = around.novelty(Z)
    assert (np.diff(novelty) > 0).all()
    assert_allclose(novelty[2], 1.25, atol=0.02)  # a quarter of the range beyond
    irrelevant = np.array([[0.0, 50.0]])
    assert around.variance(irrelevant, np.ones((1, 1))) < 1e-9
    assert around.novelty(irrelevant) < 1.1


def test_a_gap_between_the_rows_widens():
    Z = np.random.default_rng(0).uniform(0.5, 1, (400, 2)) * np.where(np.arange(400) % 2, 1, -1)[:, None]
    train = TrainingRows(Z.min(0), Z.max(0), Z)
    around = Neighbourhood(train, lambda Z: (Z[None, :, :1], Z[None, :, :1]))
    base = np.full((3, 1), 4.0)
    variance = around.variance(at(0.75, -0.75, 0.0), base)[:, 0]
    assert_allclose(variance[:2], 0)
    assert variance[2] == pytest.approx((REACH * 0.5) ** 2, rel=0.1)  # the distance, at most
    assert_allclose(around.variance(at(0.0), np.full((1, 1), 1e-4)), 1e-4 * (WIDER * MOST) ** 2)
    own = np.array([around.novelty(train.rows) <= 1]).mean()
    assert own == pytest.approx(1.0, abs=1.1 * (1 - EDGE))


def test_added_variance_is_that_of_the_pooled_width():
    around, Z = neighbourhood(), at(0.0, 3.0)
    mean, var = SLOPES[:, None, None] * Z[None, :, :1], np.full((2, 2, 1), 0.3)
    f, g = 0.5, 2.0
    pools = (Calibration("student", (f, g, 0.1)),)
    base = f**2 * 0.3 + g**2 * mean.var(0, ddof=1)
    added = added_variance(around, Z, mean, var, pools, np.inf)
    assert_allclose(f**2 * added, around.variance(Z, base))
    assert_allclose(added_variance(around, Z, mean, var, (), np.inf), 0)  # the plain mixture of members
    assert (f**2 * added_variance(around, Z, mean, var, pools, 1.0) <= 1).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"low": [2.0, 0.0]}, "ranges must not be empty"),
        ({"rows": [[np.nan, 0.0]]}, "must be finite"),
        ({"rows": np.zeros((501, 2))}, "501 training rows are stored; at most 500"),
    ],
)
def test_stored_rows_are_checked(change, sentence):
    parts = {"low": np.zeros(2), "high": np.ones(2), "rows": np.zeros((3, 2))}
    checked_rows(**parts)
    with pytest.raises(ValueError, match=sentence):
        checked_rows(**{**parts, **{name: np.asarray(a) for name, a in change.items()}})
