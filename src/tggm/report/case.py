"""What a report is about: a fitted model, labelled rows that it is judged on, and how to name things."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tggm.tables.baselines import Baselines

Floats = NDArray[np.float64]
MAX_ROWS = 10_000  # more would make the figures no truer, only later


@dataclass(frozen=True, eq=False)
class Case:
    """A model and its examination; made by `examined`."""

    model: Any
    X: Any  # (rows, d), an array or a sparse matrix
    y: NDArray[Any]  # (rows,)
    row: NDArray[np.intp]  # (rows,) place of each row in the data as given, from 0
    number: NDArray[np.intp]  # (rows,) what a person calls each row
    given_rows: int
    names: tuple[str, ...]
    target: str
    train: tuple[Any, NDArray[Any]] | None
    baselines: Baselines | None
    shown: Mapping[str, Sequence[Any]]  # columns of the table as the user knows it
    groups: Mapping[str, Mapping[str, int]]  # categories: the column of each of their levels
    output: int

    @property
    def classifies(self) -> bool:
        """Whether the model predicts classes."""
        return hasattr(self.model, "predict_proba")

    def ask(self, X: Any) -> Any:
        """Rows as the model wants them: with column names if it was fitted with them."""
        named = getattr(self.model, "feature_names_in_", None)
        if named is None or sparse.issparse(X):
            return X
        import pandas

        return pandas.DataFrame(X, columns=named)

    def dist(self, X: Any) -> Any:
        """The predictive distributions of the output that the report is about."""
        dist = self.model.predict_dist(self.ask(X))
        return dist.marginal(self.output) if hasattr(dist, "marginal") else dist

    def labels(self, y: ArrayLike) -> NDArray[np.intp]:
        """Labels as numbers of the model's classes."""
        classes = self.model.classes_
        values = np.asarray(y)
        found = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
        unknown = classes[found] != values
        if unknown.any():
            raise ValueError(
                f"`y` has the label {values[unknown][0]!r}, which the model does not know; it knows "
                f"{', '.join(map(str, classes[:20]))}. Leave such rows out."
            )
        return found

    @cached_property
    def log_probability(self) -> Floats:
        """Log-probability of each class, (rows, classes)."""
        log_p: Floats = self.model.predict_log_proba(self.ask(self.X))
        return log_p

    def some_rows(self, count: int) -> NDArray[np.intp]:
        """At most so many rows, chosen evenly at random and always the same, in order."""
        if len(self.y) <= count:
            return np.arange(len(self.y))
        return np.sort(np.random.default_rng(0).choice(len(self.y), count, replace=False))


def examined(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    feature_names: Sequence[str] | None = None,
    target_name: str = "y",
    train: tuple[Any, ArrayLike] | None = None,
    baselines: Baselines | None = None,
    shown: Mapping[str, Sequence[Any]] | None = None,
    groups: Mapping[str, Mapping[str, int]] | None = None,
    row_numbers: Sequence[int] | None = None,
    output: int = 0,
) -> Case:
    """Check what `write_report` was given; errors name the argument."""
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(model, "predict_dist") and not hasattr(model, "predict_proba"):
        raise TypeError(f"`model` must be a TGGMRegressor or a TGGMClassifier; got {type(model).__name__}.")
    check_is_fitted(model)
    table, target = _table("X", X), _column("y", y, output)
    count, width = table.shape
    if not count or len(target) != count:
        raise ValueError(
            f"`X` and `y` must have equally many rows, at least one; got {count} and {len(target)}."
        )
    if width != model.n_features_in_:
        raise ValueError(f"`X` must have the model's {model.n_features_in_} columns; got {width}.")
    names = _names(feature_names, X, model, width)
    columns = dict(shown or {})
    for name, values in columns.items():
        if len(values) != count:
            raise ValueError(
                f"`shown[{name!r}]` must have {count} values, one for each row; got {len(values)}."
            )
    for name, levels in (groups or {}).items():
        if not all(0 <= j < width for j in levels.values()):
            raise ValueError(f"`groups[{name!r}]` must be column numbers below {width}; got {levels}.")
    numbers = np.arange(1, count + 1) if row_numbers is None else np.asarray(row_numbers, np.intp)
    if len(numbers) != count:
        raise ValueError(f"`row_numbers` must have {count} values; got {len(numbers)}.")
    rows = np.arange(count)
    if count > MAX_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(count, MAX_ROWS, replace=False))
    known = None if train is None else (_table("train", train[0]), _column("train", train[1], output))
    return Case(
        model, table[rows], target[rows], rows, numbers[rows], count, names, target_name, known, baselines,
        columns, groups or {}, output,
    )  # fmt: skip


def dense(X: Any) -> Floats:
    """An array of numbers, of a sparse matrix too."""
    values: Floats = np.asarray(X.todense() if sparse.issparse(X) else X, np.float64)
    return values


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


def _names(given: Sequence[str] | None, X: Any, model: Any, width: int) -> tuple[str, ...]:
    for found in (given, getattr(X, "columns", None), getattr(model, "feature_names_in_", None)):
        if found is not None:
            if len(found) != width:
                raise ValueError(f"`feature_names` must have {width} names; got {len(found)}.")
            return tuple(str(name) for name in found)
    return tuple(f"x{j + 1}" for j in range(width))
