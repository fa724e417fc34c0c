"""The regressor with missing and censored targets, and with lateral connections."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tggm.estimators.targets import row_weights

from tggm import TGGMRegressor, load, save
from tggm.data import from_arrays


def quick(**settings):
    return TGGMRegressor(
        hidden=(10,), n_members=1, max_epochs=30, early_stopping=False, random_state=0, **settings
    )


@pytest.fixture(scope="module")
def curve():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (200, 1))
    return X, np.abs(X[:, 0]) + 0.2 * rng.standard_normal(200)


def test_flags_that_censor_nothing_change_nothing(curve):
    X, y = curve
    plain = quick().fit(X, y)
    assert_allclose(quick().fit(X, y, censored=np.zeros(200)).W1_, plain.W1_)
    assert_allclose(quick().fit(X, y, censored=["none"] * 200).W1_, plain.W1_)


def test_censored_rows_lift_the_mean(curve):
    """The limits say where the mean is not; without them it stays at the limit."""
    X, y = curve
    side, seen = (y > 1).astype(int), np.minimum(y, 1)
    grid = np.array([[-1.8], [1.8]])
    model, naive = quick().fit(X, seen, censored=side), quick().fit(X, seen)
    assert np.all(naive.predict(grid) < 1.4)
    assert np.all(model.predict(grid) > naive.predict(grid) + 0.2)


def test_missing_targets_of_two_outputs(curve):
    X, y = curve
    rng = np.random.default_rng(1)
    Y = np.stack([y, -2 * y], 1)
    Y[rng.uniform(size=Y.shape) < 0.4] = np.nan
    model = quick(method="moments").set_params(max_epochs=100).fit(X, Y)
    mean = model.predict(np.array([[1.5], [-1.5]]))
    assert_allclose(mean, [[1.5, -3.0], [1.5, -3.0]], atol=0.35)
    assert np.isfinite(model.W1_).all()


def test_refusals(curve):
    X, y = curve
    with pytest.raises(ValueError, match="`censored`: sides must be -1"):
        quick().fit(X, y, censored=np.full(200, 2))
    with pytest.raises(ValueError, match="`censored` is for one output; `y` has 2"):
        quick().fit(X, np.stack([y, y], 1), censored=np.zeros(200))
    with pytest.raises(ValueError, match="column without any target"):
        quick().fit(X, np.stack([y, np.full(200, np.nan)], 1))
    with pytest.raises(ValueError, match="contains NaN"):
        quick().fit(X, np.where(y > 1, np.nan, y))
    with pytest.raises(ValueError, match="lateral=1 cannot be trained with method='moments'"):
        quick(lateral=1).fit(X, y)
    with pytest.raises(ValueError, match="`lateral` connections are for one output"):
        quick(lateral=1, method="ep").fit(X, np.stack([y, y], 1))


@pytest.mark.usefixtures("usual_shapes")  # EP takes its time for each row
def test_lateral_connections_are_learned_and_kept(curve, tmp_path):
    X, y = curve
    model = quick(method="ep", lateral=2).fit(X, y)
    assert model.fitted_.model.hidden.V.shape == (1, 2, 10)
    assert np.abs(model.fitted_.model.hidden.V).max() > 0.1
    dist = model.predict_dist(X[:20])  # its density: tests/predictive/test_choice.py
    assert_allclose(dist.mean(), model.predict(X[:20]), atol=2e-3)  # float64 and float32
    save(model, tmp_path / "lateral.tggm")
    again = load(tmp_path / "lateral.tggm")
    assert_allclose(again.predict(X[:20]), model.predict(X[:20]))


def cut(y):
    """Targets that end at their median, and which do."""
    return np.minimum(y, np.median(y)), np.where(y > np.median(y), 1, 0)


def test_limits_in_several_layers_need_directed_ones(curve):
    X, (y, side) = curve[0], cut(curve[1])
    with pytest.raises(ValueError, match="need deep='directed'"):
        TGGMRegressor((4, 4), deep="undirected", method="ep").fit(X, y, censored=side)


@pytest.mark.slow  # of one layer, above
def test_limits_in_several_layers_lift_the_mean(curve):
    X, (y, side) = curve[0], cut(curve[1])
    model = TGGMRegressor((4, 4), n_members=2, max_epochs=60, random_state=0).fit(X, y, censored=side)
    assert model.predict(X)[side == 1].mean() > y[side == 1].mean()  # predictions are of the truth


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.ones(3), r"`sample_weight` must be a number for each of the 4 rows; got shape \(3,\)"),
        (np.ones((4, 1)), r"got shape \(4, 1\)"),
        ([1, 1, -2, 1], "Negative values in data passed to `sample_weight`: -2"),
        (0, "at least one non-zero number"),
        ([1, np.nan, 1, 1], "sample_weight contains NaN"),
        (-1.0, "Negative values"),
    ],
)
def test_weights_that_are_none(given, words):
    with pytest.raises(ValueError, match=words):
        row_weights(given, np.zeros((4, 2)))


def test_weights_of_rows():
    X = np.zeros((3, 2))
    assert_allclose(row_weights(None, X), 1)
    assert_allclose(row_weights(2, X), 2)
    found = row_weights([1, 0, 3], X)
    assert_allclose(found, [1, 0, 3])
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    ("factor", "sentence"),
    [
        (1e-200, "`y` has a standard deviation of .*e-2.., whose square vanishes; multiply it."),
        (1e200, "`y` has a standard deviation of .*e.199, whose square overflows; divide it."),
    ],
)
def test_targets_whose_squares_are_no_numbers(curve, factor, sentence):
    X, y = curve
    with pytest.raises(ValueError, match=sentence):
        quick().fit(X, factor * y)
    with pytest.raises(ValueError, match=sentence):
        quick().fit(X, np.stack([y, factor * y], 1))
    with pytest.raises(ValueError, match=sentence):
        quick().fit(from_arrays(X, factor * y))


def test_targets_that_squares_do_not_tell_from_a_constant(curve):
    X, y = curve
    with pytest.raises(ValueError, match=r"whose square vanishes; multiply it"):
        quick().fit(X, 1e-300 * y)


def test_integers_that_no_float_holds(curve):
    X, y = curve
    with pytest.raises(
        ValueError, match=r"`y` has a number beyond 1\.8e308, the largest there is; divide it"
    ):
        quick().fit(X, [10**400, *y[1:]])
    with pytest.raises(
        ValueError, match=r"`X` has a number beyond 1\.8e308, the largest there is; divide it"
    ):
        quick().fit([[10**400], *X[1:].tolist()], y)
