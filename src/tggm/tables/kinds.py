"""What a column is: numbers, categories, dates, or nothing a model could use."""

import re
from collections import Counter
from typing import NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.tables.errors import TableError
from tggm.tables.table import Table, Words

MOST_LEVELS = 50  # categories that get a column of their own
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})([T ].*)?"
    r"|\d{1,2}:\d{2}(:\d{2}.*)?"
    rf"|\d{{1,2}}\.? {_MONTH},? \d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{2,4}}|\d{{1,2}}-{_MONTH}-\d{{2,4}}",
    re.IGNORECASE,
)
_COMMA = re.compile(r"[+-]?\d+,\d+")
_NEARLY = 0.9  # of the words: the others are probably mistakes


class Kind(NamedTuple):
    """`number`, `category` or `useless`, and why it is the last."""

    name: str
    reason: str = ""


def kind_of(table: Table, name: str, *, categorical: bool = False) -> Kind:
    """What a column of inputs is; TableError for dates and for numbers with mistakes in them."""
    refuse_dates(table, name)
    if categorical:
        return _categories(table.words(name))
    values = table.numbers_or_none(name)
    if values is not None:
        return _numbers(values, table)
    refuse_mistakes(table, name)
    return _categories(table.words(name))


def levels_of(words: Words) -> tuple[str, ...]:
    """Categories frequent enough to learn about, sorted: 3 rows and half a percent, at most 50."""
    count = Counter(word for word in words if word is not None)
    least = max(3, round(0.005 * len(words)))
    frequent = [(-number, word) for word, number in count.items() if number >= least]
    return tuple(sorted(word for _, word in sorted(frequent)[:MOST_LEVELS]))


def refuse_dates(table: Table, name: str) -> None:
    """Raise for a column of dates or times."""
    column = table.columns[name]
    if column.dtype != object:
        return
    words = [word for word in column[:1000] if word is not None]
    found = [word for word in words if _DATE.fullmatch(word)] if name not in table.dates else words
    if found and len(found) >= _NEARLY * len(words):
        raise TableError(
            f"column {name!r} of {table.source} holds dates or times ({found[0]!r}), which a model cannot "
            "use as they are; replace them by numbers that matter (days since the start, month, hour), or "
            f"leave the column out: --ignore {name!r}."
        )


def _numbers(values: Floats, table: Table) -> Kind:
    known = values[~np.isnan(values)]
    if not len(known):
        return Kind("useless", "it is empty")
    if len(known) == len(values) and np.all(known == known[0]):
        return Kind("useless", "it has the same value everywhere")
    offset = values - table.places
    if len(known) == len(values) > 10 and np.all(offset == offset[0]):
        return Kind("useless", "it only counts the rows")
    return Kind("number")


def _categories(words: Words) -> Kind:
    different = set(words.tolist())
    if different <= {None}:
        return Kind("useless", "it is empty")
    if len(different) == 1:
        return Kind("useless", "it has the same value everywhere")
    if not levels_of(words):
        example = next(word for word in words if word is not None)
        return Kind("useless", f"its words hardly ever repeat ({example[:30]!r}, ...)")
    return Kind("category")


def refuse_mistakes(table: Table, name: str) -> None:
    """Raise for a column that is nearly all numbers: guessing that it is categories would be wrong."""
    words = [word for word in table.words(name) if word is not None]
    numbers = {word for word in words if table.number(word) is not None}
    commas = [word for word in words if _COMMA.fullmatch(word)]
    if table.decimal == "." and commas and len(commas) + len(numbers) >= _NEARLY * len(set(words)):
        raise TableError(
            f"column {name!r} of {table.source} has decimal commas ({commas[0]!r}); pass --decimal ','."
        )
    share = sum(word in numbers for word in words) / len(words)
    if len(numbers) > 20 and share >= _NEARLY:
        strange = next(word for word in words if word not in numbers)
        row = table.row_number(int(np.argmax(table.columns[name] == strange)))
        raise TableError(
            f"column {name!r} of {table.source} is nearly all numbers, but has {strange!r} in row {row}; "
            f"correct it, or say that it means a gap: --missing {strange!r}."
        )
