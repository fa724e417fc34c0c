"""Convert data frames and arrays to tables.

narwhals reads frames of pandas, Polars, pyarrow and others column by column, by their types; none of these
libraries is imported unless its frame is passed. Columns of an array are named x0, x1, ...
"""

from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tggm.arrays import Ints
from tggm.tables.errors import TableError
from tggm.tables.table import Table
from tggm.tables.text import GAPS, cleaned

NAME = "`X`"  # in messages
_NESTED = (dict, list, set, tuple, np.ndarray)


def is_table(X: Any) -> bool:
    """Return whether rows come as a table: with column names, or with words or dates."""
    if isinstance(X, Table) or _is_frame(X):
        return True
    if sparse.issparse(X):  # one of the formats is a dict, too
        return False
    _require_rows(X)
    if not isinstance(X, np.ndarray | list | tuple):
        return False
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths
        return False
    return array.dtype.kind in "OUSMm" and not _are_numbers(array)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and (hasattr(X, "dtypes") or hasattr(X, "schema"))


def _require_rows(X: Any) -> None:
    """Raise for a file name, a dict and a Series."""
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


def _are_numbers(array: NDArray[Any]) -> bool:
    """Return whether objects or strings are all numbers, or not a table at all."""
    if array.dtype.kind in "Mm" or array.ndim != 2:
        return array.ndim != 2
    try:
        array.astype(np.float64)
    except (TypeError, ValueError):
        return False
    except OverflowError:  # a Python integer
        raise ValueError(f"{NAME} has a number beyond 1.8e308, the largest there is; divide it.") from None
    return True


def as_table(X: Any, missing: tuple[str, ...] = (), source: str = NAME) -> tuple[Table, bool]:
    """Return a frame, an array or a table as a `Table`, and whether its columns have their own names.

    `missing` are words that mark a missing value, besides `GAPS`; `source` is the name used in messages.
    """
    if isinstance(X, Table):
        return X, True
    gaps = frozenset((*GAPS, *missing))
    table, named = _of_frame(X, gaps, source) if _is_frame(X) else _of_rows(X, gaps, source)
    if table.names and not len(table):
        raise ValueError(f"{source} has no rows; pass one at least.")
    return table, named


def rows_of(X: Any, rows: Ints) -> Any:
    """Select rows of a frame, an array, a list or a table; the result has the same type."""
    if isinstance(X, Table):
        return X.take(rows)
    if not _is_frame(X):
        return [X[row] for row in rows] if isinstance(X, list | tuple) else X[rows]
    import narwhals.stable.v1 as nw

    return nw.from_native(X, eager_only=True)[rows].to_native()


def _of_rows(X: Any, gaps: frozenset[str], source: str) -> tuple[Table, bool]:
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(f"{source} must have rows and columns; got an array of shape {array.shape}.")
    columns = {}
    for k, column in enumerate(array.T):
        name = f"x{k}"
        if column.dtype.kind == "O":
            columns[name] = _of_objects(column.tolist(), name, gaps, source)
        elif column.dtype.kind in "US":
            columns[name] = cleaned(column.astype(str).tolist(), gaps)
        elif column.dtype.kind == "M":
            columns[name] = column.astype("datetime64[us]")
        elif column.dtype.kind == "m":
            columns[name] = _seconds(column)
        else:
            columns[name] = _finite(column.astype(np.float64), name, source)
    return Table(source, columns), False


def _seconds(spans: NDArray[Any]) -> NDArray[Any]:
    return np.where(np.isnat(spans), np.nan, spans / np.timedelta64(1, "s")).astype(np.float64)


