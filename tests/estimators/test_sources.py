"""Fits to streams against NumPy's own statistics, and against the fit in memory."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tggm.training.observer import Observer

from tggm import TGGMClassifier, TGGMRegressor
from tggm.data import from_arrays, from_batches, from_parquet
from tggm.estimators import sources
from tggm.training import checkpoints

RNG = np.random.default_rng(2)
X = RNG.normal(3.0, [1.0, 20.0, 0.0], size=(3000, 3)).astype(np.float32)
Y = np.sin(X[:, 0]) + 0.05 * X[:, 1] + 0.1 * RNG.normal(size=3000)


QUICK = {
    "hidden": (8, 6),
    "n_members": 2,
    "max_epochs": 12,
    "patience": None,
    "random_state": 1,
    "batch_size": 64,
}


def batches(X=X, Y=Y, size=70):
    return [(X[k : k + size], Y[k : k + size]) for k in range(0, len(X), size)]


def stream(**options):
    return from_batches(batches(**options), block_rows=512)


@pytest.fixture(scope="module")
def whole():
    return TGGMRegressor(**QUICK).fit(stream())


def test_a_stream_is_fitted_nearly_as_well_as_can_be(whole):
    model = whole
    # the score is of standardised targets; what made them has noise of deviation 0.1. No inputs: 2.5 below
    truth = -np.log(0.1) - 0.5 * np.log(2 * np.pi * np.e) + np.log(Y.std())
    assert truth - 0.8 < model.history_["held_out"][:, -1].mean() < truth + 0.1
    assert np.corrcoef(model.predict(X), Y)[0, 1] > 0.95
    assert model.history_["train"].shape == model.history_["held_out"].shape == (2, 12)
    assert (model.best_epoch_ <= 12).all()
    assert model.predict(X[:3]).shape == (3,)


@pytest.mark.slow  # held-out rows of a table do in test_defaults.py
def test_held_out_rows_of_a_stream_calibrate_it():
    """Members that say four times the noise: the pool of the rows that all held out is right again."""
    one_layer = {**QUICK, "hidden": 8, "features": None, "linear": False}
    model = TGGMRegressor(**one_layer, noise=0.64 * Y.var()).fit(stream())
    (pool,) = model.fitted_.calibration
    assert pool.kind == "beta"
    pooled = np.mean(np.abs(model.predict_dist(X).cdf(Y) - 0.5) < 0.25)
    model.fitted_ = model.fitted_._replace(calibration=())
    mixed = np.mean(np.abs(model.predict_dist(X).cdf(Y) - 0.5) < 0.25)
    assert mixed > 0.8
    assert abs(pooled - 0.5) < 0.08  # of 300 rows: three standard errors


def test_a_stream_of_labels():
    label = np.where(X[:, 0] > 3, "high", "low")
    # the second label comes late
    order = np.argsort(label)
    source = from_batches(batches(X[order], label[order]), block_rows=3000)
    settings = {"hidden": 4, "n_members": 2, "max_epochs": 12, "learning_rate": 0.05, "random_state": 0}
    model = TGGMClassifier(**settings).fit(source)
    assert model.classes_.tolist() == ["high", "low"]
    assert model.score(X, label) > 0.95


def test_a_killed_stream_goes_on_exactly(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    model = TGGMRegressor(**QUICK, checkpoint=tmp_path / "c")
    went_on = []

    class Watcher(Observer):
        def resumed(self, epochs):
            went_on.append(epochs)

    with monkeypatch.context() as patch:
        write = checkpoints.Checkpoints.write

        def killed(self, **options):
            write(self, **options)
            if self._last.train.shape[1] == 10:  # in the middle of the second pass
                raise RuntimeError("killed")

        patch.setattr(checkpoints.Checkpoints, "write", killed)
        with pytest.raises(RuntimeError, match="killed"):
            model.fit(stream())
    model.fit(stream(), observer=Watcher())
    assert went_on == [1]  # passes that were done
    assert np.array_equal(model.W0_, whole.W0_)
    assert np.array_equal(model.history_["train"], whole.history_["train"])


def test_a_large_memory_map_is_streamed(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert sources.as_stream(mapped, Y) is None
    monkeypatch.setattr(sources, "STREAM_BYTES", 1000)
    assert sources.as_stream(mapped, Y) is not None
    assert sources.as_stream(X, Y) is None
    assert sources.as_stream(mapped, Y, np.ones(3000)) is None


def test_a_stream_comes_alone(tmp_path):
    with pytest.raises(ValueError, match="a stream brings its targets"):
        TGGMRegressor().fit(stream(), Y)
    with pytest.raises(ValueError, match=r"has no file \*.parquet in it"):
        from_parquet(tmp_path, "y")
    with pytest.raises(ValueError, match="`class_weight` must be None for a stream; got 'balanced'"):
        TGGMClassifier(class_weight="balanced").fit(stream())


def test_a_stream_in_one_block_is_the_table_itself():
    """From the same start, with full batches, so that the order of rows does not matter."""
    A, b = X[:200].astype(np.float64), Y[:200]
    settings = {"hidden": 4, "n_members": 2, "batch_size": 256, "early_stopping": False, "patience": None}
    begun = TGGMRegressor(**settings, dtype="float64", max_epochs=1, random_state=0).fit(A, b)
    begun.set_params(warm_start=True, max_epochs=20)
    in_memory, streamed = begun, copy.deepcopy(begun)
    in_memory.fit(A, b)
    streamed.fit(from_arrays(A, b))
    assert streamed.n_iter_ == 20
    assert_allclose(streamed.history_["train"], in_memory.history_["train"], rtol=1e-9)
    found, wanted = (model.fitted_.model.arrays() for model in (streamed, in_memory))
    assert set(found) == set(wanted)
    for name in wanted:
        assert_allclose(found[name], wanted[name], rtol=1e-7, atol=1e-9, err_msg=name)


def test_a_stream_is_standardised_as_a_table_is():
    A, b = X[:200].astype(np.float64), Y[:200]
    settings = {"hidden": 4, "n_members": 2, "max_epochs": 1, "random_state": 0, "dtype": "float64"}
    settings |= {"batch_size": 256, "early_stopping": False}
    in_memory, streamed = (
        TGGMRegressor(**settings).fit(A, b),
        TGGMRegressor(**settings).fit(from_arrays(A, b)),
    )
    for found, wanted in zip(streamed.fitted_.scales, in_memory.fitted_.scales, strict=True):
        assert_allclose(found.shift, wanted.shift, rtol=1e-12)
        assert_allclose(found.scale, wanted.scale, rtol=1e-12)
    assert streamed.n_parameters_ == in_memory.n_parameters_
    assert streamed.flat_target_ == in_memory.flat_target_


def test_many_columns_of_one_kind_are_scaled_as_one(rng):
    """Pictures: a pixel that is rarely set is not blown up. Columns with units of their own are apart."""
    pixels = rng.integers(0, 17, (50, 300)).astype(float)
    pixels[:, :100] *= rng.random((50, 100)) < 0.02
    pixels[:, 0] = 0.0
    scale = sources.standardisation(pixels, np.ones(50), "robust").scale
    assert len(set(scale)) == 1
    several = sources.standardisation(pixels * np.geomspace(1, 1e3, 300), np.ones(50), "robust").scale
    few = sources.standardisation(pixels[:, :200], np.ones(50), "robust").scale
    assert len(set(several)) > 200
    assert len(set(few)) > 100
