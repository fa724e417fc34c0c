"""What `write_report` was given, checked: errors name the argument."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from tggm.report.case import Case, some
from tggm.report.classification import ClassCase
from tggm.report.regression import NumberCase
from tggm.tables.baselines import Baselines

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

MAX_ROWS = 10_000  # more would make the figures no truer, only later
KINDS: Mapping[Any, type[Case]] = {"regressor": NumberCase, "classifier": ClassCase}


def examined(
    model: "BaseEstimator",
    X: Any,
    y: ArrayLike,
    *,
    feature_names: Sequence[str] | None = None,
    target_name: str = "y",
    train: tuple[Any, ArrayLike] | None = None,
    baselines: Baselines | None = None,
    shown: Mapping[str, Sequence[Any]] | None = None,
    groups: Mapping[str, Mapping[str, int]] | None = None,
    parts: Mapping[str, Sequence[int]] | None = None,
    row_numbers: Sequence[int] | None = None,
    output: int = 0,
) -> Case:
    """The case of a model and rows; at most `MAX_ROWS` of them."""
    kind = _kind(model)
    check_is_fitted(model)
    if (prepared := model.table_preparation()) is not None:
        train = None if train is None else (model.encoded(train[0])[1], train[1])
        groups = prepared.groups if groups is None else groups
        parts = prepared.parts if parts is None else parts
        model, X = model.encoded(X)
    table, target = _table("X", X), _column("y", y, output)
    count, width = table.shape
    if not count or len(target) != count:
        raise ValueError(
            f"`X` and `y` must have equally many rows, at least one; got {count} and {len(target)}."
        )
    if width != model.n_features_in_:
        raise ValueError(f"`X` must have the model's {model.n_features_in_} columns; got {width}.")
    names = _names(feature_names, X, model, width)
    for name, values in (shown or {}).items():
        if len(values) != count:
            raise ValueError(
                f"`shown[{name!r}]` must have {count} values, one for each row; got {len(values)}."
            )
    for name, levels in (groups or {}).items():
        if not all(0 <= j < width for j in levels.values()):
            raise ValueError(f"`groups[{name!r}]` must be column numbers below {width}; got {levels}.")
    for name, places in (parts or {}).items():
        if not places or not all(0 <= j < width for j in places):
            raise ValueError(f"`parts[{name!r}]` must be column numbers below {width}; got {places}.")
    numbers = np.arange(1, count + 1) if row_numbers is None else np.asarray(row_numbers, np.intp)
    if len(numbers) != count:
        raise ValueError(f"`row_numbers` must have {count} values; got {len(numbers)}.")
    rows = some(count, MAX_ROWS)
    known = None if train is None else (_table("train", train[0]), _column("train", train[1], output))
    return kind(
        model, table[rows], target[rows], rows, numbers[rows], count, names, target_name, known, baselines,
        shown or {}, groups or {}, parts or {}, output,
    )  # fmt: skip


def _kind(model: "BaseEstimator") -> type[Case]:
    try:
        return KINDS[get_tags(model).estimator_type]
    except (AttributeError, KeyError):
        raise TypeError(
            f"`model` must be a TGGMRegressor or a TGGMClassifier; got {type(model).__name__}."
        ) from None


def _table(name: str, X: Any) -> Any:
    if sparse.issparse(X):
        return X.tocsr()
    values = np.asarray(X, np.float64)
    if values.ndim != 2:
        raise ValueError(f"`{name}` must be a table of rows and columns; got shape {values.shape}.")
    return values


def _column(name: str, y: ArrayLike, output: int) -> NDArray[Any]:
    values = np.asarray(y)
    if values.ndim == 2 and 0 <= output < values.shape[1]:
        values = values[:, output]
    if values.ndim != 1:
        raise ValueError(
            f"`{name}` must have one value a row, or a column number {output}; got shape {values.shape}."
        )
    return values


def _names(given: Sequence[str] | None, X: Any, model: "BaseEstimator", width: int) -> tuple[str, ...]:
    for found in (given, getattr(X, "columns", None), getattr(model, "feature_names_in_", None)):
        if found is not None:
            if len(found) != width:
                raise ValueError(f"`feature_names` must have {width} names; got {len(found)}.")
            return tuple(str(name) for name in found)
    return tuple(f"x{j + 1}" for j in range(width))
