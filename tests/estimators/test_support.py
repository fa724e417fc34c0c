"""Targets with limits and steps: chosen supports, training on rows at limits, and predictions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from tests.estimators.small import SMALL
from tggm import TGGMRegressor, load, save
from tggm.data import from_arrays
from tggm.data.standardise import Columns
from tggm.estimators._support import latent_scale, read_transform, shifted_log, tobit_scores
from tggm.predictive import Support
from tggm.predictive.gaussian_mixture import LogTransform
from tggm.predictive.support import NO_PLAN, plan_support

QUICK = {**SMALL, "max_epochs": 40, "linear": True}
ROWS = 400


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((3 * ROWS, 3))
    return X, X[:, 0] - 0.5 * X[:, 1] + 0.5 * rng.standard_normal(3 * ROWS)


def three_outputs(z):
    w = 0.7 * z + np.random.default_rng(5).standard_normal(len(z))
    last = np.where(np.arange(len(z)) < 20, np.nan, w)
    return np.stack([np.maximum(z, 0), np.clip(np.round(1.5 * w), -2, 3), last], axis=1)


TARGETS = {
    "zeros": (lambda z: np.maximum(z, 0.0), (0.0, None, None)),
    "grades": (lambda z: np.round(2 * z), (None, None, 1.0)),
    "few counts": (lambda z: np.clip(np.round(1.2 * z), 0, 2), (0.0, 2.0, 1.0)),
    "capped shares": (lambda z: np.clip(0.5 + z, 0.0, 1.0), (0.0, 1.0, None)),
    "far from zero": (lambda z: z + 30, None),
    "three outputs": (three_outputs, [(0.0, None, None), (-2.0, 3.0, 1.0), None]),
}


def assert_inside(model, X):
    """Assert that nothing outside the supports is predicted."""
    for j, support in enumerate(model.fitted_.supports):
        found = support or Support()
        draws = model.sample(X, 3, random_state=0)
        for values in (*model.predict_interval(X, 0.9), model.predict_quantiles(X), draws):
            assert np.all(found.contains(values if model.fitted_.flat else values[:, j]))
        mean = model.predict(X).reshape(len(X), -1)[:, j]
        assert np.all(found._replace(step=None).contains(mean))


@pytest.mark.parametrize("name", TARGETS)
def test_a_support_is_found_and_improves_predictions(line, name, tmp_path):
    see, support = TARGETS[name]
    X, y = line[0], see(line[1])
    train, new = slice(ROWS), slice(ROWS, None)
    models = [TGGMRegressor(**QUICK, support=s).fit(X[train], y[train]) for s in ("auto", None)]
    assert models[0].support_ == support
    assert models[1].support_ is None
    if support is None:
        return
    laws = [model.predict_dist(X[new]) for model in models]
    gain = (laws[1].crps(y[new]) - laws[0].crps(y[new])).reshape(2 * ROWS, -1)
    least = 2 * gain.std(0) / np.sqrt(len(gain))
    for j, found in enumerate(models[0].fitted_.supports):
        assert gain[:, j].mean() > (-0.01 if found is None else least[j])
    for level in (0.5, 0.9):
        low, high = models[0].predict_interval(X[new], level)
        inside = np.mean((low <= y[new]) & (y[new] <= high), axis=0)
        assert np.all(inside > level - 4 * np.sqrt(level * (1 - level) / (2 * ROWS)) - 0.02)
    assert_inside(models[0], X[new])
    mean, noise, disagreement = models[0].predict(X[new], return_std="parts")
    assert_allclose(noise**2 + disagreement**2, laws[0].var(), rtol=1e-5)
    save(models[0], tmp_path / "m.tggm")
    assert load(tmp_path / "m.tggm").support_ == support
    for backend in ("jax", "numpy"):
        copy = load(tmp_path / "m.tggm", backend=backend)
        assert_allclose(copy.predict(X[new]), mean, rtol=1e-4, atol=1e-4)
        if y.ndim == 1:
            crps = copy.predict_dist(X[new]).crps(y[new])
            assert_allclose(crps, laws[0].crps(y[new]), rtol=2e-3, atol=2e-3)
        else:
            low, high = copy.predict_interval(X[new], 0.9)
            assert np.all(Support(*support[1]).contains([low[:, 1], high[:, 1]]))


def test_given_supports_of_several_outputs_with_neighbours_and_a_guarantee(line):
    X, z = line
    Y = np.stack([np.maximum(z, 0), np.round(2 * z)], axis=1)[: 2 * ROWS]
    train, new = slice(ROWS), slice(ROWS, 2 * ROWS)
    options = {**QUICK, "max_epochs": 10, "neighbors": 3, "guarantee": 0.8}
    model = TGGMRegressor(**options, support=[(0, None), (None, None, 1)]).fit(X[train], Y[train])
    assert model.support_ == [(0.0, None, None), (None, None, 1.0)]
    assert model.fitted_.neighbors is not None
    assert_inside(model, X[new])
    low, high = model.predict_interval(X[new], 0.8, guarantee=True)
    assert low[:, 0].min() == 0
    assert np.all(((low <= Y[new]) & (Y[new] <= high)).mean(0) > 0.8 - 3 * np.sqrt(0.16 / 41) - 0.02)
    before = model.predict_dist(X[new]).std()
    model.recalibrate(X[new], Y[new])
    assert np.all(np.abs(np.log(model.predict_dist(X[new]).std() / before).mean(0)) < 1)
    assert_inside(model, X[train])
    with pytest.raises(ValueError, match="which does not contain the target"):
        model.recalibrate(X[new], Y[new] + [0, 0.5])
    both = TGGMRegressor(**{**options, "max_epochs": 2}, support=(-50, 50)).fit(X[train], Y[train])
    assert both.support_ == 2 * [(-50.0, 50.0, None)]


def test_without_a_support_predictions_are_equal_to_the_bit(line):
    X, y = line[0][:ROWS], line[1][:ROWS]
    auto, none = (TGGMRegressor(**QUICK, support=s).fit(X, y) for s in ("auto", None))
    assert auto.support_ is None
    assert_array_equal(auto.predict_dist(X).logpdf(y), none.predict_dist(X).logpdf(y))
    assert_array_equal(auto.predict(X), none.predict(X))


def test_targets_that_cannot_have_a_support(line):
    X, y = line[0][:ROWS], np.maximum(line[1][:ROWS], 0.0)
    short = {**QUICK, "max_epochs": 2}
    assert TGGMRegressor(**short).fit(X, y, censored=-1 * (y == 0)).support_ is None
    with pytest.raises(ValueError, match="`support` has 3 entries, and `y` has 2 outputs"):
        TGGMRegressor(**short, support=[(0, None), None, None]).fit(X, np.stack([y, y], 1))
    given = TGGMRegressor(**short, support=(0, None))
    with pytest.raises(ValueError, match="`support` must be 'auto' or None for a stream"):
        given.fit(from_arrays(X, y))
    with pytest.raises(ValueError, match=r"`support` is .*, which does not contain the target -1\."):
        given.fit(X, y - 1)
    assert given.fit(X, y, censored=1 * (y > 1)).support_ == (0.0, None, None)


def test_a_given_lattice_is_used_and_calibrated_on_its_cells(line):
    X, y = line[0][:ROWS], np.clip(np.round(2 * line[1][:ROWS]), -2, 2)
    model = TGGMRegressor(**QUICK, support=(-2, 2, 1)).fit(X, y)
    assert model.support_ == (-2.0, 2.0, 1.0)
    p = np.exp(model.predict_dist(X).logpmf(np.arange(-2.0, 3.0)[None, :]))
    assert_allclose(p.sum(1), 1, rtol=1e-9)
    assert_allclose(p.mean(0), [np.mean(y == k) for k in range(-2, 3)], atol=0.04)


def log_of(X, y):
    return shifted_log(X, y, np.where(y > 0, 0.0, -1.0), 0.0)


@pytest.mark.parametrize("unit", [1.0, 1e4])
def test_the_logarithm_is_chosen_for_a_long_tail_above_zero(unit):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 3))
    z = X[:, 0] + 0.7 * rng.standard_normal(800)
    assert log_of(X, unit * np.maximum(z, 0.0)) is None
    found = log_of(X, unit * np.maximum(np.exp(2 * z) - 1, 0.0))
    assert isinstance(found, LogTransform)
    assert 0 < found.shift < 100 * unit
    tail = np.where(z == z.max(), 1e4, np.maximum(np.exp(2 * z) - 1, 0.0))  # one value gains 10⁴ nats
    assert log_of(X, unit * tail) is not None


def test_intervals_alone_may_have_a_logarithm():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = np.exp(2 * X[:, :1] + 0.5 * rng.standard_normal((300, 1)))
    for plan in (NO_PLAN, plan_support(Support(0.0), y[:, 0])):
        found = read_transform("auto", X, np.floor(y) + 0.5, np.full((300, 1), 2.0), np.ones(300), plan)
        assert isinstance(found, LogTransform)


def test_capped_prices_may_have_a_logarithm():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 3))
    y = np.minimum(np.exp(X[:, :1] + 0.5 * rng.standard_normal((800, 1))), 2.0)
    found = read_transform("auto", X, y, None, np.ones(800), plan_support("auto", y[:, 0]))
    assert isinstance(found, LogTransform)


def test_tobit_scores_are_log_likelihoods_of_the_target():
    """On noise-free parameters: many rows, one column, against the density of the truth."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 1))
    z = 0.3 + X[:, 0] + 0.5 * rng.standard_normal(4000)
    log = LogTransform(2.0)
    for see, back in ((None, z), (log, log.inverse(z))):
        y = np.maximum(back, 0.2)
        limit = 0.2 if see is None else see.forward(np.array(0.2))
        density = norm.logpdf(z, 0.3 + X[:, 0], 0.5) - (0.0 if see is None else z)
        true = np.where(y > 0.2, density, norm.logcdf(limit, 0.3 + X[:, 0], 0.5))
        found = tobit_scores(X, y, np.where(y > 0.2, 0.0, -1.0), see)
        assert_allclose(found.mean(), true.mean(), atol=5e-3)


