"""Validate the inputs of `fit` and `predict`: arrays, data frames and missing values.

`read_inputs` validates the arguments of `fit` and `new_rows` those of `predict`. narwhals reads frames of
pandas, Polars, pyarrow and others column by column, by their types; none of these libraries is imported
unless its frame is passed; scikit-learn is imported for arrays. Columns of an array are named x0, x1, ...
"""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tggm.arrays import Floats
from tggm.tables.table import Table, TableError, warn
from tggm.tables.text import GAPS, clean_words

NAME = "`X`"  # in messages
TARGET_OPTIONS = ("multi_output", "y_numeric")  # of scikit-learn's checks
_NESTED = (dict, list, set, tuple, np.ndarray)


def read_inputs(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[Any]]:
    """Validate inputs and targets of `fit`; return complete numbers, or a `Table` to encode."""
    table = as_table(X) if is_table(X) else None
    if table is not None and not table.columns:
        raise TableError(f"{table.source} has no column to predict from; pass at least one.")
    from sklearn.utils.validation import check_X_y

    with _target_errors(_shape(X)[0] if table is None else len(table), y):
        if table is None:
            finite = True if sparse.issparse(X) else "allow-nan"
            X_, y_ = check_X_y(X, y, ensure_all_finite=finite, estimator=estimator, **options)
            return (_table_of_array(X_, NAME) if _has_gaps(X_) else X_), y_
        options = {name: value for name, value in options.items() if name in TARGET_OPTIONS}
        return table, np.asarray(check_X_y(np.zeros((len(table), 1)), y, **options)[1])


def _shape(a: Any) -> tuple[int, ...]:
    return tuple(a.shape) if hasattr(a, "shape") else np.asarray(a).shape


@contextmanager
def _target_errors(rows: int, y: Any) -> Iterator[None]:
    """Raise for targets of the wrong kind, and reword errors of checks."""
    if isinstance(y, str):
        raise TypeError(
            f"`y` must have a value for each row; got the text {y!r}. Pass the column: "
            f"fit(df.drop(columns={y!r}), df[{y!r}])."
        )
    refuse_mask("y", y, "leave such rows out: keep = ~np.ma.getmaskarray(y)")
    shape = _shape(y)
    if y is not None and (len(shape) not in (1, 2) or shape[0] != rows):
        got = f"shape {shape}" if shape else repr(y)
        raise ValueError(f"`y` must have a value for each of the {rows} rows of {NAME}; got {got}.")
    if getattr(getattr(y, "dtype", None), "kind", "") in ("M", "m"):
        raise ValueError(f"`y` holds dates or durations ({y.dtype}); pass numbers, such as days.")
    try:
        yield
    except OverflowError:  # a Python integer
        raise ValueError("`y` has a number beyond 1.8e308, the largest float; divide it.") from None
    except ValueError as error:
        _, words, value = str(error).partition("could not convert string to float: ")
        if words:  # words in inputs are encoded
            raise ValueError(f"`y` has {value}, which is not a number; use a TGGMClassifier.") from None
        if not str(error).startswith("Input y contains"):
            raise
        raise ValueError(f"{error} Leave such rows out: keep = np.isfinite(y).") from None


def new_rows(estimator: Any, X: Any, *, unknown: bool = False, **options: Any) -> Any:
    """Return inputs of new rows as complete numbers; with `unknown`, NaN marks unknown values.

    These are new categories, first missing values of a column, and columns that `X` lacks.
    """
    if (encoder := getattr(estimator, "table_", None)) is not None:
        return encoder.encode_known(X) if unknown else encoder.transform(X)
    from sklearn.utils.validation import check_is_fitted, validate_data

    check_is_fitted(estimator, "fitted_")
    if is_table(X):
        X_ = _columns_by_name(estimator, X, unknown)
    else:
        finite = True if sparse.issparse(X) else "allow-nan"
        asked = {name: value for name, value in options.items() if name not in TARGET_OPTIONS}
        X_ = validate_data(estimator, X, reset=False, ensure_all_finite=finite, **asked)
    if not _has_gaps(X_):
        return X_
    gaps = np.isnan(X_)
    names = getattr(estimator, "feature_names_in_", [f"x{k}" for k in range(X_.shape[1])])
    shown = ", ".join(str(names[k]) for k in np.flatnonzero(gaps.any(0))[:5])
    given = set(map(str, getattr(X, "columns", names)))  # `completed` has warned about the other columns
    if gaps[:, [str(name) in given for name in names]].any():
        how = "predictions average over their values in training" if unknown else "the mean is used there"
        warn(f"`X` has missing values in columns without any in training ({shown}); {how}.")
    if unknown:
        return X_
    return np.where(gaps, estimator.fitted_.scales.x.shift.astype(X_.dtype)[None, :], X_)


