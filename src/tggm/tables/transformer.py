"""`TableTransformer`: turn any table into numbers, as a step of a scikit-learn pipeline."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from tggm.arrays import Floats
from tggm.settings import one_of
from tggm.tables.columns import Column, Number
from tggm.tables.errors import TableError, warn
from tggm.tables.frames import as_table, is_table
from tggm.tables.kinds import LearnedColumns, learn_columns
from tggm.tables.schema import Preparation
from tggm.tables.table import Table
from tggm.tables.target import Target
from tggm.tables.target_encoding import Outcomes
from tggm.tables.text import Spelling

TASKS = ("auto", "regression", "classification")


class TableTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Turn a table with words, categories, dates and gaps into numbers.

    Numbers stay as they are; a gap becomes the median, and an extra column marks gaps. Few different words
    become indicators, many are target-encoded (out of fold for training rows), ordered categories become
    their position, dates a trend and sine and cosine of the position in year, week and day. Numbers that
    repeat are also target-encoded if that predicts better than neighbouring values. Columns that are
    constant, that count or name the rows, or that repeat the target are left out, with a `TableWarning`.

    An array of numbers keeps all its columns; only columns with gaps get an extra one.

    Parameters
    ----------
    ignore : sequence of str, default ()
        Columns to leave out.
    categorical : sequence of str, default ()
        Columns of numbers that are categories.
    missing : sequence of str, default ()
        Words that mark a gap, besides the common ones (empty, NA, None, ?, -, ...).
    task : {"auto", "regression", "classification"}, default "auto"
        Type of the target, for target encodings.

    Attributes
    ----------
    columns_ : tuple of Column
        How each column that is used is encoded.
    left_out_ : dict of str to str
        Columns that are not used, and why.
    notes_ : list of str
        How numbers with commas, units and marks were read, and columns that determine the target.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    """

    def __init__(
        self,
        *,
        ignore: Sequence[str] = (),
        categorical: Sequence[str] = (),
        missing: Sequence[str] = (),
        task: str = "auto",
    ) -> None:
        self.ignore = ignore
        self.categorical = categorical
        self.missing = missing
        self.task = task

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn how to encode the columns of a data frame, an array or a `Table`.

        Without targets, columns of many words become the frequency of each word, and numbers that repeat are
        not target-encoded.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn how to encode the columns, and return the numbers of the training rows.

        Target encodings are out of fold: they differ from those of ``fit(X, y).transform(X)``, in which each
        row's own target takes part.
        """
        table, outcome = self._learn(X, y)
        return self._encode_training(table, outcome)

    def transform(self, X: Any) -> Any:
        """Return the numbers of a table; named columns may come in any order."""
        check_is_fitted(self, "columns_")
        table = self._table(X)
        table.require([column.name for column in self.columns_])
        features = self._encode(table)
        self._warn_doubts(table)
        return features

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[np.object_]:
        """Return the names of the columns of the result."""
        check_is_fitted(self, "columns_")
        names = list(self._names)
        if input_features is not None:
            given = [str(name) for name in input_features]
            if len(given) != len(names):
                raise ValueError(
                    f"input_features should have length equal to number of features ({len(names)})"
                )
            if self._named and given != names:
                raise ValueError("input_features is not equal to feature_names_in_")
            names = given
        renamed = dict(zip(self._names, names, strict=True))
        columns: list[Any] = list(self.columns_)
        found = [name for column in columns for name in replace(column, name=renamed[column.name]).features]
        return np.asarray(found, dtype=object)

    @property
    def column_names(self) -> list[str]:
        """Return the names of all input columns, in order."""
        return list(self._names)

    def preparation(self, target: Target) -> Preparation:
        """Return what a model file stores."""
        left_out, notes = tuple(self.left_out_.items()), tuple(self.notes_)
        return Preparation(self.columns_, target, left_out, self._missing, self._names, self._named, notes)

    @classmethod
    def of(cls, preparation: Preparation) -> Self:
        """Return the fitted transformer that a model file stores."""
        made = cls(missing=preparation.gaps, task=preparation.target.task)
        made._set_columns(LearnedColumns(preparation.columns, preparation.left_out, preparation.notes))
        made._set_names(preparation.names, preparation.named)
        made._missing = preparation.gaps
        return made

    def _learn(self, X: Any, y: Any) -> tuple[Table, Outcomes | None]:
        """Learn from a table or an array; return it as a table, and the targets for target encodings."""
        one_of("task", self.task, TASKS)
        mixed = is_table(X)
        values = X if mixed else validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        table, named = as_table(values, tuple(self.missing))
        if not len(table) or not table.names:
            raise TableError(f"{table.source} has no rows or no columns; there is nothing to learn from.")
        target, is_class = None if y is None else np.asarray(y), self.task == "classification"
        if target is not None and len(target) != len(table):
            raise ValueError(f"`y` has {len(target)} targets, but `X` has {len(table)} rows.")
        if target is not None and self.task == "auto":
            is_class = type_of_target(target, input_name="y") in ("binary", "multiclass")
        outcome = None if target is None else Outcomes.of(target, is_class)
        self._set_names(tuple(table.names), named)
        self._missing = (*self.missing, *table.missing)
        if mixed:
            self._set_columns(self._learn_columns(table, target, is_class))
            self._warn_doubts(table)
        else:
            numbers = (replace(Number.of(table, name, Spelling()), knots=()) for name in table.names)
            self._set_columns(LearnedColumns(tuple(numbers)))
        return table, outcome

    def _learn_columns(self, table: Table, y: NDArray[Any] | None, is_class: bool) -> LearnedColumns:
        """Learn the columns of a table; warn about columns that are left out, and pass on notes."""
        ignore, categorical = tuple(self.ignore), tuple(self.categorical)
        found = learn_columns(table, y, is_class, ignore=ignore, categorical=categorical)
        left_out = [f"{name} ({why})" for name, why in found.left_out if name not in ignore]
        listed = [f"columns are left out: {', '.join(left_out)}"] * bool(left_out)
        if listed or found.notes:
            warn("; ".join([*listed, *found.notes]))
        return found

    def _encode(self, table: Table) -> Floats:
        return np.concatenate([column.encode(table, []) for column in self.columns_], axis=1)

    def _encode_training(self, table: Table, outcome: Outcomes | None) -> Floats:
        """Encode training rows; features that depend on the target are out of fold."""
        parts = (c.encode_training(table, outcome, c.encode(table, [])) for c in self.columns_)
        return np.concatenate(list(parts), axis=1)

    def _warn_doubts(self, table: Table) -> None:
        if doubts := [doubt for column in self.columns_ if (doubt := column.doubt(table))]:
            warn("; ".join(doubts))

    def _set_columns(self, found: LearnedColumns) -> None:
        self.columns_: tuple[Column, ...] = found.columns
        self.left_out_, self.notes_ = dict(found.left_out), list(found.notes)

    def _set_names(self, names: tuple[str, ...], named: bool) -> None:
        self._names, self._named = names, named
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if named:
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _table(self, X: Any) -> Table:
        """Return new rows as a table with the names of the training columns."""
        if is_table(X):
            table, named = as_table(X, self._missing)
        else:
            values = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
            table, named = as_table(values)
        if named and self._named:
            return table
        if len(table.names) != len(self._names):
            raise ValueError(
                f"X has {len(table.names)} features, but TableTransformer is expecting {len(self._names)} "
                "features as input"
            )
        new = dict(zip(table.names, self._names, strict=True))
        columns = {new[name]: column for name, column in table.columns.items()}
        categories = {new[name]: levels for name, levels in table.categories.items()}
        return Table(table.source, columns, categories=categories)


def sample_transformer(table: Table, y: NDArray[Any], task: str) -> TableTransformer:
    """Learn from a sample of the rows of a stream, without target encodings.

    Rows of a stream come again, so that a target encoding would contain the row's own target.
    """
    made = TableTransformer(missing=table.missing, task=task)
    made._set_columns(learn_columns(table, y, task == "classification", target_encoding=False))
    made._set_names(tuple(table.names), True)
    made._missing = table.missing
    return made


def training_features(transformer: TableTransformer, table: Table, y: NDArray[Any], is_class: bool) -> Floats:
    """Encode rows that a transformer was fitted to; target encodings are computed out of fold."""
    return transformer._encode_training(table, Outcomes.of(y, is_class))