def _of_objects(values: list[Any], name: str, gaps: frozenset[str], source: str) -> NDArray[Any]:
    """Return Python objects as numbers, dates or durations (in seconds) if all are, else as words."""
    values = [None if _is_gap(value) else value for value in values]
    known = [value for value in values if value is not None]
    truth = all(isinstance(value, bool) for value in known)
    if known and not truth and all(isinstance(value, int | float | np.number) for value in known):
        return _finite(np.array([np.nan if v is None else v for v in values], dtype=np.float64), name, source)
    if known and all(hasattr(value, "year") and hasattr(value, "month") for value in known):
        return np.array(["NaT" if value is None else value for value in values], dtype="datetime64[us]")
    if known and all(hasattr(value, "total_seconds") for value in known):
        return np.array([np.nan if v is None else v.total_seconds() for v in values], dtype=np.float64)
    strange = next((value for value in known if isinstance(value, (*_NESTED, complex))), None)
    if strange is not None:
        raise TypeError(
            f"{source} has a {type(strange).__name__} in column {name!r}; every argument must be a string or "
            "a real number, a date or a gap. Leave the column out, or split it into such columns."
        )
    return cleaned(values, gaps)


def _is_gap(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA: all but None differ from themselves."""
    if value is None or isinstance(value, (str, *_NESTED)):
        return value is None
    same = value == value
    return type(same).__name__ == "NAType" or not bool(same)


def _finite(values: NDArray[Any], name: str, source: str) -> NDArray[Any]:
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise ValueError(
            f"{source} contains infinity (inf) in row {row + 1} of column {name!r}; correct it, or make it "
            "a gap (NaN)."
        )
    return values


def _of_frame(X: Any, gaps: frozenset[str], source: str) -> tuple[Table, bool]:
    import narwhals.stable.v1 as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(X, eager_only=True)
        duplicates = len(set(frame.columns)) < len(frame.columns)
    except DuplicateError:
        duplicates = True
    except TypeError:
        raise TypeError(
            f"{source} is a {type(X).__name__}, which is no data frame in memory; collect it, or pass arrays."
        ) from None
    if duplicates:
        raise TableError(f"{source} has two columns of one name; every column needs its own name.")
    columns, categories = {}, {}
    for label in frame.columns:
        series, name = frame.get_column(label), str(label)
        columns[name] = _of_series(series, name, gaps, source)
        if series.dtype in (nw.Categorical, nw.Enum):
            categories[name] = _levels(series)
    named = all(isinstance(name, str) for name in frame.columns)
    return Table(source, columns, categories=categories), named


def _of_series(series: Any, name: str, gaps: frozenset[str], source: str) -> NDArray[Any]:
    import narwhals.stable.v1 as nw

    kind = series.dtype
    if kind.is_numeric():
        values = series.cast(nw.Float64).to_numpy()
        return _finite(np.asarray(values, dtype=np.float64), name, source)
    if kind in (nw.Datetime, nw.Date):
        return _dates(series)
    if kind == nw.Duration:
        return _seconds(np.asarray(series.to_numpy(), dtype="timedelta64[us]"))
    pairs = zip(series.to_list(), series.is_null().to_list(), strict=True)
    values = [None if gap else value for value, gap in pairs]
    if kind in (nw.String, nw.Categorical, nw.Enum, nw.Boolean, nw.Time):
        return cleaned(values, gaps)
    return _of_objects(values, name, gaps, source)


def _dates(series: Any) -> NDArray[Any]:
    """Return dates and times in their own time zone, without the zone."""
    import narwhals.stable.v1 as nw

    if series.dtype == nw.Datetime and series.dtype.time_zone is not None:
        series = series.dt.replace_time_zone(None)
    if series.dtype == nw.Date:
        series = series.cast(nw.Datetime("us"))
    values = np.asarray(series.to_numpy())
    if values.dtype == object:  # pandas keeps dates as Python objects
        values = np.array([None if v is None or v != v else v for v in values], dtype="datetime64[us]")
    return values.astype("datetime64[us]")


def _levels(series: Any) -> tuple[str, ...]:
    """Return the levels of an ordered category, the lowest first; empty if it has no order."""
    import narwhals.stable.v1 as nw

    native = series.to_native()
    holders = (getattr(native, "cat", None), getattr(native, "type", None))  # pandas, Arrow
    if series.dtype != nw.Enum and not any(getattr(holder, "ordered", False) for holder in holders):
        return ()
    if hasattr(native, "combine_chunks"):
        return tuple(str(level) for level in native.combine_chunks().dictionary.to_pylist())
    return tuple(str(level) for level in series.cat.get_categories().to_list())
