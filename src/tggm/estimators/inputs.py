"""Inputs as `fit` and `predict` take them: arrays as they are, tables and gaps by a `TableTransformer`."""

from abc import ABC
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from tggm.arrays import Bools, Floats
from tggm.tables import Preparation, TableTransformer, Target
from tggm.tables.errors import warn
from tggm.tables.frames import as_table, is_table, rows_of

OF_TARGETS = ("multi_output", "y_numeric")  # options of scikit-learn's checks
UNNAMED = "y"  # what a target is called that has no name


class TableInputs(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn ships no types
    """What estimators know of the columns of their inputs."""

    task: ClassVar[str]
    table_: TableTransformer | None = None  # how a table becomes inputs; None for arrays without gaps
    _target: str = UNNAMED

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags

    def _validated(self, X: Any, y: Any, *, reset: bool, **options: Any) -> tuple[Any, NDArray[Any]]:
        """Inputs and targets, as scikit-learn checks them; with `reset`, `_learned` comes next."""
        if isinstance(y, str):
            raise TypeError(
                f"`y` must have a value for each row; got the text {y!r}. Pass the column: "
                f"fit(df.drop(columns={y!r}), df[{y!r}])."
            )
        if getattr(getattr(y, "dtype", None), "kind", "") in ("M", "m"):
            raise ValueError(
                f"`y` holds dates or durations ({y.dtype}); pass numbers, such as days since the first."
            )
        try:
            return self._checked_rows(X, y, reset, options)
        except OverflowError:  # a Python integer
            raise ValueError("`y` has a number beyond 1.8e308, the largest there is; divide it.") from None
        except ValueError as error:
            _, words, value = str(error).partition("could not convert string to float: ")
            if words:  # of inputs, words are known
                raise ValueError(
                    f"`y` has {value}, which is not a number; correct it, or fit a TGGMClassifier to words."
                ) from None
            if not str(error).startswith("Input y contains"):
                raise
            raise ValueError(
                f"{error} Leave such rows out: keep = np.isfinite(y), then fit(X[keep], y[keep])."
            ) from None

    def _checked_rows(self, X: Any, y: Any, reset: bool, options: dict[str, Any]) -> tuple[Any, NDArray[Any]]:
        if not reset:
            X_ = self._new_rows(X, options)
            return X_, _targets(X_, y, options)
        if is_table(X):
            return X, _targets(X, y, options)
        finite = True if sparse.issparse(X) else "allow-nan"
        X_, y_ = validate_data(self, X, y, ensure_min_samples=1, ensure_all_finite=finite, **options)
        return X_, y_

    def _learned(self, X: Any, y: NDArray[Any] | None, rows: Bools, new: Bools | None = None) -> Any:
        """Inputs to train on, as numbers without gaps, and how later tables become the like.

        A table learns from some rows, and what it may know of the targets; rows that are `new` to it are seen
        as later ones will be. All others are left out later.
        """
        if not (is_table(X) or has_gaps(X)):
            self.table_ = None
            return X
        table = TableTransformer(task=self.task)
        if rows.all():
            X_ = table.fit_transform(X, y)
        else:
            part = table.fit_transform(rows_of(X, np.flatnonzero(rows)), None if y is None else y[rows])
            X_ = np.zeros((len(rows), part.shape[1]))
            X_[rows] = part
        if new is not None:
            X_[new] = table.transform(rows_of(X, np.flatnonzero(new)))
        self.name_features(table.n_features_in_, getattr(table, "feature_names_in_", None))
        self.table_ = table
        return X_

    def _new_rows(self, X: Any, options: dict[str, Any]) -> Any:
        """Inputs of new rows, as numbers without gaps."""
        check_is_fitted(self, "fitted_")
        if self.table_ is not None:
            return self.table_.transform(X)
        if is_table(X):
            X_ = self._by_name(X)
        else:
            finite = True if sparse.issparse(X) else "allow-nan"
            asked = {name: value for name, value in options.items() if name not in OF_TARGETS}
            X_ = validate_data(self, X, reset=False, ensure_all_finite=finite, **asked)
        return self._filled(X_) if has_gaps(X_) else X_

    def _by_name(self, X: Any) -> Floats:
        """A table for a model of numbers: its columns in the order of the model, if both have names."""
        table, named = as_table(X)
        known = getattr(self, "feature_names_in_", None)
        names = table.names if known is None or not named else [str(name) for name in known]
        table.require(names)
        if len(names) != self.n_features_in_:
            raise ValueError(
                f"X has {len(names)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        return np.column_stack([table.numbers(name) for name in names])

    def _filled(self, X: Floats) -> Floats:
        """Gaps where the model saw none become the middle of their columns."""
        gaps = np.isnan(X)
        names = getattr(self, "feature_names_in_", [f"x{k}" for k in range(X.shape[1])])
        shown = ", ".join(str(names[k]) for k in np.flatnonzero(gaps.any(0))[:5])
        warn(f"`X` has gaps in columns where the model saw none ({shown}); they are taken as the mean.")
        return np.where(gaps, self.fitted_.scales.x.shift.astype(X.dtype)[None, :], X)

    def name_features(self, count: int, names: Sequence[str] | None) -> None:
        """What `validate_data` does where rows do not come as an array."""
        self.n_features_in_, self.table_ = count, None
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _name_stream(self, stream: Any, count: int) -> None:
        """Store the names of a stream's columns and, if its rows come from tables, how they were encoded."""
        table = stream.table
        if table is None:
            self.name_features(count, stream.names)
        else:
            self.name_features(table.n_features_in_, getattr(table, "feature_names_in_", None))
            self.table_, self._target = table, stream.target

    def _name_target(self, y: Any) -> None:
        """Remember what the target is called, if it has a name."""
        name = getattr(y, "name", None)
        self._target = name if isinstance(name, str) and name else UNNAMED

    def table_preparation(self) -> Preparation | None:
        """How the columns of a table become inputs, for the model's file; None for arrays without gaps."""
        if self.table_ is None:
            return None
        labels = getattr(self, "classes_", None)
        used = {column.name for column in self.table_.columns_}
        name = f"{self._target} (target)" if self._target in used else self._target
        whole = labels is not None and labels.dtype.kind in "iu"
        return self.table_.preparation(Target(name, self.task, whole))

    def encoded(self, X: Any) -> tuple[Self, Any]:
        """The model that takes numbers, and rows as such; itself and `X` if it was not fitted to a table."""
        if self.table_ is None:
            return self, X
        inside = copy(self)
        inside.name_features(len(self.fitted_.scales.x.shift), self.table_.get_feature_names_out().tolist())
        return inside, self.table_.transform(X)

    def adopt_table(self, preparation: Preparation) -> None:
        """Take tables from now on, as their preparation says."""
        table = TableTransformer.of(preparation)
        self.name_features(table.n_features_in_, getattr(table, "feature_names_in_", None))
        self.table_, self._target = table, preparation.target.name


def has_gaps(X: Any) -> bool:
    """Whether a dense table has NaN in it; a sum tells, unless it overflows."""
    if sparse.issparse(X) or X.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        return not np.isfinite(X.sum()) and bool(np.isnan(X).any())


def counted(weight: Any, rows: int) -> Bools:
    """Rows of positive weight; all of them if that is not for each row a number, which others complain of."""
    each = np.asarray(weight)
    if each.shape != (rows,):
        return np.ones(rows, dtype=np.bool_)
    found = np.asarray(each > 0, dtype=np.bool_)
    return found if found.any() else ~found


def _targets(X: Any, y: Any, options: dict[str, Any]) -> NDArray[Any]:
    """Targets as scikit-learn checks them, one for each row."""
    kept = {name: value for name, value in options.items() if name in OF_TARGETS}
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    _, y_ = check_X_y(np.zeros((rows, 1)), y, ensure_min_samples=1, **kept)
    found: NDArray[Any] = y_
    return found
