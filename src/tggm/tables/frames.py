"""Data frames and arrays to tables.

Frames of pandas, Polars and whatever else narwhals knows are read column by column, by their types; none of
these libraries is imported unless its frame is given. Columns of an array are called x0, x1, ...
"""

from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tggm.arrays import Ints
from tggm.tables.errors import TableError
from tggm.tables.table import Table
from tggm.tables.words import GAPS, cleaned

NAME = "`X`"  # what messages call it
_NESTED = (dict, list, set, tuple, np.ndarray)


def is_table(X: Any) -> bool:
    """Whether rows come as a table: with names of columns, or with words or dates in them."""
    if isinstance(X, Table) or _is_frame(X):
        return True
    if sparse.issparse(X):  # one kind of them is a dict, too
        return False
    _require_rows(X)
    if not isinstance(X, np.ndarray | list | tuple):
        return False
    return _as_array(X).dtype.kind in "OUSMm" and not _are_numbers(X)


def _require_rows(X: Any) -> None:
    """Raise for the name of a file, for a dict and for a Series, which are no tables yet."""
    if isinstance(X, str | PathLike):
        name = repr(fspath(X))
        raise TypeError(
            f"{NAME} must be a table, not its name; got {name}. Read it: pandas.read_csv({name})."
        )
    if isinstance(X, dict):
        raise TypeError(f"{NAME} must be a table; got a dict. Pass pandas.DataFrame(X).")
    if hasattr(X, "to_frame"):
        raise ValueError(
            f"{NAME} must have rows and columns; got a Series. Pass X.to_frame() if it is a column, and "
            "X.to_frame().T if it is a row."
        )


def _are_numbers(X: Any) -> bool:
    """Whether objects or words are all numbers: these are an ordinary array."""
    array = np.asarray(X)
    if array.dtype.kind in "Mm" or array.ndim != 2:
        return array.ndim != 2
    try:
        array.astype(np.float64)
    except (TypeError, ValueError):
        return False
    except OverflowError:  # a Python integer
        raise ValueError(f"{NAME} has a number beyond 1.8e308, the largest there is; divide it.") from None
    return True


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and (hasattr(X, "dtypes") or hasattr(X, "schema"))


def _as_array(X: Any) -> NDArray[Any]:
    try:
        return np.asarray(X)
    except ValueError:  # rows of different lengths
        return np.empty(0)


def as_table(X: Any, missing: tuple[str, ...] = ()) -> tuple[Table, bool]:
    """A frame, an array or a table as a `Table`, and whether its columns have names of their own."""
    if isinstance(X, Table):
        return X, True
    gaps = frozenset((*GAPS, *missing))
    table, named = _of_frame(X, gaps) if _is_frame(X) else _of_rows(X, gaps)
    if table.names and not len(table):
        raise ValueError(f"{NAME} has no rows; pass one at least.")
    return table, named


def _of_rows(X: Any, gaps: frozenset[str]) -> tuple[Table, bool]:
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(f"{NAME} must have rows and columns; got an array of shape {array.shape}.")
    names = [f"x{k}" for k in range(array.shape[1])]
    columns = {name: _of_array(array[:, k], name, gaps) for k, name in enumerate(names)}
    return Table(NAME, columns), False


def rows_of(X: Any, rows: Ints) -> Any:
    """Some rows of a frame, an array, a list or a table, as what it is."""
    if isinstance(X, Table):
        return X.take(rows)
    if not _is_frame(X):
        return [X[row] for row in rows] if isinstance(X, list | tuple) else X[rows]
    import narwhals.stable.v1 as nw

    return nw.from_native(X, eager_only=True)[rows].to_native()


def _of_array(column: NDArray[Any], name: str, gaps: frozenset[str]) -> NDArray[Any]:
    if column.dtype.kind in "fiub":
        return _finite(column.astype(np.float64), name)
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]")
    if column.dtype.kind == "m":
        return np.where(np.isnat(column), np.nan, column / np.timedelta64(1, "s")).astype(np.float64)
    if column.dtype.kind in "US":
        return cleaned(column.astype(str).tolist(), gaps)
    return _of_objects(column.tolist(), name, gaps)


