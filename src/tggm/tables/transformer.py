"""`TableTransformer`: learn the kind of each column of a table, and convert tables to numbers.

A column has numbers, categories, grades, dates, or nothing that a model can use. The transformer is also a
step of a scikit-learn pipeline.
"""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from tggm.arrays import Floats, Ints
from tggm.data.stream import hash_rows
from tggm.settings import one_of
from tggm.tables.columns import Category, Column, DateColumn, Number, Ordinal, Statistic, code_words, marks_of
from tggm.tables.encoder import Encoder
from tggm.tables.inputs import as_table
from tggm.tables.leaks import leak_notes
from tggm.tables.schema import Preparation
from tggm.tables.table import MANY, Table, TableError, TableWarning, Target, warn
from tggm.tables.target_encoding import FOLDS, CodeSums, Outcomes, neighbours_predict

TASKS = ("auto", "regression", "classification")
CHOICES = ("ignore", "categorical", "dates")  # arguments that list columns
MOST_LEVELS = 50  # categories with an indicator each
MOST_RARE = 1_000  # words without one that are stored
MOST_OTHER = 0.1  # share of rows with rare categories; above it the column is target-encoded
LEAST_REPEATS = 20  # rows; fewer may equal the target by chance
COLLISIONS = 12  # expected among random numbers of the same range, from which distinct ones are identifiers
_IDENTIFIER = re.compile(r"(?i:(.*[^a-z])?(id|uuid|guid|key))|.*[a-z](Id|ID|Key)|[A-Z]{1,3}ID")
_EMPTY, _CONSTANT, _ASKED = "it is empty", "it has the same value everywhere", "as requested"


class TableTransformer(Encoder, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Convert a table with words, categories, dates and missing values to numbers.

    Numbers are unchanged; missing ones become the median, and an extra column marks them. Few different words
    become indicators; many are target-encoded (out of fold for training rows). Ordered categories become
    their position, and dates a trend and sine and cosine of the position in year, week and day. Repeated
    numbers are also target-encoded if that predicts better than neighbouring values. Columns are
    left out, with a `TableWarning`, if they are constant, number or identify the rows, or repeat the target.

    An array of numbers keeps all its columns; only columns with missing values get an extra one.

    Parameters
    ----------
    ignore : sequence of str or int, default ()
        Columns to leave out, by name or position.
    categorical : sequence of str or int, default ()
        Columns of numbers that are categories.
    dates : sequence of str or int, default ()
        Columns of words that are dates; other words in them are missing values.
    missing : sequence of str, default ()
        Words that mark a missing value, besides the common ones (empty, NA, None, ?, -, ...).
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
        self, *, ignore: Sequence[str | int] = (), categorical: Sequence[str | int] = (),
        dates: Sequence[str | int] = (), missing: Sequence[str] = (), task: str = "auto",
    ) -> None:  # fmt: skip
        self.ignore = ignore
        self.categorical = categorical
        self.dates = dates
        self.missing = missing
        self.task = task

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn how to encode the columns of a data frame, an array or a `Table`.

        Without targets, no column is target-encoded; the most frequent of many words become indicators.
        """
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        """Learn how to encode the columns, and return the numbers of the training rows.

        Target encodings are out of fold: they differ from those of ``fit(X, y).transform(X)``, which use each
        row's own target. Rows of one group are in one fold.
        """
        table, outcome = self._learn(X, y, groups)
        found = self._encode(table, outcome)
        if outcome is not None and not table.numeric:
            self.notes_ += leak_notes(self.columns_, found, outcome)
        left_out = [f"{name} ({why})" for name, why in self.left_out_.items() if why != _ASKED]
        listed = [f"columns are left out: {', '.join(left_out)}"] * bool(left_out)
        if listed or self.notes_:
            warn("; ".join([*listed, *self.notes_]))
        return found

    def transform(self, X: Any) -> Any:
        """Return the numbers of a table; named columns may be in any order."""
        check_is_fitted(self, "columns_")
        return super().transform(X)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[np.object_]:
        """Return the names of the columns of the result."""
        check_is_fitted(self, "columns_")
        renamed = dict(zip(self._names, _check_feature_names_in(self, input_features), strict=True))
        columns: list[Any] = list(self.columns_)
        found = [name for column in columns for name in replace(column, name=renamed[column.name]).features]
        return np.asarray(found, dtype=object)

    def preparation(self, target: Target) -> Preparation:
        """Return what a model file stores."""
        left_out, notes = tuple(self.left_out_.items()), tuple(self.notes_)
        return Preparation(self.columns_, target, left_out, self._missing, self._names, self._named, notes)

    @classmethod
    def of(cls, preparation: Preparation) -> Self:
        """Return the fitted transformer of a model file."""
        made = super().of(preparation)
        made.missing, made.task = preparation.gaps, preparation.target.task
        made.left_out_, made.notes_ = dict(preparation.left_out), list(preparation.notes)
        return made

    def _learn(self, X: Any, y: Any, groups: Any = None) -> tuple[Table, Outcomes | None]:
        """Learn each column; raise `TableError` that lists all mistakes, or if no column is left.

        Return the table, and the targets for target encodings.
        """
        one_of("task", self.task, TASKS)
        table = as_table(X, tuple(self.missing))
        if not table.columns:
            raise TableError(f"{table.source} has no rows or no columns; there is nothing to learn from.")
        if len(table) == 1 and not table.numeric:
            raise TableError(f"{table.source} has one row; pass more, there is nothing to learn from one.")
        target, is_class = None if y is None else np.asarray(y), self.task == "classification"
        if target is not None and len(target) != len(table):
            raise ValueError(f"`y` has {len(target)} targets, but `X` has {len(table)} rows.")
        if target is not None and self.task == "auto":
            is_class = type_of_target(target, input_name="y") in ("binary", "multiclass")
        outcome = None if target is None else Outcomes.of(target, is_class, groups)
        self._missing = (*self.missing, *table.missing)
        self.left_out_ = dict.fromkeys(_resolve("ignore", self.ignore, table), _ASKED)
        kinds = dict.fromkeys(_resolve("dates", self.dates, table), "date")
        kinds |= dict.fromkeys(_resolve("categorical", self.categorical, table), "category")
        self.notes_: list[str] = []
        columns: list[Column] = []
        mistakes: list[str] = []
        for name in [name for name in table.columns if name not in self.left_out_]:
            try:
                found = learn_column(table, name, outcome, kinds.get(name, ""))
            except TableError as error:
                mistakes.append(str(error).removesuffix("."))
                continue
            repeats = target is not None and _repeats(table, name, target, is_class)
            if isinstance(found, str) or repeats:
                self.left_out_[name] = found if isinstance(found, str) else "it repeats the target"
                continue
            columns.append(found)
            self.notes_ += _notes(table, found)
        if mistakes:
            raise TableError("; ".join(mistakes) + ".")
        if not columns:
            why = "; ".join(f"{name}: {reason}" for name, reason in list(self.left_out_.items())[:5])
            raise TableError(f"{table.source} has no column that a model could use ({why}).")
        self.columns_ = tuple(columns)
        self._set_names(tuple(table.columns), table.named)
        return table, outcome


@dataclass(frozen=True)
class Columns:
    """Number and names of a model's input columns, and the encoder of a table."""

    width: int
    names: Sequence[str] | None = None
    encoder: TableTransformer | None = None

    @classmethod
    def of(cls, encoder: TableTransformer) -> "Columns":
        """Return the columns of a table."""
        return cls(encoder.n_features_in_, getattr(encoder, "feature_names_in_", None), encoder)


