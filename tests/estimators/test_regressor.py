"""The regressor: fits, weights, predictions, calibration, progress, and further training."""

import copy
from dataclasses import replace

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.linear_model import RidgeCV

from tests.cases import few
from tests.estimators.small import ALL_ROWS, SMALL, abs_table, small_regressor
from tggm import Censored, TableWarning, TGGMRegressor

# the default network, smaller and trained for a shorter time
DEFAULT = {"hidden": (12, 12), "n_members": 5, "max_epochs": 60, "batch_size": 64, "random_state": 0}


@pytest.fixture(scope="module")
def table():
    return abs_table()


@pytest.fixture(scope="module")
def fitted(table):
    return small_regressor().fit(*table)


@pytest.fixture(scope="module")
def curve():
    """Return 300 rows to train on and 300 new ones."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((600, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(600)


@pytest.fixture(scope="module")
def default(curve):
    X, y = curve
    return TGGMRegressor(**DEFAULT).fit(X[:300], y[:300])


def rmse(model, X, y):
    return np.sqrt(np.mean((model.predict(X) - y) ** 2))


def test_attributes_are_the_model_in_the_units_of_the_data(table, fitted):
    X, _ = table
    sigma0 = np.sqrt(fitted.fitted_.model.hidden.s0[0])
    means, variances = [], []
    for W0, b0, W1, b1, s1 in zip(fitted.W0_, fitted.b0_, fitted.W1_, fitted.b1_, fitted.noise_, strict=True):
        a = X @ W0.T + b0[None, :]
        h = stats.truncnorm(-a / sigma0, np.inf, loc=a, scale=sigma0)
        means.append(h.mean() @ W1[0] + b1[0])
        variances.append(h.var() @ W1[0] ** 2 + s1[0])
    mean, std = fitted.predict(X, return_std=True)
    assert_allclose(mean, np.mean(means, axis=0), atol=1e-4)
    assert_allclose(std**2, np.mean(variances, axis=0) + np.var(means, axis=0), rtol=1e-3)


def test_a_fit_learns_and_stores_its_history(table, fitted):
    assert fitted.score(*table) > 0.8
    assert fitted.history_["train"].shape == fitted.history_["held_out"].shape == (2, fitted.n_iter_)
    assert fitted.converged_
    assert np.all((fitted.best_epoch_ >= 1) & (fitted.best_epoch_ <= fitted.n_iter_))
    assert_array_equal(small_regressor().fit(*table).predict(table[0]), fitted.predict(table[0]))
    assert not np.array_equal(small_regressor(random_state=1).fit(*table).W0_, fitted.W0_)


def test_double_precision_does_not_change_the_global_configuration(table, fitted):
    with jax.enable_x64(False):
        model = small_regressor(dtype="float64").fit(*table)
        assert not jax.config.jax_enable_x64
    assert model.fitted_.model.hidden.W0.dtype == np.float64
    assert fitted.fitted_.model.hidden.W0.dtype == np.float32
    assert model.score(*table) > 0.8


def test_units_of_inputs_and_targets_do_not_matter(table, fitted):
    X, y = table
    scale, shift = np.array([1e6, 1e-6, 3.0]), np.array([1e6, -2e-6, 0.0])
    moved = small_regressor().fit(X * scale + shift, 1e6 * y - 3e6)
    assert_allclose(moved.predict(X * scale + shift), 1e6 * fitted.predict(X) - 3e6, rtol=1e-2, atol=3e4)


def test_a_fit_without_held_out_rows(table):
    model = small_regressor(**ALL_ROWS, calibrate=True, linear=True, max_epochs=30).fit(*table)
    assert_array_equal(model.best_epoch_, [30, 30])
    assert np.isfinite(model.predict_dist(table[0]).logpdf(table[1])).all()
    with pytest.raises(AttributeError, match=r"call permutation_importances\(X, y\)"):
        _ = model.feature_importances_


def test_training_stops_when_held_out_rows_do_not_improve(table):
    model = small_regressor(max_epochs=1000, learning_rate=0.1).fit(*table)
    assert model.n_iter_ == model.best_epoch_.max() + 250 < 1000


def test_the_distribution_agrees_with_the_other_predictions(table):
    X, _ = table
    model = TGGMRegressor(**SMALL, max_epochs=60).fit(*table)
    dist = model.predict_dist(X)
    mean, std = model.predict(X, return_std=True)
    assert_allclose(dist.mean(), mean, rtol=1e-5)
    assert_allclose(dist.std(), std, rtol=1e-4)
    lower, upper = model.predict_interval(X, level=0.8)
    assert_allclose([dist.cdf(lower), dist.cdf(upper)], [[0.1] * 60, [0.9] * 60], atol=1e-8)
    quantiles = model.predict_quantiles(X, [0.1, 0.5, 0.9])
    assert_allclose(quantiles[:, [0, 2]], np.column_stack([lower, upper]), rtol=1e-10)
    draws = model.sample(X, 2000, random_state=1)
    assert draws.shape == (60, 2000)
    assert np.abs((draws.mean(1) - mean) / std).max() < 5 / np.sqrt(2000)  # 60 z-scores, five sigma
    assert_array_equal(draws, model.sample(X, 2000, random_state=1))


def test_arguments_of_predictions_are_checked(table, fitted):
    X, y = table
    for call, message in (
        (lambda: fitted.predict_interval(X, level=90), "`level` must be between 0 and 1; got 90"),
        (lambda: fitted.predict_quantiles(X, [[0.5]]), "`quantiles` must be a list"),
        (lambda: fitted.sample(X, 0), "`n_samples` must be an integer of at least 1; got 0"),
        (lambda: fitted.predict(X, return_std="both"), "`return_std` must be one of 'parts'; got 'both'"),
        (lambda: fitted.predict([[1.0, 2.0]]), "X has 2 features, but TGGMRegressor is expecting 3"),
        (lambda: fitted.recalibrate(X, np.column_stack([y, y])), r"1 targets per row; got shape \(60, 2\)"),
        (lambda: fitted.recalibrate(X, np.full(60, np.nan)), "`y` must be finite; got nan. Leave such rows"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("hidden", few([(6,), (6, 6)], "(6,)"))
def test_several_outputs_have_marginals_and_a_joint_density(table, hidden):
    X, y = table
    settings = {**SMALL, "hidden": hidden, "max_epochs": 60}
    model = TGGMRegressor(**settings).fit(X, np.column_stack([y, X[:, 2]]))
    assert {each.kind for each in model.fitted_.calibration} == {"student"}
    dist = model.predict_dist(X)
    mean, std = model.predict(X, return_std=True)
    assert_allclose(dist.mean(), mean, rtol=1e-4, atol=1e-4)
    assert_allclose(dist.std(), std, rtol=1e-4)
    lower, _ = model.predict_interval(X, level=0.9)
    assert_allclose(dist.marginal(1).cdf(lower[:, 1]), 0.05, atol=1e-6)
    assert model.predict_quantiles(X, [0.5]).shape == (60, 2, 1)
    assert model.sample(X, 3, random_state=0).shape == (60, 2, 3)
    # the integral of the joint density of one row over the second output is the marginal of the first
    t = np.linspace(-12, 12, 801) * std[0, 1] + mean[0, 1]
    point = np.column_stack([np.full(801, mean[0, 0]), t])
    joint = model.predict_dist(np.repeat(X[:1], 801, axis=0)).pdf(point)
    assert_allclose(joint.sum() * (t[1] - t[0]), dist.marginal(0).pdf(mean[:, 0])[0], rtol=0.01)


def test_a_target_of_one_column_keeps_its_shape(table):
    X, y = table
    model = small_regressor(max_epochs=5).fit(X, y[:, None])
    assert model.predict(X).shape == model.predict_interval(X)[0].shape == (60, 1)
    assert model.predict_quantiles(X).shape == (60, 1, 3)
    assert model.sample(X, 4, random_state=0).shape == (60, 1, 4)
    assert_allclose(model.predict(X)[:, 0], small_regressor(max_epochs=5).fit(X, y).predict(X))


def test_defaults_predict_well_with_calibrated_distributions(curve, default):
    X, y = (a[300:] for a in curve)
    assert rmse(default, X, y) < 0.3
    assert {each.kind for each in default.fitted_.calibration} <= {"student", "shaped"}
    inside = np.mean(np.abs(default.predict_dist(X).cdf(y) - 0.5) < 0.4)
    assert abs(inside - 0.8) < 0.1  # of 300 rows: four standard errors


def test_noise_and_disagreement_add_up_to_the_variance(curve, default):
    X = curve[0][:300]
    mean, std = default.predict(X, return_std=True)
    same, noise, apart = default.predict(X, return_std="parts")
    assert_allclose(same, mean, rtol=1e-5)
    assert_allclose(np.hypot(noise, apart), std, rtol=1e-5)
    with pytest.warns(TableWarning, match="predictions there are extrapolations"):
        assert default.predict(10 * X, return_std="parts")[2].mean() > 3 * apart.mean()


def test_recalibration_adapts_the_width_and_keeps_the_mean(curve, default, rng):
    X, y = (a[300:] for a in curve)
    model = copy.deepcopy(default)
    model.fitted_ = replace(model.fitted_, neighbors=None)  # their weights would change, and the mean
    mean, std = model.predict(X, return_std=True)
    noisy = y + 2 * rng.standard_normal(len(y))
    again, wider = model.recalibrate(X, noisy).predict(X, return_std=True)
    assert_allclose(again, mean, rtol=1e-5)
    assert 1.7 < wider.mean() < 2.4
    assert std.mean() < 0.5
    low, high = model.predict_interval(X, 0.8)
    assert abs(np.mean((low < noisy) & (noisy < high)) - 0.8) < 0.09  # four standard errors of 300 rows


@pytest.mark.parametrize("heavy", few([False, True], "True"))
def test_probability_transforms_of_new_rows_are_uniform(heavy):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((1300, 3))
    noise = rng.standard_t(2, 1300) if heavy else rng.standard_normal(1300)
    y = X[:, 0] + 0.5 * X[:, 1] + noise
    model = TGGMRegressor(**DEFAULT, target_transform=None).fit(X[:300], y[:300])
    pooled = stats.kstest(model.predict_dist(X[300:]).cdf(y[300:]), "uniform").statistic
    # 1.63/√N is the 1 % point of a known distribution; numbers estimated from held-out rows add as much
    assert pooled < 2 * 1.63 / np.sqrt(1000)


@pytest.mark.parametrize(("slope", "most"), [(1.0, 1.2), (0.0, 1.03)])
def test_linear_tables_and_noise_are_predicted_as_by_ridge_regression(slope, most, rng):
    X = rng.standard_normal((600, 3))
    y = slope * X @ rng.standard_normal(3) + 0.5 * rng.standard_normal(600)
    model = TGGMRegressor(**DEFAULT).fit(X[:300], y[:300])
    other = RidgeCV(np.logspace(-3, 3, 13)).fit(X[:300], y[:300])
    assert rmse(model, X[300:], y[300:]) < most * rmse(other, X[300:], y[300:])


def test_outliers_of_inputs_do_not_harm(curve):
    X, y = (a.copy() for a in curve)
    X[7, 0], X[8, 1] = 1e6, -1e12
    model = TGGMRegressor(**DEFAULT).fit(X[:300], y[:300])
    assert rmse(model, X[300:], y[300:]) < 0.5


def test_a_target_with_a_long_tail_is_modelled_by_its_logarithm():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 3))
    y = np.exp(3 * X[:, 0] + 0.3 * rng.standard_normal(300))
    model = TGGMRegressor(**DEFAULT).fit(X, y)
    assert model.fitted_.transform is not None
    low, high = model.predict_interval(X, 0.9)
    assert np.all((low > 0) & (low < high))
    assert 0.8 < np.mean((low < y) & (y < high)) <= 1
    dist, grid = model.predict_dist(X[:3]), np.exp(np.linspace(-30, 30, 40_001))[None]
    assert_allclose(np.trapezoid(dist.pdf(grid), grid, axis=1), 1, rtol=1e-4)
    with pytest.raises(ValueError, match=r"`target_transform` is 'log', which needs positive targets"):
        small_regressor(target_transform="log").fit(X, y - 100)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[0.0], [1.0]], [1.0, np.nan], r"Input y contains NaN. Leave such rows out: keep = np.isfinite"),
        ([[0.0], [1.0]], Censored([1.0, 2.0], [0, 1]), r"pass its parts: fit\(X, y.value, censored=y.side"),
        ([["red"], ["blue"]], [1.0, 2.0], "no column that a model could use"),
    ],
)
def test_bad_data(X, y, message):
    with pytest.raises(ValueError, match=message):
        small_regressor().fit(X, y)
