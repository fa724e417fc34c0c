"""Missing and censored targets, weights, and targets whose squares are not finite."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.estimators.small import ALL_ROWS
from tggm import TGGMRegressor
from tggm.data import from_arrays
from tggm.estimators._data import row_weights


def quick(**settings):
    usual = {"hidden": (10,), "n_members": 1, "max_epochs": 30, "random_state": 0}
    return TGGMRegressor(**(usual | ALL_ROWS | settings))


@pytest.fixture(scope="module")
def curve():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (200, 1))
    return X, np.abs(X[:, 0]) + 0.2 * rng.standard_normal(200)


def test_sides_that_censor_nothing_change_nothing(curve):
    X, y = curve
    plain = quick().fit(X, y)
    for sides in (np.zeros(200), ["none"] * 200):
        assert_array_equal(quick().fit(X, y, censored=sides).W1_, plain.W1_)


@pytest.mark.parametrize("hidden", [(10,), (4, 4)])
def test_predictions_are_of_the_true_value_beyond_the_limit(curve, hidden):
    X, y = curve
    side, limited = (y > 1).astype(int), np.minimum(y, 1)
    grid = np.array([[-1.8], [1.8]])
    for sign, word in ((1, "right"), (-1, "left")):
        two, censored = quick(hidden=hidden, n_members=2, max_epochs=90), np.where(side, word, "none")
        model, naive = (sign * two.fit(X, sign * limited, censored=c).predict(grid) for c in (censored, None))
        assert np.all(naive < 1.4)
        assert np.all(model > naive + 0.2)


def test_intervals_and_events_in_the_conventions_of_their_users(curve):
    X, y = curve
    side, limited = (y > 1).astype(int), np.minimum(y, 1)
    plain = quick().fit(X, limited, censored=side)
    ends = np.stack([limited, np.where(side, np.inf, y)], 1)
    assert_allclose(quick().fit(X, ends, censored="interval").W1_, plain.W1_)
    events = np.array(list(zip(side == 0, limited, strict=True)), [("event", bool), ("time", float)])
    assert_array_equal(quick().fit(X, events).W1_, plain.W1_)
    survival = plain.predict_survival(X, [0.5, 2.0])
    assert_allclose(survival, 1 - plain.predict_dist(X).cdf([[0.5, 2.0]]), atol=1e-12)
    with pytest.raises(ValueError, match=r"`times` must be a list of finite numbers; got \[nan\]"):
        plain.predict_survival(X, [np.nan])
    coarse = np.stack([np.floor(2 * y) / 2, np.floor(2 * y) / 2 + 0.5], 1)  # widths are half a unit
    for transform in (None, "log"):  # of which some intervals have no lower end
        shifted = coarse - coarse.min() if transform else coarse
        model = quick(hidden=(10,), n_members=2, max_epochs=90, target_transform=transform)
        low = 0 if transform is None else coarse.min()
        mean = model.fit(X, shifted, censored="interval").predict(X) + low
        assert np.sqrt(np.mean((mean - np.abs(X[:, 0])) ** 2)) < 0.25


@pytest.mark.parametrize(
    ("y", "censored", "message"),
    [
        ([[0.0, 1.0], [2.0, 1.0]], "interval", r"`y` must have two .*; got \(2\.0, 1\.0\) in row 1\."),
        ([0.0, 1.0], "interval", r"`y` must have two columns .* got shape \(2,\)"),
        ([[-np.inf, np.inf], [0, 1]], "interval", "`y` has a row without a finite end"),
        ([0.0, 1.0], "right", "`censored` must be 'interval' or an array of sides; got 'right'"),
        (np.zeros(2, [("a", float), ("t", float)]), None, r"`y` is a structured array .* event indicator"),
    ],
)
def test_bad_limits(y, censored, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(np.zeros((2, 1)), y if isinstance(y, np.ndarray) else np.array(y), censored=censored)


def test_missing_targets_of_two_outputs(curve):
    X, y = curve
    Y = np.stack([y, -2 * y], 1)
    Y[np.random.default_rng(1).uniform(size=Y.shape) < 0.4] = np.nan
    model = quick(max_epochs=100).fit(X, Y)
    assert_allclose(model.predict(np.array([[1.5], [-1.5]])), [[1.5, -3.0], [1.5, -3.0]], atol=0.35)
    assert np.isfinite(model.W1_).all()
    assert len(model.fitted_.calibration) == 2
    assert np.isfinite(model.predict_interval(X)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: (y, np.full(200, 2)), "`censored`: sides must be -1 .*; got 2"),
        (lambda y: (y, np.full(200, -1)), "`censored` must not be a limit on the same side for every row"),
        (lambda y: (np.stack([y, y], 1), np.zeros(200)), "`censored` is for one output; `y` has 2"),
        (lambda y: (np.stack([y, np.full(200, np.nan)], 1), None), "column without any target"),
        (lambda y: (np.where(y > 1, np.nan, y), None), "contains NaN"),
        (lambda y: ([10**400, *y[1:]], None), r"`y` has a number beyond 1\.8e308, the largest float"),
        (lambda y: (1e-300 * y, None), "whose square vanishes; multiply it"),
        (lambda y: (1.0, None), "`y` must have a value for each of the 200 rows of `X`; got 1.0"),
        (lambda y: (y[:50], None), r"each of the 200 rows of `X`; got shape \(50,\)"),
        (lambda y: (y[:, None, None], None), r"got shape \(200, 1, 1\)"),
        (lambda y: (np.where(y > 1, "a", "b"), None), "`y` has 'b', which is no number; use a TGGMC"),
        (lambda y: (np.ma.masked_greater(y, 1), None), "`y` is a masked array, whose mask would be ignored"),
    ],
)
def test_bad_targets(curve, change, message):
    X, (y, censored) = curve[0], change(curve[1])
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y, censored=censored)


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (1e-200, "`y` has a standard deviation of .*e-2.., whose square vanishes; multiply it."),
        (1e200, "`y` has a standard deviation of .*e.199, whose square overflows; divide it."),
    ],
)
def test_targets_whose_squares_are_not_numbers(curve, factor, message):
    X, y = curve
    for given in ((X, factor * y), (X, np.stack([y, factor * y], 1)), (from_arrays(X, factor * y),)):
        with pytest.raises(ValueError, match=message):
            quick().fit(*given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones(3), r"`sample_weight` must be a number for each of the 4 rows; got shape \(3,\)"),
        (np.ones((4, 1)), r"got shape \(4, 1\)"),
        ([1, 1, -2, 1], "Negative values in data passed to `sample_weight`: -2"),
        (0, "at least one non-zero number"),
        ([1, np.nan, 1, 1], "sample_weight contains NaN"),
        (-1.0, "Negative values"),
    ],
)
def test_bad_weights(given, message):
    with pytest.raises(ValueError, match=message):
        row_weights(given, np.zeros((4, 2)))
