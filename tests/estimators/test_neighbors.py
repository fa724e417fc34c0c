"""Fits with neighbours: where they are used, and that they help where rows repeat."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from tggm import TGGMClassifier, TGGMRegressor, load, save
from tggm.data import from_arrays
from tggm.estimators._neighbors import _choose_rule, calibration_of_rest
from tggm.predictive.calibration import Calibration, HeldOut, fit_calibration
from tggm.predictive.member_moments import places
from tggm.predictive.neighbors import Candidates, Rule

FAST = {"hidden": (12,), "features": None, "n_members": 4, "max_epochs": 8, "random_state": 0}


def repeated(rng, rows=400):
    """Return rows that occur about four times, with a target that a small network cannot fit."""
    X = rng.normal(size=(rows // 4, 3))
    level = rng.normal(size=rows // 4)
    kind = rng.integers(0, rows // 4, rows)
    return X[kind], level[kind] + 0.05 * rng.normal(size=rows), kind


def crps(model, X, y):
    return float(np.mean(model.predict_dist(X).crps(y)))


def test_neighbors_are_used_where_rows_repeat(rng, tmp_path):
    X, y, _ = repeated(rng)
    settings = {**FAST, "gaussian_process": False}  # which predicts repeated rows, too
    fits = [TGGMRegressor(**settings, neighbors=n).fit(X[:300], y[:300]) for n in (False, "auto")]
    assert fits[0].fitted_.neighbors is None
    assert fits[1].fitted_.neighbors is not None
    plain, near = (crps(model, X[300:], y[300:]) for model in fits)
    assert near < 0.6 * plain
    assert_allclose(fits[1].predict(X), fits[1].predict_dist(X).mean())
    late = TGGMRegressor(**FAST, time_budget=1e-3).fit(X[:300], y[:300])
    assert (late.n_iter_, late.fitted_.neighbors, late.fitted_.process) == (1, None, None)
    save(fits[1], tmp_path / "m.tggm")
    again = load(tmp_path / "m.tggm")
    assert_array_equal(again.predict_quantiles(X), fits[1].predict_quantiles(X))
    mean, noise, between = fits[1].predict(X, return_std="parts")
    assert_allclose(np.hypot(noise, between), fits[1].predict(X, return_std=True)[1])
    assert_allclose(mean, fits[1].predict(X))


@pytest.mark.parametrize("cells", [False, True])
def test_rows_that_kernels_predict_do_not_set_the_width_of_others(rng, cells):
    """Half of the rows are equal to their neighbour; the errors of the others have a deviation of 2."""
    N, known = 2000, np.arange(2000) < 1000
    y = np.where(known, 0.5 * rng.normal(size=N), 2 * rng.normal(size=N))
    ends = (y - 0.05, y + 0.05) if cells else None
    held = HeldOut(np.zeros((1, N)), np.ones((1, N)), np.ones((1, N), bool), y, np.ones(N), ends=ends)
    values, rule = np.where(known, y, 50.0)[:, None], Rule(1, 0.5, 1.0, width=0.02)
    before = fit_calibration(held)
    after = calibration_of_rest(before, held, np.full((N, 1), 0.5), values, rule)
    assert before.factors[0] < 1.5
    assert 1.85 < after.distribution(*np.array([[0.0], [1.0], [0.0]])).std()[0] < 2.15


@pytest.mark.parametrize("wide", [0, 100])
def test_a_calibration_that_makes_crps_much_worse_is_not_used(rng, wide):
    """Kernels predict most of the narrow rows; the others are 100 widths away, where wide rows are not."""
    y = np.concatenate([np.zeros(800), rng.choice([-1.0, 1.0], 100), rng.normal(size=wide)])
    N, narrow = len(y), np.arange(len(y)) < 900
    var = np.tile(np.where(narrow, 1e-4, 1.0), (2, 1))
    held = HeldOut(np.zeros((2, N)), var, np.ones((2, N), bool), y, np.ones(N))
    near = Candidates(np.where(narrow, 0.0, 1e9)[:, None], np.zeros((N, 1), int), 1.0)
    before = (Calibration("student", (1.0, 1.0, 0.2)),)
    found = _choose_rule(near, [held], before, lambda _: np.zeros((1, 1)), [(0.0, 0.1)], None, 1, None)
    assert (found[1] == before) == (wide > 0)


def test_neighbors_are_left_out_where_they_do_not_help(rng):
    X = rng.normal(size=(600, 3))
    y = X[:, 0] + rng.normal(size=600)
    fits = [TGGMRegressor(**FAST, neighbors=n).fit(X, y) for n in (False, "auto")]
    assert fits[1].fitted_.neighbors is None
    assert_array_equal(*(model.predict_quantiles(X) for model in fits))


def test_neighbors_of_classes(rng):
    X, _, kind = repeated(rng)
    label = np.array(["a", "b", "c"])[rng.integers(0, 3, 100)[kind]]
    fits = [TGGMClassifier(**FAST, neighbors=n).fit(X[:300], label[:300]) for n in (False, "auto")]
    assert fits[1].fitted_.neighbors is not None
    plain, near = (model.label_log_proba(X[300:], label[300:]).mean() for model in fits)
    assert near > plain + 0.2
    p = fits[1].predict_proba(X)
    assert_allclose(p.sum(1), 1)
    assert_allclose(np.exp(fits[1].predict_log_proba(X)), p, rtol=1e-4)


def test_weights_censored_rows_several_outputs_and_logarithms(rng):
    X, y, _ = repeated(rng, 200)
    side = np.where(np.arange(200) % 5 == 0, 1, 0)
    limited = TGGMRegressor(**FAST, neighbors=3).fit(X, y, censored=side)
    assert len(limited.fitted_.neighbors.points) == 160
    assert TGGMRegressor(**FAST).fit(X, y, censored=side).fitted_.neighbors is None
    weight = 1.0 + (np.arange(200) % 2)
    several = TGGMRegressor(**FAST, neighbors=3).fit(X, np.stack([y, -y], 1), weight)
    assert_allclose(np.unique(several.fitted_.neighbors.weight), [2 / 3, 4 / 3], rtol=1e-6)
    joint = several.predict_dist(X[:5])
    assert_allclose(joint.mean(), several.predict(X[:5]))
    assert np.isfinite(joint.logpdf(np.stack([y, -y], 1)[:5])).all()
    logs = TGGMRegressor(**FAST, neighbors=3, target_transform="log").fit(X, np.exp(y))
    assert (logs.predict_quantiles(X) > 0).all()
    assert_allclose(logs.predict_dist(X).cdf(logs.predict_quantiles(X, [0.3])[:, 0]), 0.3)


def test_a_neighbor_at_a_limit_gives_its_weight_to_the_atom(rng):
    X, y, _ = repeated(rng)
    y = np.maximum(y, 0.0)
    model = TGGMRegressor(**FAST, target_transform=None).fit(X[:300], y[:300])
    near, rows = model.fitted_.neighbors, X[300:]
    assert near is not None
    alone = TGGMRegressor(**FAST, target_transform=None, neighbors=False).fit(X[:300], y[:300])
    assert crps(model, rows, y[300:]) < 0.7 * crps(alone, rows, y[300:])
    assert_array_equal(near.value[:, 0] < -2, y[:300] == 0)
    fitted, Z = model.fitted_, model._inputs(rows)
    found = near.near(places(fitted.model, Z.astype(np.float32), near.projection))
    law = alone.predict_dist(rows)._latent
    shift, scale = (float(a[0]) for a in fitted.scales.y)
    centre = shift + scale * found.value[:, :, 0]
    width = near.rule.width * law.std()[:, None]
    below = np.where(found.value[:, :, 0] < -2, 1.0, norm.cdf(-centre / width))
    want = (found.weight * below).sum(1) + (1 - found.weight.sum(1)) * law.cdf(0.0)
    assert_allclose(model.predict_dist(rows).cdf(0.0), want, atol=1e-6)
    model.recalibrate(rows, y[300:])
    assert model.fitted_.neighbors is not None


def test_streams_store_training_rows(rng):
    X, y, _ = repeated(rng, 600)
    model = TGGMRegressor(**FAST, neighbors=4).fit(from_arrays(X, y))
    stored = model.fitted_.neighbors
    assert 400 < len(stored.points) < 600
    assert np.isfinite(model.predict_quantiles(X)).all()


def test_explanations_and_guarantees_work_with_neighbors(rng):
    X, y, _ = repeated(rng)
    model = TGGMRegressor(**FAST, neighbors=3, guarantee=0.8).fit(X, y)
    low, high = model.predict_interval(X, 0.8, guarantee=True)
    assert np.mean((low <= y) & (y <= high)) > 0.7
    found = model.explain(X[:3], X, n_walks=2)
    assert_allclose(found.base + found.parts.sum(1), model.predict(X[:3]), rtol=1e-5, atol=1e-6)
    model.recalibrate(X, y)
    assert model.fitted_.neighbors is not None