def stream_transformer(
    sample: Table, y: NDArray[Any], task: str, parts: Callable[[], Iterable[tuple[int, Table, Any]]],
    **choices: Any,
) -> tuple[TableTransformer, Callable[[int, Table], Floats]]:  # fmt: skip
    """Learn columns from a sample of the rows of a stream, and encodings of many words from all rows.

    `parts` reads the stream: first row numbers, tables and targets. Return the transformer, and the function
    that encodes training rows. The target encodings of a row are means of the other folds, because rows of a
    stream are read several times; numbers have none.
    """
    made, classes = TableTransformer(task=task, **choices), np.unique(y)
    outcome = made._learn(sample, y)[1]
    plain = [replace(c, encoding=None) if isinstance(c, Number) else c for c in made.columns_]
    sums: dict[Statistic, CodeSums] = {}
    if outcome is not None:
        made.notes_ += leak_notes(made.columns_, made._encode(sample, outcome), outcome)
        sums = {c: CodeSums(len(c.counts), outcome) for c in plain if isinstance(c, Statistic)}

    def folds(start: int, table: Table) -> Ints:
        return (hash_rows(1, start + table.places) % np.uint64(FOLDS)).astype(np.int64)

    for start, table, targets in parts() if sums else ():
        found = Outcomes.of(targets, task == "classification", labels=classes)
        assert found is not None  # as few outputs as in the sample
        for column in sums:
            code = code_words(table, column.name, column.levels)
            sums[column].add(code, folds(start, table), found.values)
    versions = []
    for k in (None, *range(FOLDS)):
        versions.append(copy(made))
        versions[-1].columns_ = tuple(c.encoded(sums[c], k) if c in sums else c for c in plain)

    def encode(start: int, table: Table) -> Floats:
        fold = folds(start, table)
        rows = [versions[k + 1].transform(table.take(fold == k)) for k in np.unique(fold)]
        return np.concatenate(rows)[np.argsort(np.argsort(fold, kind="stable"))]

    return versions[0], encode


def training_features(
    transformer: TableTransformer, table: Table, y: NDArray[Any], is_class: bool, groups: Any = None
) -> Floats:
    """Encode rows that a transformer was fitted to; target encodings are computed out of fold."""
    with warnings.catch_warnings(action="ignore", category=TableWarning):  # the fit has reported these
        return transformer._encode(table, Outcomes.of(y, is_class, groups))


