"""Find the kind of each column: numbers, categories, grades, dates, or nothing that a model can use."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.tables.columns import Category, Column, DateColumn, Number, Ordinal, Statistic, marks_of
from tggm.tables.errors import TableError
from tggm.tables.table import Table, odd_listed, odd_words
from tggm.tables.target_encoding import Outcomes
from tggm.tables.text import Words, date_words

MOST_LEVELS = 50  # categories with an indicator each
MOST_OTHER = 0.1  # share of rows with rare categories; above it the column is target-encoded
DATE_SAMPLE = 1000  # words that decide whether a column holds dates
LEAST_REPEATS = 20  # rows; fewer may equal the target by chance
_NEARLY = 0.9  # share of words that are numbers from which the others are probably mistakes
_MANY = 20  # different numbers that make a column of numbers
_IDENTIFIER = re.compile(r"(?i:(.*[^a-z])?(id|uuid|guid|key))|.*[a-z](Id|ID|Key)|[A-Z]{1,3}ID")
_EMPTY, _CONSTANT = "it is empty", "it has the same value everywhere"


class LearnedColumns(NamedTuple):
    """Columns of inputs, those left out with the reason, and notes for the user."""

    columns: tuple[Column, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def learn_columns(
    table: Table,
    y: NDArray[Any] | None,
    is_class: bool,
    *,
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
    target_encoding: bool = True,
) -> LearnedColumns:
    """Learn the kind of each column; raise `TableError` that lists all mistakes, or if no column is left.

    `ignore` are columns to leave out, `categorical` columns of numbers that are categories. Without
    `target_encoding` training rows are later encoded as new ones are.
    """
    table.require([*ignore, *categorical])
    outcome = None if y is None else Outcomes.of(y, is_class)
    columns: list[Column] = []
    left_out = [(name, "as asked") for name in ignore]
    notes: list[str] = []
    mistakes: list[str] = []
    for name in table.names:
        if name in ignore:
            continue
        try:
            found = find_column(table, name, outcome, name in categorical, target_encoding)
        except TableError as error:
            mistakes.append(str(error).removesuffix("."))
            continue
        relation = "" if y is None or isinstance(found, str) else _relation(table, name, y, is_class)
        if relation == "equal":
            found = "it repeats the target"
        if isinstance(found, str):
            left_out.append((name, found))
            continue
        columns.append(found)
        if relation == "linear":
            notes.append(f"{name}: the target is a multiple of it; is it known beforehand?")
        if isinstance(found, Number):
            notes += _reading_notes(table, found)
    if mistakes:
        raise TableError("; ".join(mistakes) + ".")
    if not columns:
        why = "; ".join(f"{name}: {reason}" for name, reason in left_out[:5])
        raise TableError(f"{table.source} has no column that a model could use ({why}).")
    return LearnedColumns(tuple(columns), tuple(left_out), tuple(notes))


def find_column(
    table: Table, name: str, outcome: Outcomes | None, categorical: bool, target_encoding: bool
) -> Column | str:
    """Find the kind of a column of inputs and learn it, or return the reason why it is left out."""
    outcome = outcome if target_encoding else None
    order = table.categories.get(name)
    if order:
        different = set(table.words(name).tolist())
        if len(different) == 1:
            return _EMPTY if None in different else _CONSTANT
        return Ordinal.of(table, name, order)
    if order is not None or categorical:
        return _words(table, name, outcome, target_encoding)
    if (clock := dates_in(table, name)) is not None:
        if len(set(table.words(name).tolist())) == 1:
            return _CONSTANT
        return DateColumn.of(table, name, clock == "clock")
    values = table.numbers_or_none(name)
    if values is not None:
        return _numbers(table, name, values, outcome)
    return _mixed(table, name, outcome) or _words(table, name, outcome, target_encoding)


def dates_in(table: Table, name: str) -> str | None:
    """Return "date" or "clock" for a column of dates or times of day, else None."""
    column = table.columns[name]
    if column.dtype == object:
        return date_words(list(islice((word for word in column if word is not None), DATE_SAMPLE))) or None
    return "date" if column.dtype.kind == "M" and bool(table.known(name).any()) else None


def _numbers(table: Table, name: str, values: Floats, outcome: Outcomes | None) -> Number | str:
    known = values[~np.isnan(values)]
    full = len(known) == len(values)
    if not len(known):
        return _EMPTY
    if full and np.all(known == known[0]):
        return _CONSTANT
    offset = values - table.places
    if full and len(values) > 10 and np.all(offset == offset[0]):
        return "it only counts the rows"
    key = full and len(values) > _MANY and _IDENTIFIER.fullmatch(name)
    if key and (values % 1 == 0).all() and len(np.unique(values)) == len(values):
        return "it names the rows"
    return Number.of(table, name, table.spelling(name), outcome=outcome)


def _reading_notes(table: Table, number: Number) -> list[str]:
    """Return a note on marks, or an example of how commas or units are read, if there are any."""
    name, words = number.name, table.columns[number.name]
    if number.marks:
        return [f"{name}: numbers with marks ({', '.join(map(repr, number.marks))}), which become indicators"]
    for word in words.tolist() if words.dtype == object else ():
        if word is not None and ("," in word or (number.unit and number.unit in word)):
            return [f"{name}: {word!r} is read as {table.spelling(name).value(word):.10g}"]
    return []


def _mixed(table: Table, name: str, outcome: Outcomes | None) -> Number | None:
    """Return numbers with marks among them, None for words; raise if there are mistakes."""
    spelling = table.spelling(name)
    if number_share(table, name) < 0.5:
        return None
    if marks := marks_of(table, name, spelling):
        return Number.of(table, name, spelling, marks, outcome)
    refuse_mistakes(table, name)
    return None


def number_share(table: Table, name: str) -> float:
    """Return the share of a column's words that are numbers; 0 if there are few different ones."""
    readable = table.readable(name, table.spelling(name))
    if len(set(readable.values())) <= _MANY:
        return 0.0
    words = [word for word in table.columns[name].tolist() if word is not None]
    return sum(word in readable for word in words) / len(words)