def _of_objects(values: list[Any], name: str, gaps: frozenset[str]) -> NDArray[Any]:
    """Python objects: numbers, moments or durations (in seconds) if all are, words otherwise."""
    values = [None if _is_gap(value) else value for value in values]
    known = [value for value in values if value is not None]
    truth = all(isinstance(value, bool) for value in known)
    if known and not truth and all(isinstance(value, int | float | np.number) for value in known):
        return _finite(np.array([np.nan if v is None else v for v in values], dtype=np.float64), name)
    if known and all(hasattr(value, "year") and hasattr(value, "month") for value in known):
        return np.array(["NaT" if value is None else value for value in values], dtype="datetime64[us]")
    if known and all(hasattr(value, "total_seconds") for value in known):
        return np.array([np.nan if v is None else v.total_seconds() for v in values], dtype=np.float64)
    strange = next((value for value in known if isinstance(value, (*_NESTED, complex))), None)
    if strange is not None:
        raise TypeError(
            f"{NAME} has a {type(strange).__name__} in column {name!r}; every argument must be a string or a "
            "real number, a date or a gap. Leave the column out, or take it apart into columns of such."
        )
    return cleaned(values, gaps)


def _is_gap(value: Any) -> bool:
    """Whether it is None, NaN, NaT or pandas' NA: what does not equal itself."""
    if value is None or isinstance(value, (str, *_NESTED)):
        return value is None
    same = value == value
    return type(same).__name__ == "NAType" or not bool(same)


def _finite(values: NDArray[Any], name: str) -> NDArray[Any]:
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise ValueError(
            f"{NAME} contains infinity (inf) in row {row + 1} of column {name!r}; correct it, or make it "
            "a gap (NaN)."
        )
    return values


def _of_frame(X: Any, gaps: frozenset[str]) -> tuple[Table, bool]:
    import narwhals.stable.v1 as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(X, eager_only=True)
        twice = len(set(frame.columns)) < len(frame.columns)
    except DuplicateError:
        twice = True
    except TypeError:
        raise TypeError(
            f"{NAME} is a {type(X).__name__}, which is no data frame in memory; collect it, or pass arrays."
        ) from None
    if twice:
        raise TableError(f"{NAME} has two columns of one name; every column needs a name of its own.")
    columns, categories = {}, {}
    for label in frame.columns:
        series, name = frame.get_column(label), str(label)
        columns[name] = _of_series(series, name, gaps, nw)
        if series.dtype in (nw.Categorical, nw.Enum):
            categories[name] = _order(series, nw)
    return Table(NAME, columns, categories=categories), all(isinstance(name, str) for name in frame.columns)


def _of_series(series: Any, name: str, gaps: frozenset[str], nw: Any) -> NDArray[Any]:
    kind = series.dtype
    if kind.is_numeric():
        values = series.cast(nw.Float64).to_numpy()
        return _finite(np.asarray(values, dtype=np.float64), name)
    if kind in (nw.Datetime, nw.Date):
        return _moments(series, nw)
    if kind == nw.Duration:
        spans = np.asarray(series.to_numpy(), dtype="timedelta64[us]")
        return np.where(np.isnat(spans), np.nan, spans / np.timedelta64(1, "s")).astype(np.float64)
    there = zip(series.to_list(), series.is_null().to_list(), strict=True)
    values = [None if gap else value for value, gap in there]
    if kind in (nw.String, nw.Categorical, nw.Enum, nw.Boolean, nw.Time):
        return cleaned(values, gaps)
    return _of_objects(values, name, gaps)


def _moments(series: Any, nw: Any) -> NDArray[Any]:
    """Dates and times as they are told in their own zone, without it."""
    if series.dtype == nw.Datetime and series.dtype.time_zone is not None:
        series = series.dt.replace_time_zone(None)
    if series.dtype == nw.Date:
        series = series.cast(nw.Datetime("us"))
    values = np.asarray(series.to_numpy())
    if values.dtype == object:  # dates of pandas are Python's
        values = np.array(
            [None if v is None or v != v else v for v in values.tolist()], dtype="datetime64[us]"
        )
    return values.astype("datetime64[us]")


def _order(series: Any, nw: Any) -> tuple[str, ...]:
    """The levels of an ordered category, from the lowest; none if it has no order."""
    native = series.to_native()
    holders = (getattr(native, "cat", None), getattr(native, "type", None))  # of pandas, of Arrow
    if series.dtype != nw.Enum and not any(getattr(holder, "ordered", False) for holder in holders):
        return ()
    if hasattr(native, "combine_chunks"):
        return tuple(str(level) for level in native.combine_chunks().dictionary.to_pylist())
    return tuple(str(level) for level in series.cat.get_categories().to_list())
