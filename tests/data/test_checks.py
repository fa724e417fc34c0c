"""Sources that cannot be trained on are refused with a sentence, in whichever pass they go wrong."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tggm import TGGMClassifier, TGGMRegressor
from tggm.data import from_arrays, from_batches, from_parquet
from tggm.data.standardise import Columns
from tggm.data.stream import surveyed

RNG = np.random.default_rng(2)
X = RNG.normal(size=(300, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=300)
FIRST = (X[:70], Y[:70])
MASKED = np.ma.masked_array(X, X > 1)
MIXED = np.tile(np.array(["a", 1], object), 150)
SPENT = iter([(X, Y)])
QUICK = {"hidden": 2, "n_members": 1, "max_epochs": 2, "random_state": 1}


def batches(X=X, Y=Y, size=70):
    return [(X[k : k + size], Y[k : k + size]) for k in range(0, len(X), size)]


def spoilt(name, value, row=123):
    """Batches with one wrong value."""
    A, b = X.astype(object), Y.astype(object)
    (A if name == "X" else b[:, None])[row, -1] = value
    return batches(A, b)


def later(*parts):
    """Good batches in the first pass, these in all others."""
    calls = iter([batches()])
    return lambda: next(calls, list(parts))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: iter(batches()), "can be iterated over once only, .* pass the function"),
        (lambda: 3, "`batches` must give pairs .* or be a function .*; got 3"),
        (lambda: lambda: 3, "`batches` must return pairs .*; got 3"),
        (lambda: [(X, Y, Y)], "`batches` must give pairs .* got a tuple of 3. Return both"),
        (lambda: [(X[:5], Y[:4])], r"must be a table and its targets, .* got shapes \(5, 3\)"),
        (lambda: [(X[:, :0], Y)], r"must have a column at least; got shapes \(300, 0\)"),
        (lambda: [([[1, 2], [3]], Y[:2])], "`X` must be an array .*; give all its rows the same length"),
        (list, "the stream gave 0 rows, and a fit needs two at least"),
        (lambda: [FIRST, (X[:70, :2], Y[:70])], "`X` .* columns .*; it has 2 from row 70 on, and had 3"),
        (lambda: [FIRST, (X[:70], Y[:70, None])], r"`y` must have one shape .* \(1,\) from row 70 on"),
        (lambda: [(MASKED, Y)], "`X` is a masked array, whose mask .* fill them: X.filled"),
        (lambda: [(X + 1j, Y)], "`X` must be real numbers; it is complex128. Pass X.real"),
        (lambda: [(X, Y.astype("M8[s]"))], "`y` must be numbers; it is datetime64.*. Replace dates"),
        (lambda: [(X.astype(str), np.full(300, "red"))], "`y` must be numbers; row 0 is 'red'. Replace it"),
        (lambda: spoilt("X", "red"), "`X` must be numbers; row 123, column 2 is 'red'"),
        (lambda: spoilt("X", np.nan), "`X` must be finite .*; row 123 has nan in column 2. Leave"),
        (lambda: later(*spoilt("X", np.nan)), "`X` of row 123 is .* in pass 2, and was not in pass 1"),
        (lambda: later(*spoilt("y", np.inf)), "`y` of row 123 is not finite"),
        (lambda: later((X[:, :1], Y)), "`X` .* columns .*; it has 1 from row 0 on, and had 3"),
        (lambda: later(FIRST), "gave 70 rows in pass 2, but 300 in pass 1"),
        (lambda: lambda: SPENT, "gave 0 rows in pass 2, but 300 in pass 1; .* let it begin anew"),
    ],
)
def test_batches_that_cannot_work(make, message):
    with pytest.raises(ValueError, match=message):
        TGGMRegressor(**QUICK).fit(from_batches(make()))


@pytest.mark.parametrize("rows", [0, -1, 2.5, "a", True])
def test_blocks_have_a_whole_number_of_rows(rows):
    with pytest.raises(ValueError, match=f"`block_rows` must be a whole number .* got {rows!r}"):
        from_batches(batches(), block_rows=rows)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: spoilt("y", None), "`y` has None in row 123, which is no label; leave such rows out"),
        (lambda: batches(X, np.where(Y > 0, np.nan, 1)), "`y` has nan in row .*, which is no label"),
        (lambda: batches(X, MIXED), "`y` has text and numbers from row 0 on"),
        (lambda: [(X, Y > 0), (X, Y.astype(str))], "they are text from row 300 on, and were numbers"),
        (lambda: [(X, X > 0)], r"`y` must be one label a row; got shape \(300, 3\)"),
    ],
)
def test_labels_that_cannot_work(make, message):
    with pytest.raises(ValueError, match=message):
        TGGMClassifier(**QUICK).fit(from_batches(make()))


@pytest.mark.parametrize("factor", [1e300, 1e-200])
def test_columns_of_any_size_are_measured_as_in_memory(factor):
    A = factor * np.concatenate([np.ones((70, 3)), X])  # the first piece is a constant
    found = surveyed(from_batches(batches(A, A[:, 0] / factor)), 0, False).X
    np.testing.assert_allclose(found.columns(), Columns.of(A, np.ones(370)), rtol=1e-12)
    np.testing.assert_allclose(found.whole().scale / factor, (A / factor).std(), rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "factors", "message"),
    [
        ({"standardize": False}, (1e30, 1), "`X` has a value of size .* in column ., .* standardize=True"),
        ({"standardize": False}, (1, 1e30), "`y` has a value of size .* in column 0, .* standardize=True"),
        ({}, (1, 1e200), "`y` has a standard deviation of .*, whose square overflows; divide it"),
        ({}, (1e307, 1), "`X` must be finite numbers of size 1e[+]307 at most"),
    ],
)
def test_what_is_too_large_in_memory_is_too_large_in_a_stream(settings, factors, message):
    with pytest.raises(ValueError, match=message):
        TGGMRegressor(**QUICK, **settings).fit(from_arrays(factors[0] * X, factors[1] * Y))


def test_arrays():
    (piece,) = from_arrays(X.tolist(), Y.tolist()).pieces(None)  # lists are arrays
    assert np.array_equal(piece.X, X)
    assert np.array_equal(piece.y, Y)
    with pytest.raises(ValueError, match="`y` is a masked array"):
        from_arrays(X, MASKED[:, 0])
    with pytest.raises(ValueError, match=r"must be a table and its targets, .* got shapes \(300, 3\)"):
        from_arrays(X, Y[1:])


def test_parquet_files(tmp_path):
    pq.write_table(pa.table({"a": Y, "b": Y, "y": Y}), tmp_path / "0.parquet")
    for columns, message in (
        (["a", "y"], "`columns` has the target 'y', which cannot be an input, too; leave it out"),
        ([], "`columns` must name an input at least"),
        ("a", r"`columns` must be a list of names; got 'a'. Pass \['a'\]"),
        (["c"], "0.parquet has no column 'c'; it has a, b, y"),
    ):
        with pytest.raises(ValueError, match=message):
            from_parquet(tmp_path, "y", columns=columns)
    pq.write_table(pa.table({"a": Y, "y": Y}), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"1.parquet has no column 'b'; it has a, y. Every file needs it"):
        from_parquet(tmp_path, "y")
    (tmp_path / "1.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ValueError, match=r"1.parquet is a damaged Parquet file .* write it again"):
        from_parquet(tmp_path, "y")
