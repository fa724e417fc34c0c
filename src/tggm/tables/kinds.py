"""What a column is: numbers, categories, grades, dates, or nothing a model could use."""

import re
from collections import Counter
from itertools import islice
from typing import NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.tables.columns import Category, Column, Moment, Number, Ordinal, Statistic
from tggm.tables.columns.number import marks_of
from tggm.tables.dates import SAMPLE, date_words
from tggm.tables.errors import TableError
from tggm.tables.numerals import Spelling
from tggm.tables.outcomes import Outcomes
from tggm.tables.table import Table, odd_listed, odd_words
from tggm.tables.words import Words

MOST_LEVELS = 50  # categories that get a column of their own
MOST_OTHER = 0.1  # of the rows: if more have rare categories, statistics tell them apart
_NEARLY = 0.9  # of the words are numbers: the others are probably mistakes
_MANY = 20  # different numbers that make a column of numbers
_IDENTIFIER = re.compile(r"(?i:(.*[^a-z])?(id|uuid|guid|key))|.*[a-z](Id|ID|Key)|[A-Z]{1,3}ID")


class Finding(NamedTuple):
    """A column, or the reason why it is not used, or a mistake in it; and a note for the user."""

    column: Column | None = None
    useless: str = ""
    mistake: str = ""
    note: str = ""


def found_column(
    table: Table, name: str, outcome: Outcomes | None = None, *, categorical: bool = False, many: bool = True
) -> Finding:
    """What a column of inputs is, learned from a table.

    With `categorical` its numbers are categories; without `many`, no column learns of the target, and one of
    many words has no statistics.
    """
    outcome = outcome if many else None
    if (order := table.categories.get(name)) is not None:
        return _graded(table, name, order) if order else _words(table, name, outcome, many)
    if categorical:
        return _words(table, name, outcome, many)
    if (clock := dates_in(table, name)) is not None:
        found = Moment.of(table, name, clock == "clock")
        constant = len(set(table.words(name).tolist())) == 1
        return Finding(useless="it has the same value everywhere") if constant else Finding(found)
    values = table.numbers_or_none(name)
    if values is not None:
        return _numbers(table, name, values, outcome)
    return _mixed(table, name, outcome) or _words(table, name, outcome, many)


def dates_in(table: Table, name: str) -> str | None:
    """Whether a column holds dates or times of the day ("date", "clock"), or None."""
    column = table.columns[name]
    if column.dtype == object:
        return date_words(list(islice((word for word in column if word is not None), SAMPLE))) or None
    return "date" if column.dtype.kind == "M" and bool(table.known(name).any()) else None


def refuse_dates(table: Table, name: str) -> None:
    """Raise for a target of dates or times."""
    if dates_in(table, name) is not None:
        example = next(word for word in table.words(name).tolist() if word is not None)
        raise TableError(
            f"column {name!r} of {table.source} holds dates or times ({example!r}), which cannot be "
            "predicted as they are; replace them by a number that matters (days since the start)."
        )


def levels_of(words: Words) -> tuple[str, ...]:
    """Categories frequent enough to learn about, sorted: 3 rows and half a percent, at most 50."""
    count = Counter(word for word in words.tolist() if word is not None)
    least = max(3, round(0.005 * len(words)))
    frequent = [(-number, word) for word, number in count.items() if number >= least]
    return tuple(sorted(word for _, word in sorted(frequent)[:MOST_LEVELS]))


def _numbers(table: Table, name: str, values: Floats, outcome: Outcomes | None) -> Finding:
    known = values[~np.isnan(values)]
    full = len(known) == len(values)
    if not len(known):
        return Finding(useless="it is empty")
    if full and np.all(known == known[0]):
        return Finding(useless="it has the same value everywhere")
    offset = values - table.places
    if full and len(values) > 10 and np.all(offset == offset[0]):
        return Finding(useless="it only counts the rows")
    if full and _names_rows(name, values):
        return Finding(useless="it names the rows")
    spelling = table.spelling(name)
    found = Number.of(table, name, spelling, outcome=outcome)
    return Finding(found, note=_how_read(table, name, spelling))


