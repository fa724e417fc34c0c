"""Tables in memory: named columns of numbers, words or dates, some missing; one may be the target.

A CSV file does not state which columns are numbers, so a column of words can be read in both ways: "7" is the
number 7 for a model that was trained on numbers, and the word "7" for one that was trained on categories.
"""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Bools, Floats, Ints
from tggm.tables import text
from tggm.tables.text import TRUTH, Dates, Spelling, Words

_OURS = ("tggm", "sklearn")  # scikit-learn wraps methods of transformers
_MOST, _MOST_NAMES = 5, 8  # words and names of columns that a message lists
_DATE_SAMPLE = 1000  # words that decide whether a column holds dates
MOST_ODD = 0.1  # share of words up to which they are probably mistakes among numbers
MANY = 20  # a column of numbers has more distinct numbers than this
TASKS = ("regression", "classification")
MOST_CLASSES = 100
LARGEST = 1e100  # of a target; sums of squares must be finite


class TableError(ValueError):
    """A table cannot be used; the message names file, column and remedy."""


class TableWarning(UserWarning):
    """Columns of a table are left out or look wrong; the message names them."""


def warn(text: str, kind: type[Warning] = TableWarning) -> None:
    """Warn at the line outside of the package (and scikit-learn) that called it."""
    frame, level = inspect.currentframe(), 1
    while frame and str(frame.f_globals.get("__name__")).split(".")[0] in _OURS:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)