def _resolve(option: str, given: Sequence[Any], table: Table) -> list[str]:
    """Return the names of columns that are given by name or position."""
    if isinstance(given, str):
        raise ValueError(f"`{option}` must be a list of columns; got {given!r}. Pass [{given!r}].")
    position: dict[Any, str] = dict(enumerate(table.columns))
    names = [str(position.get(column, column)) for column in given]
    table.require(names)
    return names


def learn_column(table: Table, name: str, outcome: Outcomes | None, kind: str = "") -> Column | str:
    """Find the kind of a column of inputs and learn it, or return the reason why it is left out.

    `kind` is "category" or "date" if the user chose it.
    """
    if table.numeric and not kind:
        return Number.of(table, name)
    if name in table.categories or kind == "category" or (table.has_codes(name) and kind != "date"):
        return _learn_words(table, name, outcome)
    if table.has_dates(name) or kind == "date":
        return _CONSTANT if len(set(table.words(name).tolist())) == 1 else DateColumn.of(table, name)
    values = table.numbers_or_none(name)
    if values is not None:
        if reason := _reason_to_drop(table, name, values, outcome):
            return reason
        found = Number.of(table, name, outcome=outcome)
        certain = found.encoding is None or table.spelling(name).certain
        return found if certain else _learn_words(table, name, outcome)
    if table.number_share(name) >= 0.5:
        marks, others = marks_of(table, name)
        if not others:
            return Number.of(table, name, marks, outcome)
        table.refuse_mistakes(name, others)
    return _learn_words(table, name, outcome)


def _reason_to_drop(table: Table, name: str, values: Floats, outcome: Outcomes | None) -> str:
    """Return why a column of numbers is left out, if it is."""
    known = values[~np.isnan(values)]
    if not len(known):
        return _EMPTY
    if len(known) < len(values):
        return ""
    if np.all(known == known[0]):
        return _CONSTANT
    offset = values - table.places
    if len(values) > 10 and np.all(offset == offset[0]):
        return "it numbers the rows"
    if len(values) <= MANY or (values % 1 != 0).any() or len(np.unique(values)) < len(values):
        return ""
    if _IDENTIFIER.fullmatch(name):
        return "it identifies the rows"
    dense = len(values) ** 2 > 2 * COLLISIONS * np.ptp(values)  # no value repeats, although most should
    useless = outcome is not None and not neighbours_predict(values, outcome)
    return "it identifies the rows" if dense and useless else ""


def _learn_words(table: Table, name: str, outcome: Outcomes | None) -> Column | str:
    """Learn a column of words: a word with an indicator has at least 3 rows and half a percent of all."""
    words = table.words(name)
    count = Counter(words.tolist())
    if len(count) == 1:
        return _EMPTY if None in count else _CONSTANT
    if order := table.categories.get(name):
        return Ordinal.of(table, name, order)
    missing = count.pop(None, 0)
    least = max(3, round(0.005 * len(words)))
    frequent = sorted((-number, word) for word, number in count.items() if number >= least)
    levels = tuple(sorted(word for _, word in frequent[:MOST_LEVELS]))
    rare = sum(number for word, number in count.items() if word not in levels) / len(words)
    repeated = sum(number for number in count.values() if number > 1) / len(words)
    if outcome is not None and len(count) > MOST_LEVELS and rare > MOST_OTHER and repeated > 0.5:
        return Statistic.of(table, name, outcome)
    if levels:
        return Category(name, levels, tuple(sorted({*count} - {*levels})[:MOST_RARE]), missing > 0)
    if 2 * len(count) <= count.total():
        return "each of its words has too few rows"
    example = next(word for word in words.tolist() if word is not None)
    return f"few of its words repeat ({example[:30]!r}, ...)"


def _notes(table: Table, column: Column) -> list[str]:
    """Return notes on marks, and on how commas or units are read."""
    if not isinstance(column, Number):
        return []
    name = column.name
    if marks := ", ".join(map(repr, column.marks)):
        return [f"{name}: numbers with marks ({marks}), which become indicators"]
    words = table.columns[name].tolist() if table.columns[name].dtype == object else []
    unclear = (word for word in words if word and ("," in word or (column.unit and column.unit in word)))
    if (word := next(unclear, None)) is None:
        return []
    return [f"{name}: {word!r} is read as {table.spelling(name).value(word):.10g}"]


def _repeats(table: Table, name: str, y: NDArray[Any], is_class: bool) -> bool:
    """Return whether a column repeats the target."""
    if table.numeric or y.ndim > 1 or len(table) < LEAST_REPEATS or not table.known(name).all():
        return False
    if is_class:
        words, labels = table.words(name).tolist(), y.tolist()
        sizes = {len(set(words)), len(set(labels)), len(set(zip(words, labels, strict=True)))}
        return len(sizes) == 1 and sizes.pop() > 1
    values = table.numbers_or_none(name)
    return values is not None and bool(np.ptp(values) > 0) and np.array_equal(values, y)
