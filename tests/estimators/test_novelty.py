"""Rows unlike the training rows: beyond their range, with unknown words, missing values and columns."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import tggm
from tggm import TableWarning, TGGMClassifier, TGGMRegressor
from tggm.predictive.marginal import fill_unknown

SETTINGS = {"n_members": 4, "max_epochs": 60, "random_state": 0}
FUNCTIONS = {"line": lambda x: 3 * x, "square": np.square, "sine": np.sin}
FUNCTIONS |= {"exponential": np.exp, "step": np.sign}
FAR = pytest.mark.filterwarnings("ignore:`X` has values more than one range")


@cache
def fitted(name):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1000, 2))
    return TGGMRegressor(**SETTINGS).fit(X, FUNCTIONS[name](X[:, 0]) + 0.1 * rng.standard_normal(1000))


def at(*values):
    return np.array([[value, 0.0] for value in values])


@pytest.fixture(scope="module")
def line():
    return fitted("line")


@FAR
@pytest.mark.parametrize("name", ["line", "square", "sine"])
def test_intervals_beyond_the_range_hold_the_truth(name):
    X = at(1.5, 2.0, 5.0)
    low, high = fitted(name).predict_interval(X, 0.95)
    truth = FUNCTIONS[name](X[:, 0])
    assert ((low <= truth) & (truth <= high)).all()


@FAR
@pytest.mark.parametrize("name", FUNCTIONS)
def test_widths_never_fall_back(name):
    std = fitted(name).predict(at(0.9, 1.5, 2.0, 5.0, 20.0, 100.0), return_std=True)[1]
    assert (np.diff(std) > 0).all()


@FAR
def test_a_line_has_useful_widths(line):
    low, high = line.predict_interval(at(0.5, 5.0), 0.95)
    assert low[1] <= 15 <= high[1]
    assert (high - low)[1] / 2 < 3 * (15 - 3)
    _, noise, doubt = line.predict(at(5.0), return_std="parts")
    assert_allclose(np.hypot(noise, doubt), line.predict(at(5.0), return_std=True)[1])
    assert doubt > 10 * noise


@FAR
@pytest.mark.parametrize("name", ["line", "sine", "exponential"])
def test_columns_without_effect_do_not_widen(name, tmp_path):
    model, X = fitted(name), np.array([[0.5, 0.0], [0.5, 20.0]])
    std = model.predict(X, return_std=True)[1]
    assert std[1] < 1.1 * std[0]
    tggm.save(model, tmp_path / "m.tggm")
    portable = tggm.load(tmp_path / "m.tggm", backend="numpy")
    assert_allclose(portable.predict(X, return_std=True)[1], std, rtol=1e-4)


def test_novelty_and_its_warning(line):
    X = np.random.default_rng(1).uniform(-1, 1, (200, 2))
    assert np.median(line.novelty(X)) < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        line.predict(1.2 * X)  # near the edge
    novelty = line.novelty(at(1.5, 2.0, 5.0))
    assert (np.diff([1.0, *novelty]) > 0).all()
    with pytest.warns(TableWarning, match=r"outside of it in x0 \(50 % of the rows\)") as caught:
        line.predict(np.array([[5.0, 9.0], [0.0, 9.0]]))
    assert len(caught) == 1


@FAR
def test_a_model_file_keeps_the_rows(line, tmp_path):
    X = np.array([[0.3, 0.1], [4.0, 0.0], [np.nan, 0.5], [np.nan, np.nan]])
    tggm.save(line, tmp_path / "m.tggm")
    with pytest.warns(TableWarning, match=r"without any in training \(x0, x1\); predictions av"):
        low, high = line.predict_interval(X)
    for backend, same in (("jax", 0), ("numpy", 1e-4)):
        again = tggm.load(tmp_path / "m.tggm", backend=backend)
        with pytest.warns(TableWarning, match="missing values"):
            assert_allclose(again.predict_interval(X), (low, high), rtol=same)
    assert (high - low)[2] > 10 * (high - low)[0]
    arrays, meta = tggm.estimators.to_state(line)
    arrays["train.rows"] = arrays["train.rows"][:, :1]
    with pytest.raises(ValueError, match=r"'train.rows' has shape \(500, 1\); expected \(500, 2\)"):
        tggm.estimators.from_state(TGGMRegressor, arrays, meta)


def stores():
    """Return rows of 60 stores with effects of their own, and of 400 new ones."""
    rng = np.random.default_rng(0)
    store, x = np.append(rng.integers(0, 60, 1200), np.arange(60, 460)), rng.uniform(-2, 2, 1600)
    y = rng.standard_normal(460)[store] + np.sin(x) + 0.3 * rng.standard_normal(1600)
    return pd.DataFrame({"store": [f"s{s}" for s in store], "x": x}), y, store >= 60


def test_new_words_and_absent_columns_are_marginalised():
    X, y, new = stores()
    model = TGGMRegressor(**SETTINGS | {"max_epochs": 40}).fit(X[~new], y[~new])
    low, high = model.predict_interval(X[~new], 0.9)
    with pytest.warns(TableWarning, match="unknown categories"):
        wide = model.predict_interval(X[new], 0.9)
    assert 0.8 <= np.mean((wide[0] <= y[new]) & (y[new] <= wide[1])) <= 0.97
    assert np.mean(wide[1] - wide[0]) == pytest.approx(2 * 1.645 * np.hypot(1, 0.3), rel=0.3)
    assert np.mean(high - low) < 0.6 * np.mean(wide[1] - wide[0])
    both = pd.concat([X[~new][:50], X[new][:5]])
    assert_allclose(np.array(model.predict_interval(both, 0.9))[:, :50], (low[:50], high[:50]), rtol=1e-5)
    with pytest.warns(TableWarning, match="has no column 'store'; predictions average") as caught:
        assert_allclose(model.predict_interval(X[new][["x"]], 0.9), wide, rtol=1e-5)
    assert len(caught) == 1


def test_new_words_are_not_counted_as_the_rare_words_of_training():
    X, y, new = stores()
    known = X["store"].isin([f"s{k}" for k in range(40)]).to_numpy()
    X.loc[X.index[known][:2], "store"] = ["odd", "rare"]
    model = TGGMRegressor(**SETTINGS | {"max_epochs": 40}).fit(X[known], y[known])
    assert model.fitted_.columns.encoder.columns_[0].rare == ("odd", "rare")
    with pytest.warns(TableWarning, match="unknown categories"):
        std = model.predict(X[new], return_std=True)[1]
    assert std.mean() > 2 * model.predict(X[known], return_std=True)[1].mean()


@pytest.mark.parametrize("kind", [str, int])
def test_new_words_and_numbers_have_no_target_encoding(kind):
    rng = np.random.default_rng(0)
    of = np.concatenate([np.repeat(np.arange(250), 5), np.arange(250, 312)])  # 12 stores of one row, 50 new
    store, x = rng.permutation(np.arange(1000, 9999))[of], rng.uniform(-2, 2, len(of))
    y = rng.standard_normal(312)[of] + np.sin(x) + 0.3 * rng.standard_normal(len(of))
    X, new = pd.DataFrame({"store": [f"s{k}" for k in store] if kind is str else store, "x": x}), of >= 262
    model = TGGMRegressor(**SETTINGS | {"max_epochs": 40}).fit(X[~new], y[~new])
    assert "store: mean target" in model.table_.get_feature_names_out()
    with pytest.warns(TableWarning, match="unknown"):
        low, high = model.predict_interval(X[new], 0.9)
    assert 0.8 <= np.mean((low <= y[new]) & (y[new] <= high)) <= 0.97
    rare = model.predict_interval(X[of == 255], 0.9)
    assert rare[1] - rare[0] > 2.5  # its word has one training row


@pytest.mark.filterwarnings("ignore:`X` has missing values")
def test_first_gaps_are_marginalised():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 2))
    y = 2 * X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.standard_normal(600)
    model = TGGMRegressor(**SETTINGS | {"max_epochs": 40}).fit(X[:400], y[:400])
    gaps = np.column_stack([np.full(200, np.nan), X[400:, 1]])
    low, high = model.predict_interval(gaps, 0.9)
    assert 0.8 <= np.mean((low <= y[400:]) & (y[400:] <= high)) <= 0.97
    law = model.predict_dist(gaps[:3])
    assert_allclose(law.mean(), model.predict(gaps[:3]), rtol=1e-5)
    assert_allclose(law.std(), model.predict(gaps[:3], return_std=True)[1], rtol=1e-5)
    found = model.explain(gaps[:3], of=0.9, n_walks=2)
    assert_allclose(found.prediction, law.ppf(0.9), rtol=1e-5)
    with pytest.raises(ValueError, match="`of` must be"):
        model.explain(gaps, of=1.5)


@pytest.mark.filterwarnings("ignore:`X` has missing values")
def test_class_probabilities_are_averages_over_draws(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    model = TGGMClassifier(n_members=2, max_epochs=5, random_state=0).fit(X, X[:, 0] + X[:, 1] > 0)
    rows = np.array([[0.5, 0.2], [np.nan, 0.3]])
    scale = model.fitted_.scales.x
    full, starts = fill_unknown(scale.apply(rows), model.fitted_.neighbourhood)
    each = model.predict_proba(scale.shift + scale.scale * full)
    p = model.predict_proba(rows)
    assert_allclose(p, [each[0], each[starts[1] :].mean(0)], rtol=1e-4)
    assert_allclose(np.exp(model.predict_log_proba(rows)), p, rtol=1e-4)
    tggm.save(model, tmp_path / "m.tggm")
    assert_allclose(tggm.load(tmp_path / "m.tggm", backend="numpy").predict_proba(rows), p, rtol=1e-4)
    assert model.novelty(np.array([[0.0, 0.0], [9.0, 0.0]]))[1] > 1.2
