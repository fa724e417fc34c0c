"""One pass over a stream against NumPy's own statistics, and every row once in every pass."""

import numpy as np
import pytest

from tggm.data import from_arrays, from_batches, from_parquet
from tggm.data import stream as streams
from tggm.data.standardise import Columns
from tggm.data.stream import cut, scattered, surveyed

RNG = np.random.default_rng(2)
X = RNG.normal(3.0, [1.0, 20.0, 0.0], size=(3000, 3)).astype(np.float32)
Y = np.sin(X[:, 0]) + 0.05 * X[:, 1] + 0.1 * RNG.normal(size=3000)


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
    monkeypatch.setattr(streams, "HELD_ROWS", 100)
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


@pytest.mark.parametrize("factor", [1e300, 1e-200])
def test_columns_of_any_size_are_measured_as_in_memory(factor):
    A = factor * np.concatenate([np.ones((70, 3)), X])  # the first piece is a constant
    found = surveyed(from_batches(batches(A, A[:, 0] / factor)), 0, False).X
    np.testing.assert_allclose(found.columns(), Columns.of(A, np.ones(len(A))), rtol=1e-12)
    np.testing.assert_allclose(found.whole().scale / factor, (A / factor).std(), rtol=1e-12)
