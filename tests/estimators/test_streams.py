"""Fits to streams: against NumPy's statistics, against the fit in memory, and from a checkpoint."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.estimators.small import settings_of
from tggm import TGGMClassifier, TGGMRegressor
from tggm.data import from_arrays, from_batches
from tggm.estimators import _data
from tggm.estimators._data import read_numbers
from tggm.estimators._fitted import draw
from tggm.training import Observer, checkpoint, train

RNG = np.random.default_rng(2)
X = RNG.normal(3.0, [1.0, 20.0, 0.0], size=(3000, 3)).astype(np.float32)
Y = np.sin(X[:, 0]) + 0.05 * X[:, 1] + 0.1 * RNG.normal(size=3000)
QUICK = {"hidden": (8, 6), "n_members": 2, "max_epochs": 12, "random_state": 1, "batch_size": 64}


def batches(X=X, Y=Y, size=70):
    return [(X[k : k + size], Y[k : k + size]) for k in range(0, len(X), size)]


def stream():
    return from_batches(batches(), block_rows=512)


@pytest.fixture(scope="module")
def fitted():
    return TGGMRegressor(**QUICK).fit(stream())


def test_a_stream_is_fitted_and_calibrated(fitted):
    # the score is of standardised targets, whose noise is known
    best = -np.log(0.1) - 0.5 * np.log(2 * np.pi * np.e) + np.log(Y.std())
    assert best - 0.8 < fitted.history_["held_out"][:, -1].mean() < best + 0.1
    assert np.corrcoef(fitted.predict(X), Y)[0, 1] > 0.95
    assert fitted.history_["train"].shape == fitted.history_["held_out"].shape == (2, 12)
    assert (fitted.best_epoch_ <= 12).all()
    assert fitted.predict(X[:3]).shape == (3,)
    (pool,) = fitted.fitted_.calibration
    assert pool.kind in ("student", "shaped")
    assert abs(np.mean(np.abs(fitted.predict_dist(X).cdf(Y) - 0.5) < 0.25) - 0.5) < 0.1
    assert fitted.feature_importances_.argmax() in (0, 1)


def test_a_stream_of_labels():
    label = np.where(X[:, 0] > 3, "high", "low")
    order = np.argsort(label)  # the second label is in the last rows
    source = from_batches(batches(X[order], label[order]), block_rows=3000)
    settings = {"hidden": 4, "n_members": 2, "max_epochs": 12, "learning_rate": 0.05, "random_state": 0}
    model = TGGMClassifier(**settings).fit(source)
    assert model.classes_.tolist() == ["high", "low"]
    assert model.score(X, label) > 0.95


def test_a_stream_in_one_block_trains_like_the_table():
    """The same start, training rows and full batches, so that the order of rows does not matter."""
    A, b = X[:200].astype(np.float64), Y[:200]
    settings = {"hidden": 4, "n_members": 2, "batch_size": 256, "cv": 1e-9, "max_epochs": 20}
    estimator = TGGMRegressor(**settings, linear=False, dtype="float64", random_state=0)
    checked = settings_of(estimator)
    rng = np.random.default_rng(0)
    streamed = read_numbers(estimator, from_arrays(A, b), None, None, None, None, checked, rng)
    rest = ~(A == streamed.X).all(1)  # a stream holds out at least one row
    table = read_numbers(estimator, A[rest], b[rest], None, None, None, checked, rng)
    table.scales = streamed.scales
    network, model = draw(checked, table, rng)
    found = []
    for data in (streamed, table):
        blocks = data.blocks(checked, network.features.most, rng)
        found.append(train(model, blocks, checked.program(model, blocks, data, rng)))
    assert_allclose(found[0].train, found[1].train, rtol=1e-9)
    assert_allclose(*(each.params.likelihood.output.W1 for each in found), rtol=1e-7, atol=1e-9)


def test_a_stream_is_standardised_like_a_table():
    A, b = X[:200].astype(np.float64), Y[:200]
    for how in ("robust", True):
        estimator = TGGMRegressor(standardize=how, random_state=0, cv=0.999)
        settings, rng = settings_of(estimator), np.random.default_rng(0)
        given = ((A, b), (from_arrays(A, b), None))
        in_memory, streamed = (read_numbers(estimator, *g, None, None, None, settings, rng) for g in given)
        for found, expected in zip(streamed.scales, in_memory.scales, strict=True):
            assert_allclose(found.shift, expected.shift, rtol=1e-12)
            assert_allclose(found.scale, expected.scale, rtol=1e-12)
        assert streamed.flat == in_memory.flat


class Resumed(Observer):
    def __init__(self):
        self.epochs = []

    def resumed(self, epochs):
        self.epochs.append(epochs)


def test_a_fit_that_was_killed_resumes_from_its_checkpoint(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    model = TGGMRegressor(**QUICK, checkpoint=tmp_path / "c")
    with monkeypatch.context() as patch:
        write = checkpoint.CheckpointFile.write

        def killed(self, **options):
            write(self, **options)
            if self._last.train.shape[1] >= 10:  # blocks: in the second pass
                raise RuntimeError("killed")

        patch.setattr(checkpoint.CheckpointFile, "write", killed)
        with pytest.raises(RuntimeError, match="killed"):
            model.fit(stream())
    observer = Resumed()
    model.fit(stream(), observer=observer)
    assert len(observer.epochs) == 1
    assert 0 < observer.epochs[0] < 12
    assert_array_equal(model.W0_, fitted.W0_)
    assert_array_equal(model.history_["train"], fitted.history_["train"])


def test_a_large_memory_map_is_streamed(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert _data.as_stream(mapped, Y) is None
    monkeypatch.setattr(_data, "STREAM_BYTES", 1000)
    assert _data.as_stream(mapped, Y) is not None
    assert _data.as_stream(X, Y) is None
    assert _data.as_stream(mapped, Y, np.ones(3000)) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TGGMRegressor().fit(stream(), Y), "a stream has its own targets"),
        (lambda: TGGMRegressor(guarantee=0.9).fit(stream()), "`guarantee` must be None for a stream"),
        (
            lambda: TGGMClassifier(class_weight="balanced").fit(stream()),
            "`class_weight` must be None for a stream; got 'balanced'",
        ),
    ],
)
def test_unsupported_uses_of_streams_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
