"""Surveys agree with NumPy, every pass yields every row once, and invalid sources are refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tggm import TGGMClassifier, TGGMRegressor
from tggm.data import from_arrays, from_batches, from_parquet, stream
from tggm.data.standardise import Columns
from tggm.data.stream import hash_rows, survey, training_blocks

RNG = np.random.default_rng(2)
X = RNG.normal(size=(300, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=300)
FIRST = (X[:70], Y[:70])
MASKED = np.ma.masked_array(X, X > 1)
MIXED = np.tile(np.array(["a", 1], object), 150)
SPENT = iter([(X, Y)])
W = RNG.normal(3.0, [1.0, 20.0, 0.0], size=(3000, 3)).astype(np.float32)
V = np.sin(W[:, 0]) + 0.05 * W[:, 1] + 0.1 * RNG.normal(size=3000)
QUICK = {"hidden": 2, "n_members": 1, "max_epochs": 2, "random_state": 1}


def batches(X=X, Y=Y, size=70):
    return [(X[k : k + size], Y[k : k + size]) for k in range(0, len(X), size)]


def with_wrong(name, value, row=123):
    """Return batches with one wrong value."""
    A, b = X.astype(object), Y.astype(object)
    (A if name == "X" else b[:, None])[row, -1] = value
    return batches(A, b)


def other_passes(*parts):
    """Return a source of good batches in the first pass, and of these in all others."""
    calls = iter([batches()])
    return lambda: next(calls, list(parts))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: iter(batches()), "can be read only once; pass a function"),
        (lambda: 3, "`batches` must be an iterable of pairs .*; got 3"),
        (lambda: [(X, Y, Y)], "`batches` must yield pairs .* got a tuple"),
        (lambda: [(X[:5], Y[:4])], r"must be a table and its targets, .* got shapes \(5, 3\)"),
        (lambda: [(X[:, :0], Y)], r"must have at least one column; got shapes \(300, 0\)"),
        (lambda: [([[1, 2], [3]], Y[:2])], "`X` must be an array .*; give all its rows the same length"),
        (list, "the stream gave 0 rows; a fit needs at least two"),
        (lambda: [FIRST, (X[:70, :2], Y[:70])], "row 70 has 2 columns .* earlier ones 3"),
        (lambda: [FIRST, (X[:70], Y[:70, None])], r"row 70 has .* targets of shape \(1,\)"),
        (lambda: [(MASKED, Y)], "`X` is masked; .* fill them: X.filled"),
        (lambda: [(X + 1j, Y)], "`X` must be real numbers; it is complex128. Replace"),
        (lambda: [(X, Y.astype("M8[s]"))], "`y` must be real numbers; it is datetime64.*. Replace"),
        (lambda: [(X.astype(str), np.full(300, "red"))], "`y` must be numbers from row 0 on .*'red'"),
        (lambda: with_wrong("X", "red"), "`X` must be numbers from row 70 on .*'red'"),
        (lambda: with_wrong("X", np.nan), "`X` must be finite .*; row 123 has nan in column 2. Leave"),
        (lambda: other_passes((X[:, :1], Y)), "row 0 has 1 columns .* earlier ones 3"),
        (lambda: other_passes(FIRST), "pass 2 gave 70 rows, pass 1 300"),
        (lambda: lambda: SPENT, "pass 2 gave 0 rows, pass 1 300; .* start again at each call"),
    ],
)
def test_invalid_batches_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        TGGMRegressor(**QUICK).fit(from_batches(make()))


@pytest.mark.parametrize("rows", [0, -1, 2.5, "a", True])
def test_block_rows_must_be_a_positive_integer(rows):
    with pytest.raises(ValueError, match=f"`block_rows` must be an integer of at least 1; got {rows!r}"):
        from_batches(batches(), block_rows=rows)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: with_wrong("y", None), "`y` has None in row 123, which is not a label; leave such rows out"),
        (lambda: batches(X, np.where(Y > 0, np.nan, 1)), "`y` has nan in row .*, which is not a label"),
        (lambda: batches(X, MIXED), "`y` has text and numbers from row 0 on"),
        (lambda: [(X, Y > 0), (X, Y.astype(str))], "row 300 .*text.* earlier .*numbers"),
        (lambda: [(X, X > 0)], r"`y` must have one label per row; got shape \(300, 3\)"),
    ],
)
def test_invalid_labels_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        TGGMClassifier(**QUICK).fit(from_batches(make()))


@pytest.mark.parametrize("factor", [1e300, 1e-200])
def test_columns_of_any_size_are_measured_as_in_memory(factor):
    A = factor * np.concatenate([np.ones((70, 3)), X])  # the first piece is a constant
    found = survey(from_batches(batches(A, A[:, 0] / factor)), 0, False).X
    np.testing.assert_allclose(found.columns(), Columns.of(A, np.ones(370)), rtol=1e-12)
    np.testing.assert_allclose(found.whole().scale / factor, (A / factor).std(), rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "factors", "message"),
    [
        ({"standardize": False}, (1e30, 1), "`X` has a value of size .* in column .; .*Use standardize=True"),
        ({"standardize": False}, (1, 1e30), "`y` has a value of size .* in column 0; .* standardize=True"),
        ({}, (1, 1e200), "`y` has a standard deviation of .*, whose square overflows; divide it"),
        ({}, (1e307, 1), "`X` must be finite numbers between ±1e[+]307"),
    ],
)
def test_values_that_are_too_large_are_rejected(settings, factors, message):
    with pytest.raises(ValueError, match=message):
        TGGMRegressor(**QUICK, **settings).fit(from_arrays(factors[0] * X, factors[1] * Y))


def test_arrays_may_be_lists_but_not_masked():
    (piece,) = from_arrays(X.tolist(), Y.tolist()).pieces(None)  # lists are arrays
    assert np.array_equal(piece.X, X)
    assert np.array_equal(piece.y, Y)
    with pytest.raises(ValueError, match="`y` is masked"):
        from_arrays(X, MASKED[:, 0])
    with pytest.raises(ValueError, match=r"must be a table and its targets, .* got shapes \(300, 3\)"):
        from_arrays(X, Y[1:])


def test_invalid_parquet_files_are_rejected(tmp_path):
    pq.write_table(pa.table({"a": Y, "b": Y, "y": Y}), tmp_path / "0.parquet")
    for columns, message in (
        (["a", "y"], "`columns` has the target 'y', which cannot be an input, too; leave it out"),
        ([], "`columns` must name at least one input"),
        ("a", r"`columns` must be a list of names; got 'a'. Pass \['a'\]"),
        (["c"], "0.parquet has no column 'c'; it has a, b, y"),
    ):
        with pytest.raises(ValueError, match=message):
            from_parquet(tmp_path, "y", columns=columns)
    pq.write_table(pa.table({"a": Y, "y": Y}), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"1.parquet has no column 'b'; it has a, y"):
        from_parquet(tmp_path, "y")
    (tmp_path / "1.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ValueError, match=r"1.parquet is a damaged Parquet file .* write it again"):
        from_parquet(tmp_path, "y")


def test_survey_measures_columns_as_numpy_does():
    found = survey(from_batches(batches(W, V)), 0, False)
    columns = found.X.columns()
    assert found.count == 3000
    np.testing.assert_allclose(columns.shift, W.astype(np.float64).mean(0), rtol=1e-12)
    np.testing.assert_allclose(columns.scale[:2], W.astype(np.float64).std(0)[:2], rtol=1e-12)
    assert columns.scale[2] == 1.0  # a constant
    np.testing.assert_allclose(found.y.columns(), (V.mean(keepdims=True), V.std(keepdims=True)), rtol=1e-12)
    whole = found.X.whole()
    np.testing.assert_allclose(whole.shift[0], W.astype(np.float64).mean(), rtol=1e-12)
    np.testing.assert_allclose(whole.scale[0], W.astype(np.float64).std(), rtol=1e-12)


def test_rows_are_held_out_at_random_and_not_trained_on(monkeypatch):
    monkeypatch.setattr(stream, "HELD_ROWS", 100)
    table = np.arange(3000.0)[:, None]
    found = survey(from_batches(batches(table, table[:, 0])), 5, False)
    held, y, bound = found.held(0.9)
    assert held.shape == (100, 1)
    assert np.array_equal(held[:, 0], y)
    assert abs(held.mean() - 1500) < 5 * 3000 / np.sqrt(12 * 100)
    pieces = from_batches(batches(table, table[:, 0])).pieces(None)
    trained = [part for part, y in training_blocks(pieces, 5, bound, 256) if np.array_equal(part[:, 0], y)]
    assert [len(part) for part in trained] == [256] * 11 + [2900 - 11 * 256]
    assert sorted([*np.concatenate(trained)[:, 0], *held[:, 0]]) == list(range(3000))
    assert len(np.unique(hash_rows(0, np.arange(100_000)))) == 100_000


def test_every_source_yields_every_row_once(tmp_path):
    np.save(tmp_path / "X.npy", W)
    np.save(tmp_path / "y.npy", V)
    for k, part in enumerate((slice(0, 1000), slice(1000, 3000))):
        columns = {"a": W[part, 0], "y": V[part], "b": W[part, 1], "c": W[part, 2]}
        pq.write_table(pa.table(columns), tmp_path / f"{k}.parquet", row_group_size=300)
    mapped = (np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    sources = [from_arrays(*mapped), from_parquet(tmp_path, "y"), from_batches(batches(W, V))]
    assert sources[1].names == ["a", "b", "c"]
    for source in sources:
        for order in (None, np.random.default_rng(0)):
            pieces = sorted(source.pieces(order), key=lambda piece: piece.start)
            assert np.array_equal(np.concatenate([piece.X for piece in pieces]), W)
            assert np.array_equal(np.concatenate([piece.y for piece in pieces]), V)
    first = [next(sources[1].pieces(np.random.default_rng(seed))).start for seed in range(6)]
    assert len(set(first)) > 1
