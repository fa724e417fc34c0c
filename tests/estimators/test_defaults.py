"""What the default promises: no worse than trivial models, no harm from outliers, the user's own units."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest
from sklearn.linear_model import RidgeCV

from tests.cases import few
from tggm import TGGMClassifier, TGGMRegressor, load, save

QUICK = {"hidden": (12, 12), "n_members": 5, "max_epochs": 60, "batch_size": 64, "random_state": 0}


def rmse(model, X, y):
    return np.sqrt(np.mean((model.predict(X) - y) ** 2))


@pytest.fixture(scope="module")
def bent():
    """300 rows to train on, 300 new ones: tables of this size share their programs."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((600, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(600)


@pytest.fixture(scope="module")
def known(bent):
    return tuple(a[:300] for a in bent)


@pytest.fixture(scope="module")
def prices():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 3))
    return X, np.exp(3 * X[:, 0] + 0.3 * rng.standard_normal(300))


@pytest.fixture(scope="module")
def fitted(known):
    return TGGMRegressor(**QUICK).fit(*known)


def test_it_learns_what_is_bent_and_knows_how_sure_it_is(bent, fitted):
    X, y = (a[300:] for a in bent)
    assert rmse(fitted, X, y) < 0.3
    assert [each.kind for each in fitted.fitted_.calibration] == ["student"]
    dist = fitted.predict_dist(X)
    mean, std = fitted.predict(X, return_std=True)
    assert_allclose(mean, dist.mean(), rtol=1e-5)
    assert_allclose(std, dist.std(), rtol=1e-5)
    held = np.mean(np.abs(dist.cdf(y) - 0.5) < 0.4)
    assert abs(held - 0.8) < 0.1  # of 300 rows: four standard errors


def test_files_keep_all_of_it(known, fitted, tmp_path):
    X, y = known
    save(fitted, tmp_path / "m.tggm")
    again = load(tmp_path / "m.tggm")
    assert again.get_params() == fitted.get_params()
    assert_allclose(again.score_samples(X, y), fitted.score_samples(X, y), rtol=1e-12)


def test_parts_of_the_width_add_up(known, fitted):
    X, _ = known
    mean, std = fitted.predict(X, return_std=True)
    same, noise, apart = fitted.predict(X, return_std="parts")
    assert_allclose(same, mean, rtol=1e-5)
    assert_allclose(np.hypot(noise, apart), std, rtol=1e-5)
    far = fitted.predict(10 * X, return_std="parts")
    assert far[2].mean() > 3 * apart.mean()  # members disagree where they have not been
    with pytest.raises(ValueError, match="`return_std` must be one of 'parts'; got 'both'"):
        fitted.predict(X, return_std="both")


def test_fresh_rows_set_the_width_anew(bent, fitted, rng):
    X, y = (a[300:] for a in bent)
    model = copy.deepcopy(fitted)
    mean, std = model.predict(X, return_std=True)
    noisy = y + 2 * rng.standard_normal(len(y))
    again, wider = model.recalibrate(X, noisy).predict(X, return_std=True)
    assert_allclose(again, mean, rtol=1e-5)
    assert 1.7 < wider.mean() < 2.4
    assert std.mean() < 0.5
    low, high = model.predict_interval(X, 0.8)
    assert abs(np.mean((low < noisy) & (noisy < high)) - 0.8) < 0.09  # four standard errors of 300 rows
    with pytest.raises(ValueError, match=r"`y` must have 1 targets a row; got shape \(300, 2\)"):
        model.recalibrate(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match=r"`y` must be finite; got nan\. Leave such rows out"):
        model.recalibrate(X, np.where(np.arange(len(y)) == 3, np.nan, y))


@pytest.mark.slow  # passes: test_regressor.py; transforms and pools: below and above
def test_passes_keep_transform_and_calibration(prices):
    X, y = prices
    model = TGGMRegressor(**{**QUICK, "learning_rate": 1e-4}, target_transform="log").fit(X, y)
    before = np.log(model.predict_dist(X).ppf(0.5))
    pool = model.fitted_.calibration
    model.partial_fit(X, y)
    assert model.fitted_.calibration == pool
    assert np.abs(np.log(model.predict_dist(X).ppf(0.5)) - before).max() < 0.2


