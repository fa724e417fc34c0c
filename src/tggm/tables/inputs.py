"""Inputs as `fit` and `predict` take them: arrays, tables and gaps, turned into numbers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from tggm.arrays import Bools, Floats
from tggm.tables.errors import warn
from tggm.tables.frames import as_table, is_table, rows_of
from tggm.tables.schema import Preparation
from tggm.tables.transformer import TableTransformer

_LABEL_DTYPE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|object|[<>]?U[0-9]{1,9}")
TARGET_OPTIONS = ("multi_output", "y_numeric")  # of scikit-learn's checks


@dataclass(frozen=True)
class Columns:
    """Number and names of the input columns, and the encoder of a table."""

    width: int
    names: Sequence[str] | None = None
    encoder: TableTransformer | None = None

    def set_on(self, estimator: Any) -> None:
        """Set the attributes that scikit-learn and users expect."""
        estimator.n_features_in_, estimator.table_ = self.width, self.encoder
        vars(estimator).pop("feature_names_in_", None)
        if self.names is not None:
            estimator.feature_names_in_ = np.asarray(self.names, dtype=object)


def table_columns(description: Preparation) -> Columns:
    """Return the columns of a table that a model file describes."""
    table = TableTransformer.of(description)
    return Columns(table.n_features_in_, getattr(table, "feature_names_in_", None), table)


def validate_rows(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[Any]]:
    """Validate inputs and targets of `fit`; a table is returned as it is, for `encode`.

    `estimator` gets the attributes of scikit-learn's checks: pass a copy.
    """
    with_message = _TargetErrors(y)
    if is_table(X):
        return X, with_message(lambda: _validate_targets(X, y, options))
    finite = True if sparse.issparse(X) else "allow-nan"
    found: tuple[Any, NDArray[Any]] = with_message(
        lambda: validate_data(estimator, X, y, ensure_min_samples=1, ensure_all_finite=finite, **options)
    )
    return found


def validate_more_rows(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[Any]]:
    """Validate inputs and targets for a fitted estimator."""
    X_ = new_rows(estimator, X, **options)
    return X_, _TargetErrors(y)(lambda: _validate_targets(X_, y, options))


class _TargetErrors:
    """Runs a check and rewords its errors about targets."""

    def __init__(self, y: Any) -> None:
        if isinstance(y, str):
            raise TypeError(
                f"`y` must have a value for each row; got the text {y!r}. Pass the column: "
                f"fit(df.drop(columns={y!r}), df[{y!r}])."
            )
        if getattr(getattr(y, "dtype", None), "kind", "") in ("M", "m"):
            raise ValueError(
                f"`y` holds dates or durations ({y.dtype}); pass numbers, such as days since the first."
            )

    def __call__(self, check: Any) -> Any:
        try:
            return check()
        except OverflowError:  # a Python integer
            raise ValueError("`y` has a number beyond 1.8e308, the largest there is; divide it.") from None
        except ValueError as error:
            _, words, value = str(error).partition("could not convert string to float: ")
            if words:  # words in inputs are encoded
                raise ValueError(
                    f"`y` has {value}, which is not a number; correct it, or fit a TGGMClassifier to words."
                ) from None
            if not str(error).startswith("Input y contains"):
                raise
            raise ValueError(
                f"{error} Leave such rows out: keep = np.isfinite(y), then fit(X[keep], y[keep])."
            ) from None


def _validate_targets(X: Any, y: Any, options: dict[str, Any]) -> NDArray[Any]:
    kept = {name: value for name, value in options.items() if name in TARGET_OPTIONS}
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    _, y_ = check_X_y(np.zeros((rows, 1)), y, ensure_min_samples=1, **kept)
    found: NDArray[Any] = y_
    return found


def encode(
    estimator: Any, X: Any, y: NDArray[Any] | None, rows: Bools, new: Bools | None = None
) -> tuple[Any, Columns]:
    """Return inputs as numbers without gaps, and their columns.

    The encoder is fitted to `rows` and their targets `y` (None: no target encoding). Rows of `new` are
    encoded like later ones; all other rows are zero and must not be used.
    """
    if not (is_table(X) or has_gaps(X)):
        names = getattr(estimator, "feature_names_in_", None)
        return X, Columns(X.shape[1], names)
    table = TableTransformer(task=estimator.task)
    if rows.all():
        X_ = table.fit_transform(X, y)
    else:
        part = table.fit_transform(rows_of(X, np.flatnonzero(rows)), None if y is None else y[rows])
        X_ = np.zeros((len(rows), part.shape[1]))
        X_[rows] = part
    if new is not None:
        X_[new] = table.transform(rows_of(X, np.flatnonzero(new)))
    return X_, Columns(table.n_features_in_, getattr(table, "feature_names_in_", None), table)


def new_rows(estimator: Any, X: Any, **options: Any) -> Any:
    """Return inputs of new rows as numbers without gaps."""
    check_is_fitted(estimator, "fitted_")
    if estimator.table_ is not None:
        return estimator.table_.transform(X)
    if is_table(X):
        X_ = _columns_by_name(estimator, X)
    else:
        finite = True if sparse.issparse(X) else "allow-nan"
        asked = {name: value for name, value in options.items() if name not in TARGET_OPTIONS}
        X_ = validate_data(estimator, X, reset=False, ensure_all_finite=finite, **asked)
    return _fill_gaps(estimator, X_) if has_gaps(X_) else X_


def _columns_by_name(estimator: Any, X: Any) -> Floats:
    """Return a table for a model of numbers: its columns in the model's order, if both have names."""
    table, named = as_table(X)
    known = getattr(estimator, "feature_names_in_", None)
    names = table.names if known is None or not named else [str(name) for name in known]
    table.require(names)
    if len(names) != estimator.n_features_in_:
        raise ValueError(
            f"X has {len(names)} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return np.column_stack([table.numbers(name) for name in names])


def _fill_gaps(estimator: Any, X: Floats) -> Floats:
    """Fill gaps in columns that had none in training with the column's mean, and warn."""
    gaps = np.isnan(X)
    names = getattr(estimator, "feature_names_in_", [f"x{k}" for k in range(X.shape[1])])
    shown = ", ".join(str(names[k]) for k in np.flatnonzero(gaps.any(0))[:5])
    warn(f"`X` has gaps in columns without gaps in training ({shown}); the mean is used there.")
    return np.where(gaps, estimator.fitted_.scales.x.shift.astype(X.dtype)[None, :], X)


def has_gaps(X: Any) -> bool:
    """Return whether a dense table contains NaN."""
    if sparse.issparse(X) or X.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        return not np.isfinite(X.sum()) and bool(np.isnan(X).any())


def stored_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Return labels as JSON values."""
    values: list[Any] = classes.tolist()
    if not all(isinstance(value, str | bool | int | float) for value in values):
        kinds = sorted({type(value).__name__ for value in values})
        raise TypeError(f"labels of type {', '.join(kinds)} cannot be stored; use strings or numbers")
    return {"classes": values, "class_dtype": str(classes.dtype)}


def restored_classes(meta: Mapping[str, Any]) -> NDArray[Any]:
    """Return the labels of a model file."""
    name = str(meta["class_dtype"])
    if not _LABEL_DTYPE.fullmatch(name):  # NumPy would interpret more than we write
        raise ValueError(f"labels of dtype {name[:20]!r} are not supported")
    # text as wide as it is, not as a file claims
    classes = np.asarray(meta["classes"], dtype=str if "U" in name else np.dtype(name))
    if classes.ndim != 1 or len(classes) < 2 or len(set(classes.tolist())) != len(classes):
        raise ValueError("labels must be at least two different ones")
    return classes