def _columns_by_name(estimator: Any, X: Any, unknown: bool = False) -> Floats:
    """Return a table for a model of numbers: its columns in the model's order, if both have names."""
    table, known = as_table(X), getattr(estimator, "feature_names_in_", None)
    names = table.names if known is None or not table.named else [str(name) for name in known]
    if unknown and known is not None and table.named:
        table = table.completed(names)
    table.require(names)
    if len(names) != estimator.n_features_in_:
        raise ValueError(
            f"X has {len(names)} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return np.column_stack([table.numbers(name) for name in names])


def _has_gaps(X: Any) -> bool:
    if sparse.issparse(X) or X.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        return not np.isfinite(X.sum()) and bool(np.isnan(X).any())


def refuse_mask(name: str, values: Any, remedy: str) -> None:
    """Raise for a masked array with hidden values, which NumPy's checks would use as numbers."""
    if np.ma.is_masked(values):
        raise ValueError(f"`{name}` is a masked array, whose mask would be ignored; {remedy}.")


def is_table(X: Any) -> bool:
    """Return whether the rows are a table: with column names, or with words or dates."""
    refuse_mask("X", X, "pass X.filled(np.nan)")
    if isinstance(X, Table) or _is_frame(X):
        return True
    if sparse.issparse(X):  # one of the formats is a dict, too
        return False
    if isinstance(X, str | PathLike):
        name = repr(fspath(X))
        raise TypeError(
            f"{NAME} must be a table, not its name; got {name}. Read it: pandas.read_csv({name})."
        )
    if isinstance(X, dict) or (isinstance(X, list) and X and isinstance(X[0], dict)):
        raise TypeError(f"{NAME} must be a table; got a dict. Pass pandas.DataFrame(X).")
    if X is None or np.isscalar(X):
        raise TypeError(f"{NAME} must be a table or an array; got {X!r}.")
    if hasattr(X, "to_frame"):
        raise ValueError(
            f"{NAME} must have rows and columns; got a Series. Pass X.to_frame() if it is a column, and "
            "X.to_frame().T if it is a row."
        )
    if not isinstance(X, np.ndarray | list | tuple):
        return False
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths
        return False
    if array.ndim < 2:
        found = f"Expected 2D array; {NAME} has shape {array.shape}. Reshape your data"
        raise ValueError(f"{found}: X.reshape(-1, 1) if it is a column, X.reshape(1, -1) if it is a row.")
    if array.ndim != 2 or array.dtype.kind not in "OUS":
        return array.ndim == 2 and array.dtype.kind in "Mm"
    try:
        array.astype(np.float64)
    except OverflowError:  # a Python integer
        raise ValueError(f"{NAME} has a number beyond 1.8e308, the largest float; divide it.") from None
    except (TypeError, ValueError):
        return True
    return False


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and (hasattr(X, "dtypes") or hasattr(X, "schema"))


def as_table(X: Any, missing: tuple[str, ...] = (), source: str = NAME) -> Table:
    """Return a frame, an array or a table as a `Table`.

    `missing` are words that mark a missing value, besides `GAPS`; `source` is the name used in messages.
    """
    if isinstance(X, Table):
        return X
    gaps = frozenset((*GAPS, *missing))
    if _is_frame(X):
        table = _table_of_frame(X, gaps, source)
    elif is_table(X):
        array = np.asarray(X)
        types = {"M": "datetime64[us]", "m": "timedelta64[us]", "S": "U"}  # Python has these
        lists = array.astype(types.get(array.dtype.kind, array.dtype)).T.tolist()
        columns = {f"x{k}": _convert(values, f"x{k}", gaps, source) for k, values in enumerate(lists)}
        table = Table(source, columns, named=False)
    else:
        from sklearn.utils.validation import check_array

        options = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "input_name": "X"}
        table = _table_of_array(check_array(X, **options), source)
    if table.names and not len(table):
        raise ValueError(f"{source} has no rows; pass at least one.")
    return table