def refuse_mistakes(table: Table, name: str) -> None:
    """Raise for a column that is nearly all numbers, but not quite."""
    if number_share(table, name) < _NEARLY:
        return
    odd = odd_words(table, name, table.readable(name, table.spelling(name)))
    first = next(iter(odd))
    raise TableError(
        f"column {name!r} of {table.source} is nearly all numbers, but has {odd_listed(table, name, odd)}; "
        f"correct it, or mark it as a gap: --missing {first!r} of `tggm fit`, "
        f"TableTransformer(missing=[{first!r}]) in Python."
    )


def levels_of(words: Words) -> tuple[str, ...]:
    """Return the frequent categories, sorted: at least 3 rows and half a percent, at most 50 categories."""
    count = Counter(word for word in words.tolist() if word is not None)
    least = max(3, round(0.005 * len(words)))
    frequent = [(-number, word) for word, number in count.items() if number >= least]
    return tuple(sorted(word for _, word in sorted(frequent)[:MOST_LEVELS]))


def _words(table: Table, name: str, outcome: Outcomes | None, target_encoding: bool) -> Column | str:
    words = table.words(name)
    count = Counter(words.tolist())
    if len(count) == 1:
        return _EMPTY if None in count else _CONSTANT
    different = set(count) - {None}
    levels = levels_of(words)
    rare = sum(count[word] for word in different - set(levels)) / len(words)
    repeated = sum(count[word] for word in different if count[word] > 1) / len(words)
    encodable = target_encoding and (outcome is None or bool(outcome.names))
    if encodable and len(different) > MOST_LEVELS and rare > MOST_OTHER and repeated > 0.5:
        return Statistic.of(table, name, outcome)
    if levels:
        return Category.of(table, name, levels)
    if len(different) <= 0.5 * sum(count[word] for word in different):
        return "its words are too rare to learn from"
    example = next(word for word in words.tolist() if word is not None)
    return f"its words hardly ever repeat ({example[:30]!r}, ...)"


def _relation(table: Table, name: str, y: NDArray[Any], is_class: bool) -> str:
    """Return "equal" if a column repeats the target, "linear" if it is a multiple of it, else ""."""
    known = table.known(name)
    if y.ndim > 1 or known.sum() < LEAST_REPEATS or not known.all():
        return ""
    if is_class:
        words, labels = table.words(name).tolist(), y.tolist()
        sizes = {len(set(words)), len(set(labels)), len(set(zip(words, labels, strict=True)))}
        return "equal" if len(sizes) == 1 and sizes.pop() > 1 else ""
    values = table.numbers_or_none(name)
    if values is None or np.ptp(values) == 0 or np.ptp(y) == 0:
        return ""
    if np.array_equal(values, y):
        return "equal"
    with np.errstate(all="ignore"):
        return "linear" if abs(np.corrcoef(values, y)[0, 1]) > 1 - 1e-12 else ""