def test_the_scale_of_a_target_with_many_limits_is_that_of_the_latent_value():
    z = np.random.default_rng(0).normal(5, 2, (20_000, 1))
    end = 3.0  # 16 % are below
    y, side = np.minimum(z, end), 1.0 * (z > end)
    scale = latent_scale(Columns.of(y, np.ones(len(y))), y, side)
    assert_allclose((scale.shift[0], scale.scale[0]), (5, 2), rtol=0.03)
    assert latent_scale(scale, y, np.ones_like(y)) is scale  # nothing is measured


def test_survival_is_calibrated_if_most_rows_are_censored():
    rng, rows = np.random.default_rng(1), 600
    X = rng.standard_normal((6 * rows, 6))
    rate = np.exp(0.5 * X[:, 0]) / 10
    time, end = rng.exponential(1 / rate), rng.uniform(0.5, 1.5, len(X))
    y, limit = np.minimum(time, end), (time > end).astype(float)
    assert 0.88 < limit.mean() < 0.92
    model = TGGMRegressor(n_members=4, hidden=(12,), random_state=0)
    model.fit(X[:rows], y[:rows], censored=limit[:rows])
    found = model.predict_survival(X[rows:], [0.5, 1.0]).mean(0)
    truth = np.exp(-rate[rows:, None] * [0.5, 1.0]).mean(0)
    assert_allclose(found, truth, atol=0.035)  # too low by 0.055 if limits set the scale