@dataclass(frozen=True)
class Table:
    """Columns by name, in order: float64 with NaN if missing, datetime64[us] with NaT, or strings with None.

    `categories` are the columns whose type is categorical, with their levels from the lowest to the highest,
    empty if unordered; `missing` are words that were read as missing besides the usual ones.
    """

    source: str  # name used in messages, usually that of the file
    columns: Mapping[str, NDArray[Any]]
    decimal: str = "."  # of words that do not show it
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: Ints | None = None  # position of each row in the file, from 0, if this is a part of it
    missing: tuple[str, ...] = ()
    named: bool = True  # false for the columns of an array
    numeric: bool = False  # whether it is an array of numbers, of which all columns are kept
    absent: tuple[str, ...] = ()  # empty columns that stand for columns that the table lacks
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)  # how words are read

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.columns)

    @property
    def places(self) -> Ints:
        """Return the position of each row in the file, from 0."""
        return np.arange(len(self)) if self.origin is None else self.origin

    def take(self, rows: Ints | Bools) -> "Table":
        """Select rows."""
        chosen = {name: column[rows] for name, column in self.columns.items()}
        return replace(self, columns=chosen, origin=self.places[rows], _cache={})

    def without(self, *names: str) -> "Table":
        """Drop columns."""
        kept = {name: column for name, column in self.columns.items() if name not in names}
        return replace(self, columns=kept)

    def require(self, names: Sequence[str]) -> None:
        """Raise unless the table has all these columns."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            near = _similar(missing[0], [name for name in self.columns if name not in names])
            hint = f"did you mean {near[0]!r}?" if near else f"it has {_names(self.names) or 'no columns'}."
            raise TableError(f"{self.source} has no column {_names(missing)}; {hint}")

    def completed(self, names: Sequence[str]) -> "Table":
        """Return the table with empty columns for those that it lacks, and warn.

        Raise if it has none of them, or a column whose name looks like a misspelled one.
        """
        absent = tuple(name for name in names if name not in self.columns)
        others = [name for name in self.columns if name not in names]
        if not absent:
            return self
        if len(absent) == len(names) or any(_similar(name, others) for name in absent):
            self.require(names)
        shown = _names(list(absent))
        warn(f"{self.source} has no column {shown}; predictions average over the values in training.")
        gaps = dict.fromkeys(absent, np.full(len(self), np.nan))
        return replace(self, columns={**self.columns, **gaps}, absent=absent)

    def known(self, name: str) -> Bools:
        """Return which rows have a value in this column."""
        column = self.columns[name]
        if column.dtype == object:
            return np.asarray(column != np.array(None), np.bool_)
        return np.asarray(column == column)  # NaN and NaT differ from themselves

    def words(self, name: str) -> Words:
        """Return a column as strings, None if missing; whole numbers have no decimal point."""
        column, known = self.columns[name], self.known(name)
        if column.dtype == object:
            return column
        values, place = np.unique(column[known], return_inverse=True)
        if column.dtype.kind == "M":  # the time is left out at midnight
            seconds = np.datetime_as_string(values, unit="s").tolist()
            different = [word.removesuffix("T00:00:00").replace("T", " ") for word in seconds]
        else:
            different = [text.format_number(value) for value in values.tolist()]
        words = np.full(len(column), None, dtype=object)
        words[known] = np.array(different, dtype=object)[place]
        return words

    def different(self, name: str) -> set[str]:
        """Return the different words of a column of words; none for any other column."""
        column = self.columns[name]
        return set(column.tolist()) - {None} if column.dtype == object else set()

    def has_codes(self, name: str) -> bool:
        """Return whether all words of a column have whole numbers, one with a leading zero."""
        return text.are_codes(self.different(name))

    def has_dates(self, name: str) -> bool:
        """Return whether a column has dates, or words of which most are dates."""
        column = self.columns[name]
        if column.dtype == object:
            words = islice((word for word in column if word is not None), _DATE_SAMPLE)
            return text.are_dates(list(words))
        return column.dtype.kind == "M" and bool(self.known(name).any())

    def spelling(self, name: str, decimal: str | None = None, unit: str | None = None) -> Spelling:
        """Find the number format of the words of a column; only the given unit is considered, if any."""
        decimal = decimal or self.decimal
        if self.columns[name].dtype != object:
            return Spelling(decimal)
        key = "spelling", name, decimal, unit
        if key not in self._cache:
            self._cache[key] = text.spelling_of(self.different(name), decimal, unit)
        return self._cache[key]

    def readable(self, name: str, spelling: Spelling | None = None) -> dict[str, float]:
        """Return the words of a column that are numbers (or all of them true or false), with their values."""
        spelling = spelling or self.spelling(name)
        key, different = ("readable", name, spelling), self.different(name)
        if key not in self._cache:
            truth = all(word.lower() in TRUTH for word in different)
            value = (lambda word: TRUTH[word.lower()]) if truth else spelling.value
            self._cache[key] = {word: x for word in different if (x := value(word)) is not None}
        return self._cache[key]

    def numbers(self, name: str, spelling: Spelling | None = None) -> Floats:
        """Return a column as float64, NaN if missing; raise `TableError` with the words that are no numbers.

        `spelling` is found from the column by default.
        """
        values = self.numbers_or_none(name, spelling)
        if values is not None:
            return values
        if self.columns[name].dtype.kind == "M":
            raise TableError(f"{self.source} has dates in column {name!r}, which should hold numbers.")
        odd = self.odd_words(name, self.readable(name, spelling))
        place = f"{self.source} has {self.quote(odd)} of column {name!r}"
        raise TableError(f"{place}, which should hold numbers; {_remedy(odd)}")

    def numbers_or_none(self, name: str, spelling: Spelling | None = None) -> Floats | None:
        """Return a column as `numbers` does, or None if it has a word that is not a number."""
        column, spelling = self.columns[name], spelling or self.spelling(name)
        if column.dtype != object:
            return None if column.dtype.kind == "M" else column
        readable = self.readable(name, spelling)
        if len(readable) < len(self.different(name)):
            return None
        return np.array([readable.get(word, np.nan) for word in column.tolist()])

    def number_share(self, name: str) -> float:
        """Return the share of a column's words that are numbers; 0 if there are few different numbers."""
        readable = self.readable(name)
        if len(set(readable.values())) <= MANY:
            return 0.0
        words = [word for word in self.columns[name].tolist() if word is not None]
        return sum(word in readable for word in words) / len(words)

    def refuse_mistakes(self, name: str, odd: Mapping[str, int] | None = None) -> None:
        """Raise if at most a tenth of the words are odd: they are probably mistakes among numbers.

        By default, the odd words are those that are not numbers.
        """
        odd = self.odd_words(name, self.readable(name)) if odd is None else odd
        words = [word for word in self.columns[name].tolist() if word is not None]
        rare = sum(word in odd for word in words) <= MOST_ODD * len(words)
        if rare and self.number_share(name) >= 0.5:
            found = f"column {name!r} of {self.source} has numbers, but also {self.quote(odd)}"
            raise TableError(f"{found}; {_remedy(odd)}")

    def dates(self, name: str, first: bool) -> Dates:
        """Return a column of words as dates, NaT for other words.

        With `first`, the day comes before the month if no word shows the order.
        """
        shown = text.day_first(self.different(name))
        return text.parse_dates(self.columns[name].tolist(), first if shown is None else shown)

    def odd_words(self, name: str, readable: Mapping[str, float]) -> dict[str, int]:
        """Return the words of a column that are not readable, with the first row of each."""
        odd: dict[str, int] = {}
        for row, word in enumerate(self.columns[name].tolist()):
            if word is not None and word not in readable:
                odd.setdefault(word, row)
        return odd

    def quote(self, odd: Mapping[str, int]) -> str:
        """Format words with their rows in the file, counted from 1 without the header, for a message."""
        shown = [f"{word!r} in row {self.places[row] + 1}" for word, row in list(odd.items())[:_MOST]]
        return ", ".join(shown) + (f" and {len(odd) - _MOST} more" if len(odd) > _MOST else "")


