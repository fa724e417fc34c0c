"""The regressor: fitting, weights, warm starts, observers, files."""

import re

import jax
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.exceptions import NotFittedError
from tggm.training.observer import Observer

from tests.cases import few
from tests.estimators.small import SMALL, UNPOOLED
from tggm import Censored, TGGMRegressor, load, save

QUICK = {**SMALL, **UNPOOLED, "max_epochs": 60, "learning_rate": 0.03, "init": "scaled"}


def quick(**settings):
    return TGGMRegressor(**{**QUICK, **settings})


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 3))
    return X, np.abs(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(60)


@pytest.fixture(scope="module")
def fitted(table):
    return quick().fit(*table)


def test_learned_attributes_are_the_model_in_the_units_of_the_data(table, fitted):
    X, _ = table
    means, variances = [], []
    for W0, b0, W1, b1, s1 in zip(fitted.W0_, fitted.b0_, fitted.W1_, fitted.b1_, fitted.noise_, strict=True):
        a = X @ W0.T + b0[None, :]
        h = stats.truncnorm(-a / fitted.sigma0, np.inf, loc=a, scale=fitted.sigma0)
        means.append(h.mean() @ W1[0] + b1[0])
        variances.append(h.var() @ W1[0] ** 2 + s1[0])
    mean, std = fitted.predict(X, return_std=True)
    assert_allclose(mean, np.mean(means, axis=0), atol=1e-4)
    assert_allclose(std**2, np.mean(variances, axis=0) + np.var(means, axis=0), rtol=1e-3)


def test_it_learns(table, fitted):
    assert fitted.score(*table) > 0.8
    assert fitted.n_iter_ == 60
    assert fitted.history_["train"].shape == fitted.history_["held_out"].shape == (2, 60)
    assert fitted.converged_
    assert np.all((fitted.best_epoch_ >= 1) & (fitted.best_epoch_ <= 60))


def test_what_is_learned_ends_in_an_underscore(fitted):
    """As scikit-learn's convention is: settings keep their names and values."""
    added = {name for name in vars(fitted) if name not in fitted.get_params() and not name.startswith("_")}
    assert all(name.endswith("_") for name in added)
    assert {name: getattr(fitted, name) for name in QUICK} == QUICK
    assert not any(hasattr(fitted, name) for name in ("decision_function", "predict_proba"))


# mean fields learn in test_deep.py, too, EP in test_targets.py; gradients of all: test_methods.py
@pytest.mark.parametrize("method", few(["bp", "meanfield", "ep", "exact"], "exact"))
@pytest.mark.usefixtures("usual_shapes")  # some take their time for each row
def test_every_method_learns(table, method):
    assert quick(method=method).fit(*table).score(*table) > 0.7


def test_same_seed_same_model(table, fitted):
    assert_array_equal(quick().fit(*table).predict(table[0]), fitted.predict(table[0]))
    assert not np.array_equal(quick(random_state=1).fit(*table).W0_, fitted.W0_)


def test_double_precision_leaves_the_global_configuration_alone(table, fitted):
    before = jax.config.jax_enable_x64
    with jax.enable_x64(False):
        model = quick(dtype="float64").fit(*table)
        assert not jax.config.jax_enable_x64
    assert jax.config.jax_enable_x64 == before
    assert model.fitted_.model.hidden.W0.dtype == np.float64
    assert fitted.fitted_.model.hidden.W0.dtype == np.float32
    assert model.score(*table) > 0.8


def test_units_do_not_matter(table, fitted):
    X, y = table
    scale, shift = np.array([1e6, 1e-6, 3.0]), np.array([1e6, -2e-6, 0.0])
    moved = quick().fit(X * scale + shift, 1e6 * y - 3e6)
    assert_allclose(moved.predict(X * scale + shift), 1e6 * fitted.predict(X) - 3e6, rtol=1e-2, atol=3e4)


def test_constant_column_is_harmless(table):
    """0.998 repeated has a floating standard deviation that is not 0."""
    X, y = table
    flat = np.column_stack([X[:, :2], np.full(len(X), 0.998)])
    model = quick(max_epochs=150).fit(flat, y)
    assert model.score(flat, y) > 0.8
    assert np.isfinite(model.W0_).all()


def test_constant_target(table):
    X, _ = table
    mean, std = quick().fit(X, np.full(len(X), 5.0)).predict(X, return_std=True)
    assert_allclose(mean, 5.0, atol=0.3)
    assert np.all(np.isfinite(std))


@pytest.mark.usefixtures("usual_shapes")  # the same sums: with more padding their last digit may differ
def test_batch_larger_than_data_is_the_whole_data(table):
    a, b = (quick(batch_size=size, max_epochs=5).fit(*table).W0_ for size in (64, 100_000))
    assert_array_equal(a, b)


@pytest.mark.slow  # several outputs: test_prediction.py, test_deep.py
def test_several_outputs(table):
    X, y = table
    model = quick(max_epochs=120).fit(X, np.column_stack([y, -y, X[:, 2]]))
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (60, 3)
    assert model.score(X, np.column_stack([y, -y, X[:, 2]])) > 0.8
    assert model.W1_.shape == (2, 3, 6)
    column = quick().fit(X, y[:, None])
    assert column.predict(X).shape == (60, 1)
    assert_allclose(column.predict(X)[:, 0], quick().fit(X, y).predict(X))


def test_feature_names(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = quick().fit(frame, pd.Series(y))
    assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    assert_array_equal(model.predict(frame), quick().fit(X, y).predict(X))
    assert_array_equal(model.predict(frame[["b", "a", "c"]]), model.predict(frame))
    with pytest.raises(ValueError, match="'b'"):
        model.predict(frame[["a", "c"]])


def test_fixed_noise_is_kept(table):
    X, y = table
    assert_allclose(quick(noise=0.2).fit(X, y).noise_, 0.2 * y.var(), rtol=1e-5)
    several = quick(noise=[0.1, 0.3, 0.2], standardize=False, max_epochs=2).fit(X, np.column_stack([y, y, y]))
    assert_allclose(several.noise_, [[0.1, 0.3, 0.2]] * 2, rtol=1e-6)


def test_zero_weights_leave_rows_out(table):
    X, y = table
    weight = np.r_[np.zeros(6), np.ones(54)]
    spoiled = np.r_[np.full(6, 1e9), y[6:]]
    got = quick().fit(X, spoiled, sample_weight=weight).predict(X)
    assert_array_equal(got, quick().fit(X[6:], y[6:]).predict(X))


def test_weights_pull(table):
    """Two contradicting halves: the prediction follows the heavier one."""
    X, y = table
    heavy = np.r_[np.full(30, 20.0), np.ones(30)]
    model = quick().fit(np.r_[X[:30], X[:30]], np.r_[y[:30], y[:30] + 10], sample_weight=heavy)
    assert abs(np.mean(model.predict(X[:30]) - y[:30]) - 10 / 21) < 0.5


def test_warm_start_goes_on(table):
    X, y = table
    model = quick(warm_start=True, max_epochs=20, early_stopping=False).fit(X, y)
    first = model.history_["train"][:, 0].mean()
    model.fit(X, y)
    assert model.history_["train"][:, 0].mean() > first + 0.2
    model.set_params(hidden=(4,)).fit(X, y)  # another shape starts afresh
    assert model.W0_.shape == (2, 4, 3)


@pytest.mark.parametrize(("sigma0", "other"), [(0.1, 0.5), (1e-5, 3e-5)])
def test_warm_start_with_another_gauge_starts_afresh(table, sigma0, other):
    """The weights belong to the σ0 that they were trained with, however small."""
    model = quick(warm_start=True, sigma0=sigma0, max_epochs=2).fit(*table)
    model.set_params(sigma0=other).fit(*table)
    afresh = quick(sigma0=other, max_epochs=2).fit(*table)
    assert_array_equal(model.W0_, afresh.W0_)
    assert_allclose(model.fitted_.model.hidden.s0, other**2, rtol=1e-6)
    with pytest.raises(ValueError, match="`sigma0` and `dtype` must stay what they were"):
        model.set_params(sigma0=sigma0).partial_fit(*table)


def test_partial_fit_learns_in_pieces(table):
    X, y = table
    model = quick(learning_rate=0.02)
    for _ in range(60):
        for part in (slice(0, 50), slice(10, 60)):
            model.partial_fit(X[part], y[part])
    assert model.score(X, y) > 0.8
    with pytest.raises(ValueError, match="`y` has 2 outputs, but this model was fitted to 1"):
        model.partial_fit(X, np.column_stack([y, y]))


class Watcher(Observer):
    """Remembers what it was told."""

    def __init__(self):
        self.told, self.train = [], []

    def planned(self, epochs):
        self.told.append(("planned", epochs))

    def progressed(self, epochs, trace):
        self.told.append(("progressed", epochs))
        self.train.append(trace.train)


class Impatient(Observer):
    def progressed(self, epochs, trace):
        raise KeyboardInterrupt


def test_interrupted_training_keeps_the_best(table, capsys):
    model = quick().fit(*table, observer=Impatient())
    assert model.interrupted_
    assert not model.converged_
    assert 0 < model.n_iter_ < 60
    assert np.isfinite(model.predict(table[0])).all()
    assert "Interrupted after 1 epochs" in capsys.readouterr().err


def test_progress_is_printed_or_told_to_an_observer(table, capsys):
    quick(verbose=True).fit(*table)
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"epoch 60/60  objective -?[0-9.]+  held out -?[0-9.]+", lines[-1])
    quick(verbose=True, early_stopping=False).fit(*table)
    assert re.fullmatch(r"epoch 60/60  objective -?[0-9.]+", capsys.readouterr().out.splitlines()[-1])
    watcher = Watcher()
    model = quick(verbose=True).fit(*table, observer=watcher)
    assert capsys.readouterr().out == ""  # whoever watches prints for himself
    assert watcher.told[0] == ("planned", 60)
    assert watcher.told[-1] == ("progressed", 60)
    assert_array_equal(np.concatenate(watcher.train, axis=1), model.history_["train"])


def test_patience_stops_early(table):
    model = quick(max_epochs=5000, patience=5, learning_rate=0.1).fit(*table)
    assert model.n_iter_ < 5000
    assert model.n_iter_ == model.best_epoch_.max() + 5


def test_saved_model_predicts_bit_identically(table, fitted, tmp_path):
    save(fitted, tmp_path / "model.tggm")
    again = load(tmp_path / "model.tggm")
    assert_array_equal(again.predict(table[0]), fitted.predict(table[0]))
    assert again.get_params() == fitted.get_params()
    assert_array_equal(again.best_epoch_, fitted.best_epoch_)
    again.partial_fit(*table)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[np.inf], [1.0]], [1.0, 2.0], "Input X contains infinity"),
        ([[0.0], [1.0]], [1.0, np.nan], r"Input y contains NaN. Leave such rows out: keep = np.isfinite"),
        ([[0.0], [1.0]], Censored([1.0, 2.0], [0, 1]), r"pass its parts: fit\(X, y.value, censored=y.side"),
        ([[0.0], [1.0]], [np.inf, 2.0], "Input y contains infinity"),
        (np.zeros((0, 2)), [], r"Found array with 0 sample\(s\)"),
        (np.zeros((2, 0)), [1.0, 2.0], r"0 feature\(s\)"),
        (
            [["red"], ["blue"]],
            [1.0, 2.0],
            "has no column that a model could use .x0: its words",
        ),
        ([[0.0], [1.0]], [1.0], "inconsistent numbers of samples"),
        ([0.0, 1.0], [1.0, 2.0], "Expected 2D array"),
    ],
)
def test_bad_data(X, y, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y)


def test_exact_is_for_one_output(table):
    X, y = table
    with pytest.raises(ValueError, match="method='exact' is for one output; `y` has 2"):
        quick(method="exact").fit(X, np.column_stack([y, y]))


def test_weights_must_not_all_vanish(table):
    with pytest.raises(ValueError, match="at least one non-zero"):
        quick().fit(*table, sample_weight=np.zeros(60))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        quick().fit(*table, sample_weight=np.full(60, -1.0))


def test_wrong_number_of_features(fitted):
    with pytest.raises(ValueError, match="X has 2 features, but TGGMRegressor is expecting 3"):
        fitted.predict([[1.0, 2.0]])


def test_not_fitted():
    with pytest.raises(NotFittedError):
        TGGMRegressor().predict([[1.0]])
