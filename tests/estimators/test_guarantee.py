"""Guaranteed intervals: calibration rows are used for nothing else, and new rows are inside."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from tests.estimators.small import SMALL
from tggm import TableTransformer, TGGMClassifier, TGGMRegressor, load, save
from tggm.settings import generator

QUICK = {**SMALL, "max_epochs": 30}


def sample(seed, n=60):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, X[:, 0] + np.exp(0.5 * X[:, 1]) * rng.standard_t(2, n)


@pytest.fixture(scope="module")
def fitted():
    return TGGMRegressor(**QUICK, guarantee=0.9).fit(*sample(0))


def calibration_rows(model, n, count):
    """Return the rows that a fit to n complete rows sets aside."""
    return generator(model.random_state).permutation(n)[:count]


def test_calibration_rows_do_not_affect_training_or_pooling(fitted):
    X, y = sample(0)
    chosen = calibration_rows(fitted, 60, 9)  # a tenth would be 6, which is too few
    X[chosen], y[chosen] = 50.0, np.linspace(-1e6, 1e6, 9)
    other = TGGMRegressor(**QUICK, guarantee=0.9).fit(X, y)
    for name in ("W0_", "W1_", "noise_", "best_epoch_"):
        assert_array_equal(getattr(other, name), getattr(fitted, name))
    assert other.fitted_.calibration == fitted.fitted_.calibration
    assert other.fitted_.guarantee.min() > fitted.fitted_.guarantee.max()


def test_calibration_rows_do_not_affect_the_encoder():
    X, y = sample(0, 180)
    table = pd.DataFrame({"a": X[:, 0], "word": [f"w{k % 60}" for k in range(180)]})
    model = TGGMRegressor(**QUICK, guarantee=0.9).fit(table, y)
    kept = np.setdiff1d(np.arange(180), calibration_rows(model, 180, 18))
    other = TableTransformer(task="regression").fit(table.iloc[kept], y[kept])
    assert model.table_.columns_ == other.columns_
    assert model.table_.columns_[1].outputs == ("target",)


def test_calibration_rows_do_not_affect_the_target_transform():
    X, y = sample(0)
    y = np.exp(3 * y)
    model = TGGMRegressor(**QUICK, guarantee=0.9)
    chosen = calibration_rows(model, 60, 9)
    y[chosen] = -1.0  # a row that is not positive would rule out the logarithm
    assert model.fit(X, y).fitted_.transform is not None


def test_new_rows_are_inside():
    """Small samples with heavy tails; the new rows of one fit share its scores, so a fit counts once."""
    R, level, inside = 25, 0.8, []
    for seed in range(R):
        X, y = sample(100 + seed)
        model = TGGMRegressor(**{**QUICK, "max_epochs": 2, "random_state": seed}, guarantee=level)
        fresh, truth = sample(1000 + seed)
        low, high = model.fit(X, y).predict_interval(fresh, level, guarantee=True)
        inside.append(np.mean((low <= truth) & (truth <= high)))
    # coverage of a fit is Beta(k, M + 1 − k), M = 6 and k = 6, less than 0.13 wide; then 60 rows of it
    exact = 6 / 7
    error = np.sqrt((exact * (1 - exact) / 8 + exact * (1 - exact) / 60) / R)
    assert abs(np.mean(inside) - exact) < 4 * error


def test_recalibration_gives_a_guarantee():
    X, y = sample(2)
    Y = np.column_stack([y, y**2])
    model = TGGMRegressor(**QUICK).fit(X, Y)
    message = r"no rows were set aside for it: fit with TGGMRegressor\(guarantee=0.9"
    with pytest.raises(ValueError, match=message):
        model.predict_interval(X, guarantee=True)
    fresh, truth = sample(3)
    truth = np.column_stack([truth, truth**2])
    low, high = model.recalibrate(fresh, truth).predict_interval(fresh, 0.9, guarantee=True)
    assert low.shape == (60, 2)
    # ⌈61 · 0.9⌉ of the calibration rows themselves are inside
    assert_array_equal(((low <= truth) & (truth <= high)).sum(0), [55, 55])


def test_only_measured_targets_are_calibration_rows():
    X, y = sample(4)
    side = np.zeros(60)
    side[::2] = 1
    model = TGGMRegressor(**QUICK, guarantee=0.9).fit(X, y, censored=side)
    assert np.isfinite(model.fitted_.guarantee).sum() == 9
    low, high = model.predict_interval(X, 0.9, guarantee=True)
    assert np.isfinite(high - low).all()
    either = np.stack([np.where(side == 1, np.nan, y), np.where(side == 0, np.nan, y)], 1)
    with pytest.raises(ValueError, match="18 rows with measured targets are needed, and there are 0"):
        TGGMRegressor(**QUICK, guarantee=0.9).fit(X, either)


def test_levels_that_cannot_be_guaranteed_are_rejected(fitted):
    X, y = sample(0)
    message = r"`guarantee` is 0.99, for which 99 rows are set aside; at least 198"
    with pytest.raises(ValueError, match=message):
        TGGMRegressor(**QUICK, guarantee=0.99).fit(X, y)
    with pytest.raises(ValueError, match=r"0\.95"):
        fitted.predict_interval(X, 0.95, guarantee=True)


def test_recalibration_needs_twenty_rows():
    X, y = sample(5)
    model = TGGMRegressor(**QUICK).fit(X, y)
    for n in (1, 2, 5, 19):
        with pytest.raises(ValueError, match=f"`recalibrate` needs at least 20 rows; got {n}"):
            model.recalibrate(X[:n], y[:n])
    with pytest.raises(ValueError, match=r"at least 20 rows of equal weight; these weights are worth 1\.0"):
        model.recalibrate(X, y, sample_weight=np.r_[1e6, np.ones(59)])
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        model.recalibrate(X, y, -np.ones(60))
    few = model.recalibrate(X[:20], y[:20]).fitted_
    weighted = model.recalibrate(X, y, np.arange(60) < 20).fitted_
    assert few.calibration == weighted.calibration
    assert_array_equal(few.guarantee, weighted.guarantee)


def test_weights_adapt_the_width_to_shifted_rows():
    """The noise is nine times as large in half of the rows, which the columns do not show."""
    rng = np.random.default_rng(0)
    X, quiet = rng.standard_normal((1500, 3)), np.where(rng.random(1500) < 0.5, 0.1, 0.9)
    X[:, 2] = quiet > 0.5
    y = X[:, 0] + quiet * rng.standard_normal(1500)
    model = TGGMRegressor(**QUICK).fit(X[:, :2], y)
    std = {}
    for share in (0.05, 0.5, 0.95):  # of noisy rows among those to predict
        weight = np.where(X[:, 2] > 0, share, 1 - share)
        std[share] = model.recalibrate(X[:, :2], y, weight).predict(X[:, :2], return_std=True)[1].mean()
        assert (model.fitted_.guarantee is None) == (share != 0.5)
        truth = np.sqrt(share * 0.9**2 + (1 - share) * 0.1**2)
        assert 0.7 < std[share] / truth < 1.6


@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(60), 5)])
def test_sets_of_classes_contain_the_label(groups, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 3))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + rng.standard_normal(900), [-0.7, 0.7])]
    settings = {**QUICK, "hidden": (4,), "guarantee": 0.8}
    model = TGGMClassifier(**settings).fit(X[:300], y[:300], groups=groups)
    assert model.fitted_.guarantee.shape == (1, 30 if groups is None else 6)
    found, p = model.predict_set(X[300:], 0.8), model.predict_proba(X[300:])
    assert found[np.arange(600), p.argmax(1)].all()
    inside = found[np.arange(600), np.searchsorted(model.classes_, y[300:])].mean()
    assert inside > 0.8 - 3 * np.sqrt(0.16 / (2 + model.fitted_.guarantee.size))
    assert found.mean() < 1
    save(model, tmp_path / "m.tggm")
    for backend in ("jax", "numpy"):
        assert_array_equal(load(tmp_path / "m.tggm", backend=backend).predict_set(X[300:], 0.8), found)
    with pytest.raises(ValueError, match="`level` must be at most"):
        model.predict_set(X, 0.99)
    with pytest.raises(ValueError, match=r"fit with TGGMClassifier\(guarantee=0.9\)"):
        TGGMClassifier(**QUICK).fit(X, y).predict_set(X)


def test_calibration_rows_of_classes_do_not_affect_training():
    X, _ = sample(0)
    y = X[:, 0] > 0
    model = TGGMClassifier(**QUICK, guarantee=0.9).fit(X, y)
    chosen = calibration_rows(model, 60, 9)
    X[chosen] = 50.0
    other = TGGMClassifier(**QUICK, guarantee=0.9).fit(X, y)
    assert_array_equal(other.W0_, model.W0_)