def _table_of_array(X: Floats, source: str) -> Table:
    columns = {f"x{k}": column.astype(np.float64) for k, column in enumerate(X.T)}
    return Table(source, columns, named=False, numeric=True)


def _convert(values: list[Any], name: str, gaps: frozenset[str], source: str) -> NDArray[Any]:
    """Return Python objects as numbers, dates or durations (in seconds) if all are such, else as words."""
    values = [None if _is_gap(value) else value for value in values]
    known = [value for value in values if value is not None]
    truth = all(isinstance(value, bool) for value in known)
    if known and not truth and all(isinstance(value, int | float | np.number) for value in known):
        return _finite([np.nan if v is None else v for v in values], name, source)
    if known and all(hasattr(value, "year") and hasattr(value, "month") for value in known):
        return np.array(values, dtype="datetime64[us]")
    if known and all(hasattr(value, "total_seconds") for value in known):
        return np.array([np.nan if v is None else v.total_seconds() for v in values], dtype=np.float64)
    strange = next((value for value in known if isinstance(value, (*_NESTED, complex))), None)
    if strange is not None:
        raise TypeError(
            f"{source} has a {type(strange).__name__} in column {name!r}; every argument must be a string or "
            "a real number, a date or missing. Leave the column out, or split it into such columns."
        )
    return clean_words(values, gaps)


def _is_gap(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA: all but None differ from themselves."""
    if value is None or isinstance(value, (str, *_NESTED)):
        return value is None
    return type(value).__name__ == "NAType" or bool(value != value)


def _finite(given: Any, name: str, source: str) -> Floats:
    values = np.asarray(given, dtype=np.float64)
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise ValueError(f"{source} contains infinity (inf) in row {row + 1} of column {name!r}; use NaN.")
    return values


def _table_of_frame(X: Any, gaps: frozenset[str], source: str) -> Table:
    import narwhals.stable.v1 as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame: Any = nw.from_native(X, eager_only=True)
    except DuplicateError:
        frame = None
    except TypeError:
        what = f"{source} is a {type(X).__name__}, not a frame or table in memory"
        raise TypeError(f"{what}; collect it, or pass pandas.DataFrame(X).") from None
    if frame is None or len(set(frame.columns)) < len(frame.columns):
        raise TableError(f"{source} has two columns with the same name; every column needs its own name.")
    kinds = {type(label).__name__ for label in frame.columns}
    if len(kinds) > 1 and "str" in kinds:
        raise TypeError(
            f"{source} has column names of the types {', '.join(sorted(kinds))}; make all of them strings: "
            "X.columns = X.columns.astype(str)."
        )
    series = {str(label): frame.get_column(label) for label in frame.columns}
    columns = {name: _column_of_series(one, name, gaps, source) for name, one in series.items()}
    words = [name for name, one in series.items() if one.dtype in (nw.Categorical, nw.Enum)]
    named = not len(series) or frame.columns != list(range(len(series)))  # the default of pandas
    return Table(source, columns, categories={name: _levels(series[name]) for name in words}, named=named)


def _column_of_series(series: Any, name: str, gaps: frozenset[str], source: str) -> NDArray[Any]:
    import narwhals.stable.v1 as nw

    kind = series.dtype
    if kind.is_numeric():
        return _finite(series.cast(nw.Float64).to_numpy(), name, source)
    if kind == nw.Datetime:  # in its own time zone, without the zone
        return np.asarray(series.dt.replace_time_zone(None).to_numpy(), dtype="datetime64[us]")
    pairs = zip(series.to_list(), series.is_null().to_list(), strict=True)
    values = [None if gap else value for value, gap in pairs]
    if kind in (nw.String, nw.Categorical, nw.Enum, nw.Boolean, nw.Time):
        return clean_words(values, gaps)
    return _convert(values, name, gaps, source)


def _levels(series: Any) -> tuple[str, ...]:
    """Return the levels of an ordered category, the lowest first; empty if it has no order."""
    import narwhals.stable.v1 as nw

    native = series.to_native()
    holders = (getattr(native, "cat", None), getattr(native, "type", None))  # pandas, Arrow
    ordered = series.dtype == nw.Enum or any(getattr(holder, "ordered", False) for holder in holders)
    return tuple(map(str, series.cat.get_categories().to_list())) if ordered else ()
