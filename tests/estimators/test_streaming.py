"""Fits to streams against NumPy's own statistics, and against the fit in memory."""

import threading
import time

import numpy as np
import pytest

from tggm import TGGMClassifier, TGGMRegressor
from tggm.estimators import sources
from tggm.streams import survey
from tggm.streams import from_arrays, from_batches, from_parquet
from tggm.streams.repeats import cut
from tggm.streams.survey import scattered, surveyed
from tggm.training import checkpoints
from tggm.training.blocks import read_ahead

RNG = np.random.default_rng(2)
X = RNG.normal(3.0, [1.0, 20.0, 0.0], size=(3000, 3)).astype(np.float32)
Y = np.sin(X[:, 0]) + 0.05 * X[:, 1] + 0.1 * RNG.normal(size=3000)
QUICK = {"hidden": 8, "n_members": 2, "max_epochs": 12, "patience": None, "random_state": 1, "batch_size": 64}


def batches(X=X, Y=Y, size=70):
    return [(X[k : k + size], Y[k : k + size]) for k in range(0, len(X), size)]


def stream(**options):
    return from_batches(batches(**options), block_rows=512)


def test_one_pass_measures_columns_as_numpy_does():
    found = surveyed(stream(), 0, False)
    columns = found.X.columns()
    assert found.count == 3000
    np.testing.assert_allclose(columns.shift, X.astype(np.float64).mean(0), rtol=1e-12)
    np.testing.assert_allclose(columns.scale[:2], X.astype(np.float64).std(0)[:2], rtol=1e-12)
    assert columns.scale[2] == 1.0  # a constant
    np.testing.assert_allclose(found.y.columns(), (Y.mean(keepdims=True), Y.std(keepdims=True)), rtol=1e-12)
    whole = found.X.whole()
    np.testing.assert_allclose(whole.shift[0], X.astype(np.float64).mean(), rtol=1e-12)
    np.testing.assert_allclose(whole.scale[0], X.astype(np.float64).std(), rtol=1e-12)


def test_the_rows_held_out_are_random_and_no_others(monkeypatch):
    monkeypatch.setattr(survey, "HELD_ROWS", 100)
    table = np.arange(3000.0)[:, None]
    found = surveyed(from_batches(batches(table, table[:, 0])), 5, False)
    held, y, bound = found.held(0.9)
    assert held.shape == (100, 1)
    assert np.array_equal(held[:, 0], y)
    assert abs(held.mean() - 1500) < 5 * 3000 / np.sqrt(12 * 100)
    pieces = from_batches(batches(table, table[:, 0])).pieces(None)
    trained = [part for number, part, _ in cut(pieces, 5, bound, 256) if np.array_equal(number, part[:, 0])]
    assert [len(part) for part in trained] == [256] * 11 + [2900 - 11 * 256]
    assert sorted([*np.concatenate(trained)[:, 0], *held[:, 0]]) == list(range(3000))
    assert len(np.unique(scattered(0, np.arange(100_000)))) == 100_000


def test_a_stream_is_fitted_nearly_as_well_as_can_be():
    model = TGGMRegressor(**QUICK).fit(stream())
    # the score is of standardised targets; what made them has noise of deviation 0.1. No inputs: 2.5 below
    truth = -np.log(0.1) - 0.5 * np.log(2 * np.pi * np.e) + np.log(Y.std())
    assert truth - 0.8 < model.history_["held_out"][:, -1].mean() < truth + 0.1
    assert np.corrcoef(model.predict(X), Y)[0, 1] > 0.95
    assert model.history_["train"].shape == model.history_["held_out"].shape == (2, 12)
    assert (model.best_epoch_ <= 12).all()
    assert model.predict(X[:3]).shape == (3,)
    again = TGGMRegressor(**QUICK).fit(stream())
    assert np.array_equal(again.W0_, model.W0_)


def test_a_stream_of_labels():
    label = np.where(X[:, 0] > 3, "high", "low")
    # the second label comes late
    order = np.argsort(label)
    source = from_batches(batches(X[order], label[order]), block_rows=3000)
    model = TGGMClassifier(hidden=4, max_epochs=12, learning_rate=0.05, random_state=0).fit(source)
    assert model.classes_.tolist() == ["high", "low"]
    assert model.score(X, label) > 0.95


def test_a_killed_stream_goes_on_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    witness = TGGMRegressor(**QUICK).fit(stream())
    model = TGGMRegressor(**QUICK, checkpoint=tmp_path / "c")
    with monkeypatch.context() as patch:
        write = checkpoints.Checkpoints.write

        def killed(self, **options):
            write(self, **options)
            if self._last.train.shape[1] == 10:  # in the middle of the second pass
                raise RuntimeError("killed")

        patch.setattr(checkpoints.Checkpoints, "write", killed)
        with pytest.raises(RuntimeError, match="killed"):
            model.fit(stream())
    model.fit(stream())
    assert np.array_equal(model.W0_, witness.W0_)
    assert np.array_equal(model.history_["train"], witness.history_["train"])


def test_every_source_gives_every_row_once(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    for k, part in enumerate((slice(0, 1000), slice(1000, 3000))):
        columns = {"a": X[part, 0], "y": Y[part], "b": X[part, 1], "c": X[part, 2]}
        pq.write_table(pa.table(columns), tmp_path / f"{k}.parquet", row_group_size=300)
    mapped = (np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    sources = [from_arrays(*mapped), from_parquet(tmp_path, "y"), stream()]
    assert sources[1].names == ["a", "b", "c"]
    for source in sources:
        for order in (None, np.random.default_rng(0)):
            pieces = sorted(source.pieces(order), key=lambda piece: piece.start)
            assert np.array_equal(np.concatenate([piece.X for piece in pieces]), X)
            assert np.array_equal(np.concatenate([piece.y for piece in pieces]), Y)
    first = [next(sources[1].pieces(np.random.default_rng(seed))).start for seed in range(6)]
    assert len(set(first)) > 1


def test_a_large_memory_map_is_streamed(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert sources.as_stream(mapped, Y) is None
    monkeypatch.setattr(streaming, "STREAM_BYTES", 1000)
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


def test_items_are_made_ahead_but_not_all_of_them():
    made = []

    def items():
        for k in range(100):
            made.append(k)
            yield k

    before = set(threading.enumerate())
    coming = read_ahead(items())
    assert next(coming) == 0
    time.sleep(0.2)
    assert 3 <= len(made) <= 5
    coming.close()
    assert set(threading.enumerate()) <= before  # threads of others may end meanwhile

    def broken():
        yield 1
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        list(read_ahead(broken()))