def _names_rows(name: str, values: Floats) -> bool:
    """Whether different whole numbers are called a key."""
    whole = len(values) > _MANY and bool(_IDENTIFIER.fullmatch(name)) and bool((values % 1 == 0).all())
    return whole and len(np.unique(values)) == len(values)


def _how_read(table: Table, name: str, spelling: Spelling) -> str:
    """What commas and units were taken for, if there are any."""
    words = table.columns[name]
    if words.dtype != object:
        return ""
    for word in words.tolist():
        if word is not None and ("," in word or (spelling.unit and spelling.unit in word)):
            return f"{name}: {word!r} is read as {spelling.value(word):.10g}"
    return ""


def _mixed(table: Table, name: str, outcome: Outcomes | None) -> Finding | None:
    """Numbers with marks among them, or with mistakes; None for words."""
    spelling = table.spelling(name)
    readable = table.readable(name, spelling)
    words = [word for word in table.columns[name].tolist() if word is not None]
    share = sum(word in readable for word in words) / len(words)
    if len(set(readable.values())) <= _MANY or share < 0.5:
        return None
    if marks := marks_of(table, name, spelling):
        found = Number.of(table, name, spelling, marks, outcome)
        listed = ", ".join(map(repr, marks))
        return Finding(found, note=f"{name}: numbers with marks ({listed}), which the model is told apart")
    return Finding(mistake=mistakes(table, name, readable)) if share >= _NEARLY else None


def mistakes(table: Table, name: str, readable: dict[str, float]) -> str:
    """What is said of a column that is nearly all numbers: to guess that it is categories would be wrong."""
    odd = odd_words(table, name, readable)
    first = next(iter(odd))
    return (
        f"column {name!r} of {table.source} is nearly all numbers, but has {odd_listed(table, name, odd)}; "
        f"correct it, or say that it means a gap: --missing {first!r} of `tggm fit`, "
        f"TableTransformer(missing=[{first!r}]) in Python"
    )


def refuse_mistakes(table: Table, name: str) -> None:
    """Raise for a target that is nearly all numbers."""
    readable = table.readable(name, table.spelling(name))
    words = [word for word in table.words(name).tolist() if word is not None]
    share = sum(word in readable for word in words) / len(words)
    if len(set(readable.values())) > _MANY and share >= _NEARLY:
        raise TableError(mistakes(table, name, readable) + ".")


def _graded(table: Table, name: str, order: tuple[str, ...]) -> Finding:
    different = set(table.words(name).tolist())
    if different <= {None}:
        return Finding(useless="it is empty")
    if len(different) == 1:
        return Finding(useless="it has the same value everywhere")
    return Finding(Ordinal.of(table, name, order))


def _words(table: Table, name: str, outcome: Outcomes | None, many: bool) -> Finding:
    words = table.words(name)
    count = Counter(words.tolist())
    different = set(count) - {None}
    if not different:
        return Finding(useless="it is empty")
    if len(count) == 1:
        return Finding(useless="it has the same value everywhere")
    levels = levels_of(words)
    rare = sum(count[word] for word in different - set(levels)) / len(words)
    repeated = sum(n for word, n in count.items() if word is not None and n > 1) / len(words)
    told = outcome is None or bool(outcome.names)
    if many and told and len(different) > MOST_LEVELS and rare > MOST_OTHER and repeated > 0.5:
        return Finding(Statistic.of(table, name, outcome))
    if not levels:
        example = next(word for word in words.tolist() if word is not None)
        if len(different) <= 0.5 * sum(count[word] for word in different):
            return Finding(useless="its words are too rare to learn from")
        return Finding(useless=f"its words hardly ever repeat ({example[:30]!r}, ...)")
    return Finding(Category.of(table, name, levels))