def stack_tables(tables: Sequence[Table], source: str) -> Table:
    """Concatenate tables with the same columns."""
    columns = {}
    for name in tables[0].columns:
        for table in tables:
            table.require([name])
        parts = [table.columns[name] for table in tables]
        kinds = {part.dtype.kind for part in parts}
        if kinds == {"f", "O"} and not any(table.different(name) for table in tables):  # some are missing
            parts = [table.numbers(name) for table in tables]
        elif len(kinds) > 1:
            parts = [table.words(name) for table in tables]
        columns[name] = np.concatenate(parts)
    origin = np.concatenate([table.places for table in tables])
    return Table(source, columns, categories=tables[0].categories, origin=origin)


def _remedy(odd: Mapping[str, int]) -> str:
    first = repr(next(iter(odd)))
    return (
        f"correct it, or mark it as missing when fitting: --missing {first} of `tggm fit`, "
        f"X.replace({first}, None) in Python."
    )


def _similar(name: str, others: list[str]) -> list[str]:
    """Return the most similar name, if any; case and spaces around it do not count."""
    known = {other.strip().casefold(): other for other in others}
    return [known[near] for near in get_close_matches(name.strip().casefold(), known, n=1)]


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" * (len(names) > _MOST_NAMES)
    return ", ".join(map(repr, names[:_MOST_NAMES])) + more


@dataclass(frozen=True)
class Target:
    """Name and task of the target, and whether its labels are whole numbers or words."""

    name: str
    task: str
    integer: bool = False  # for classes

    @property
    def is_class(self) -> bool:
        """Return whether the target is a class."""
        return self.task == "classification"

    def known(self, table: Table) -> Bools:
        """Return which rows have a target."""
        return table.known(self.name)

    def values(self, table: Table) -> NDArray[Any]:
        """Return numbers or labels of a table whose rows all have a target."""
        if not self.is_class:
            return table.numbers(self.name)
        words = table.words(self.name)
        if not self.integer:
            return words.astype(str)
        value = Spelling(table.decimal).value
        labels: dict[str, Any] = {word: value(word) for word in set(words.tolist())}  # equal for 7 and 7.0
        strange = [word for word, label in labels.items() if label is None or label % 1]
        if strange:
            raise TableError(f"{table.source} has the class {strange[0]!r}; the model has whole numbers.")
        return np.array([int(labels[word]) for word in words])


def choose_target(table: Table, name: str, task: str | None) -> tuple[Target, str]:
    """Return the target and how its task was found; raise `TableError` if it cannot be predicted."""
    table.require([name])
    known = table.known(name)
    if table.has_dates(name):
        raise TableError(f"the target {name!r} of {table.source} holds dates; pass numbers, such as days.")
    if not known.any():
        raise TableError(f"the target {name!r} of {table.source} is empty; choose another column.")
    are_truth = {word.lower() for word in table.different(name)} in ({"true"}, {"false"}, {"true", "false"})
    values = None if are_truth or table.has_codes(name) else table.numbers_or_none(name)
    numeric = None if values is None else values[known]
    whole = numeric is not None and bool((numeric == np.floor(numeric)).all())
    labels: list[Any] = np.unique(table.words(name)[known] if numeric is None else numeric).tolist()
    different, rows = len(labels), int(known.sum())
    if task is None and numeric is None:
        table.refuse_mistakes(name)
    found, reason = (task, "as requested") if task is not None else _choose_task(labels, numeric, whole)
    if found == "regression":
        _require_numbers(table, name, numeric)
    if different == 1:
        raise TableError(f"the target {name!r} has one value, {_word(labels[0])!r}; choose another column.")
    if found == "classification" and different > min(MOST_CLASSES, rows // 2):
        raise TableError(
            f"the target {name!r} has {different} values in {rows} rows, too many classes; choose another."
        )
    return Target(name, found, found == "classification" and whole), reason


def _word(label: Any) -> str:
    return label if isinstance(label, str) else text.format_number(label)


def _require_numbers(table: Table, name: str, numeric: Floats | None) -> None:
    if numeric is None:
        words = sorted({word for word in table.words(name) if word is not None})
        strange = next(iter(table.odd_words(name, table.readable(name))), words[0])
        raise TableError(
            f"the target {name!r} has {strange!r}, which is not a number; correct it, mark it as missing "
            f"(--missing {strange!r}), or use --task classification."
        )
    if np.abs(numeric).max() > LARGEST:
        raise TableError(f"the target {name!r} has {np.abs(numeric).max():g}, too large; divide it.")


def _choose_task(labels: list[Any], numeric: Floats | None, whole: bool) -> tuple[str, str]:
    """Choose classes for words, two values, or at most 10 whole numbers with five rows each on average."""
    if len(labels) == 2:
        return "classification", f"the target has two values, {' and '.join(map(_word, labels))}"
    if numeric is None:
        return "classification", "the target has words"
    if whole and len(labels) <= 10 and len(numeric) >= 5 * len(labels):
        reason = f"the target has {len(labels)} different whole numbers; as a number: --task regression"
        return "classification", reason
    return "regression", "the target has numbers"