@pytest.mark.parametrize("wrong", few([False, True], "True"), ids=["right noise", "heavy tails"])
def test_targets_fall_evenly_into_their_distributions(wrong):
    """Probability transforms of new rows; members are Gaussians, whatever the noise."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((1300, 3))
    noise = rng.standard_t(2, 1300) if wrong else rng.standard_normal(1300)
    y = X[:, 0] + 0.5 * X[:, 1] + noise
    model = TGGMRegressor(**QUICK, target_transform=None).fit(X[:300], y[:300])
    pooled = kstest(model.predict_dist(X[300:]).cdf(y[300:]), "uniform").statistic
    model.fitted_ = model.fitted_._replace(calibration=())
    mixed = kstest(model.predict_dist(X[300:]).cdf(y[300:]), "uniform").statistic
    # 1.63/√N is the 1 % point of a known distribution; numbers from held-out rows add as much again
    assert pooled < 2 * 1.63 / np.sqrt(1000)
    assert pooled < (mixed if wrong else mixed + 0.03)


def test_uncalibrated_is_the_mixture(known):
    X, y = known
    raw = TGGMRegressor(**QUICK, calibrate=False).fit(X, y)
    assert raw.fitted_.calibration == ()
    assert type(raw.predict_dist(X[:2])).__name__ == "GaussianMixture"


@pytest.mark.parametrize("columns", few([3, 20], "3"))  # three as in all tables here: the same programs
def test_a_linear_table_is_left_to_ridge_regression(columns, rng):
    X = rng.standard_normal((600, columns))
    y = X @ rng.standard_normal(columns) + 0.5 * rng.standard_normal(600)
    model = TGGMRegressor(**QUICK).fit(X[:300], y[:300])
    other = RidgeCV(np.logspace(-3, 3, 13)).fit(X[:300], y[:300])
    assert rmse(model, X[300:], y[300:]) < 1.2 * rmse(other, X[300:], y[300:])


def test_noise_is_left_to_the_mean(rng):
    X, y = rng.standard_normal((600, 3)), rng.standard_normal(600)
    model = TGGMRegressor(**QUICK).fit(X[:300], y[:300])
    assert rmse(model, X[300:], y[300:]) < 1.03 * y[300:].std()


def test_one_outlier_moves_nothing(bent):
    X, y = (a.copy() for a in bent)
    X[7, 0], X[8, 1] = 1e6, -1e12
    model = TGGMRegressor(**QUICK).fit(X[:300], y[:300])
    assert rmse(model, X[300:], y[300:]) < 0.5


def test_prices_are_modelled_by_their_logarithms(prices):
    X, y = prices
    model = TGGMRegressor(**QUICK).fit(X, y)
    assert model.fitted_.transform.kind == "log"
    low, high = model.predict_interval(X, 0.9)
    assert np.all(low < high)
    assert np.mean(low < 0) < 0.05
    assert 0.8 < np.mean((low < y) & (y < high)) <= 1
    forced = TGGMRegressor(**QUICK, target_transform="log").fit(X, y)
    assert (forced.predict_interval(X)[0] > 0).all()
    dist = forced.predict_dist(X[:3])
    grid = np.exp(np.linspace(-30, 30, 40_001))[None]
    assert_allclose(np.trapezoid(dist.pdf(grid), grid, axis=1), 1, rtol=1e-4)
    with pytest.raises(ValueError, match=r"`target_transform` is 'log', which needs positive targets"):
        forced.fit(X, y - 100)


ONE_LAYER = {**QUICK, "hidden": (6,), "n_members": 2, "max_epochs": 20}


def test_one_layer_with_features_and_a_linear_part_has_an_exact_density(known):
    X, y = known
    model = TGGMRegressor(**ONE_LAYER, calibrate=False).fit(X, y)
    dist = model.predict_dist(X[:5])
    grid = np.linspace(-15, 15, 6001)[None]
    assert_allclose(np.trapezoid(dist.pdf(grid), grid, axis=1), 1, rtol=1e-6)
    assert_allclose(np.trapezoid(grid * dist.pdf(grid), grid, axis=1), model.predict(X[:5]), rtol=1e-4)


@pytest.mark.slow  # without features: test_regressor.py
@pytest.mark.parametrize("method", ["ep", "exact"])
def test_one_layer_with_features_and_a_linear_part_is_trained_by_its_density(known, method):
    """EP knows the density to 1e-2 nats, Fourier inversion exactly; both see the linear part."""
    trained = TGGMRegressor(**ONE_LAYER, method=method).fit(*known)
    assert np.isfinite(trained.score_samples(*known)).all()


@pytest.mark.slow  # the pools' own densities are integrated in tests/predictive
def test_calibration_of_one_layer_keeps_a_proper_density(known):
    X, y = known
    model = TGGMRegressor(**{**QUICK, "hidden": (6,)}).fit(X, y)
    assert model.fitted_.calibration[0].kind in ("linear", "beta")
    grid = np.linspace(-15, 15, 6001)[None]
    pdf = model.predict_dist(X[:3]).pdf(grid)
    assert_allclose(np.trapezoid(pdf, grid, axis=1), 1, rtol=1e-5)


@pytest.mark.slow  # missing targets of one layer: test_targets.py; several outputs of two: test_deep.py
def test_two_outputs_and_missing_targets(known):
    X, y = known
    Y = np.column_stack([y, X[:, 2] ** 2])
    Y[::7, 1] = np.nan
    model = TGGMRegressor(**QUICK).fit(X, Y)
    assert len(model.fitted_.calibration) == 2
    low, high = model.predict_interval(X, 0.9)
    assert low.shape == (300, 2)
    assert np.all(low < high)


@pytest.mark.parametrize("words", [{"features": "waves"}, {"linear": "yes"}, {"target_transform": "sqrt"}])
def test_unknown_words_are_named(bent, words):
    with pytest.raises(ValueError, match=f"`{next(iter(words))}` must be"):
        TGGMRegressor(**QUICK, **words).fit(*bent)


@pytest.fixture(scope="module")
def labels(known):
    X, _ = known
    return X, np.where(X[:, 0] + np.sin(3 * X[:, 1]) > 0, "up", "down")


def test_a_linear_part_of_classes_needs_a_method_that_knows_it(labels):
    with pytest.raises(ValueError, match=r"linear=True cannot be trained with method='ep'.*linear=False"):
        TGGMClassifier(hidden=4, linear=True, method="ep").fit(*labels)


@pytest.mark.slow  # the same default of a data frame: test_tables.py
def test_a_classifier_has_features_and_a_linear_part(labels):
    X, label = labels
    model = TGGMClassifier(**{**QUICK, "n_members": 2}).fit(X[:200], label[:200])
    assert model.score(X[200:], label[200:]) > 0.85
    assert model.A_.shape == (2, 2, 3)
    assert np.isfinite(model.predict_proba(1e9 * X[:2])).all()
