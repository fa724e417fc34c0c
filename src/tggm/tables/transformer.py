"""`TableTransformer`: any table to numbers, as a step of a scikit-learn pipeline."""

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
from tggm.tables.numerals import Spelling
from tggm.tables.outcomes import Outcomes
from tggm.tables.preparation import LearnedColumns, Preparation, learned, learned_features
from tggm.tables.table import Table
from tggm.tables.target import Target

TASKS = ("auto", "regression", "classification")


class TableTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Make numbers of a table with words, categories, dates and gaps.

    Numbers stay as they are; a gap becomes the median, and one more column says where. Few words become
    indicators, many the usual target of each word (learned such that no row sees its own target), grades
    their place, dates a trend and places on the circles of year, week and day. Numbers that repeat also have
    a usual target, where that tells more than their size. Columns that are constant, that count or name the
    rows, or that repeat the target are left out, with a `TableWarning`.

    An array of numbers keeps all its columns; only those with gaps get a second one.

    Parameters
    ----------
    ignore : sequence of str, default ()
        Columns that are not to be used.
    categorical : sequence of str, default ()
        Columns of numbers that are categories.
    missing : sequence of str, default ()
        Words that mean a gap, besides the usual ones (empty, NA, None, ?, -, ...).
    task : {"auto", "regression", "classification"}, default "auto"
        What the target is, for the usual targets of words and numbers.

    Attributes
    ----------
    columns_ : tuple of Column
        What each column that is used becomes.
    left_out_ : dict of str to str
        Columns that are not used, and why.
    notes_ : list of str
        How numbers with commas, units and marks were read, and columns that tell the target.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
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
        """Learn what the columns are.

        Parameters
        ----------
        X : DataFrame, array or Table
        y : array_like, optional
            Targets. Without them columns of many words tell only how frequent each word is, and numbers that
            repeat only their size.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn, and give the numbers to train on.

        Where columns have many words, or numbers that repeat, these are not those of
        ``fit(X, y).transform(X)``: each row sees the usual targets of other rows only.
        """
        table, outcome = self._learn(X, y)
        return learned_features(self.columns_, table, outcome, self._features(table))

    def transform(self, X: Any) -> Any:
        """The numbers of a table; its columns may come in any order, where they have names."""
        check_is_fitted(self, "columns_")
        table = self._table(X)
        table.require([column.name for column in self.columns_])
        features = self._features(table)
        self._doubt(table)
        return features

    def _features(self, table: Table) -> Floats:
        return np.concatenate([column.encode(table, []) for column in self.columns_], axis=1)

    def _doubt(self, table: Table) -> None:
        """Warn of columns that look like others, or that have words where dates should be."""
        if doubts := [said for column in self.columns_ if (said := column.doubt(table))]:
            warn("; ".join(doubts))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[np.object_]:
        """Names of the columns of the result."""
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
        called = dict(zip(self._names, names, strict=True))
        columns: list[Any] = list(self.columns_)
        found = [name for column in columns for name in replace(column, name=called[column.name]).features]
        return np.asarray(found, dtype=object)

    def preparation(self, target: Target) -> Preparation:
        """What a model file holds of it."""
        left_out, gaps = tuple(self.left_out_.items()), self._missing
        notes = tuple(self.notes_)
        return Preparation(self.columns_, target, left_out, gaps, self._names, self._named, notes)

    @classmethod
    def of(cls, preparation: Preparation) -> Self:
        """The fitted transformer that a file describes."""
        made = cls(missing=preparation.gaps, task=preparation.target.task)
        made._keep(LearnedColumns(preparation.columns, preparation.left_out, preparation.notes))
        made._name(preparation.names, preparation.named)
        made._missing = tuple(preparation.gaps)
        return made

    def _learn(self, X: Any, y: Any) -> tuple[Table, Outcomes | None]:
        """Learn from a table or an array; it as a table, and what its columns may know of the target."""
        one_of("task", self.task, TASKS)
        words = is_table(X)
        values = X if words else validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        table, named = as_table(values, tuple(self.missing))
        if not len(table) or not table.names:
            raise TableError(f"{table.source} has no rows or no columns; there is nothing to learn from.")
        target = None if y is None else np.asarray(y)
        if target is not None and len(target) != len(table):
            raise ValueError(f"`y` has {len(target)} targets, but `X` has {len(table)} rows.")
        outcome = None if target is None else Outcomes.of(target, self._is_class(target))
        self._name(tuple(table.names), named)
        self._missing = (*self.missing, *table.missing)
        if words:
            self._keep(self._found(table, target, outcome is not None and outcome.is_class))
            self._doubt(table)
        else:
            each = (Number.of(table, name, Spelling()) for name in table.names)
            numbers = tuple(replace(number, knots=()) for number in each)
            self._keep(LearnedColumns(numbers, (), ()))
        return table, outcome

    def _found(self, table: Table, y: NDArray[Any] | None, is_class: bool) -> LearnedColumns:
        """What the columns of a table are; warns of columns that are left out and of other notes."""
        ignore, categorical = tuple(self.ignore), tuple(self.categorical)
        found = learned(table, y, is_class, ignore=ignore, categorical=categorical)
        if not found.columns:
            why = "; ".join(f"{name}: {reason}" for name, reason in found.left_out[:5])
            raise TableError(f"{table.source} has no column that a model could use ({why}).")
        unasked = [f"{name} ({why})" for name, why in found.left_out if name not in ignore]
        told = [f"columns are left out: {', '.join(unasked)}"] * bool(unasked)
        if told or found.notes:
            warn("; ".join([*told, *found.notes]))
        return found

    def _keep(self, found: LearnedColumns) -> None:
        self.columns_: tuple[Column, ...] = found.columns
        self.left_out_, self.notes_ = dict(found.left_out), list(found.notes)

    def _is_class(self, y: NDArray[Any]) -> bool:
        if self.task != "auto":
            return self.task == "classification"
        return type_of_target(y, input_name="y") in ("binary", "multiclass")

    def _name(self, names: tuple[str, ...], named: bool) -> None:
        self._names, self._named = names, named
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if named:
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _table(self, X: Any) -> Table:
        """New rows, their columns called as those learned from."""
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
        columns = dict(zip(self._names, table.columns.values(), strict=True))
        categories = {
            n: table.categories[o]
            for n, o in zip(self._names, table.names, strict=True)
            if o in table.categories
        }
        return Table(table.source, columns, categories=categories)


def sample_transformer(table: Table, y: NDArray[Any], task: str) -> TableTransformer:
    """Learn from a sample of the rows of a stream, without target encodings.

    Rows of a stream come again, so that a target encoding would contain the row's own target.
    """
    made = TableTransformer(missing=table.missing, task=task)
    found = learned(table, y, task == "classification", many=False)
    if not found.columns:
        why = "; ".join(f"{name}: {reason}" for name, reason in found.left_out[:5])
        raise TableError(f"{table.source} has no column that a model could use ({why}).")
    made._keep(found)
    made._name(tuple(table.names), True)
    made._missing = table.missing
    return made


def training_features(transformer: TableTransformer, table: Table, y: NDArray[Any], is_class: bool) -> Floats:
    """Encode rows that a transformer was fitted to; target encodings are computed out of fold."""
    outcome = Outcomes.of(y, is_class)
    return learned_features(transformer.columns_, table, outcome, transformer.transform(table))
