"""A table in memory: named columns of numbers, words or dates, with gaps.

A CSV file does not state which columns are numbers, so a column of words can be read either way: "7" is the
number 7 for a model that was trained on numbers, and the word "7" for one that was trained on categories.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Bools, Floats, Ints
from tggm.tables import text
from tggm.tables.errors import TableError
from tggm.tables.text import TRUTH, Dates, Spelling, Words

T = TypeVar("T")


@dataclass(frozen=True)
class Table:
    """Columns by name, in order: float64 with NaN for gaps, datetime64[us] with NaT, or strings with None.

    `categories` are the columns whose type is categorical, with their levels from the lowest to the highest,
    empty if unordered; `missing` are words that were read as gaps besides the usual ones.
    """

    source: str  # name used in messages, usually that of the file
    columns: Mapping[str, NDArray[Any]]
    decimal: str = "."  # of words that do not show it
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: Ints | None = None  # position of each row in the file, from 0, if this is a part of it
    missing: tuple[str, ...] = ()
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)  # of `_cached`

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

    def row_number(self, row: int) -> int:
        """Return the number of a row in the file, from 1, without the header."""
        return int(self.places[row]) + 1

    def take(self, rows: Ints | Bools) -> "Table":
        """Select rows."""
        chosen = {name: column[rows] for name, column in self.columns.items()}
        return Table(self.source, chosen, self.decimal, self.categories, self.places[rows], self.missing)

    def without(self, *names: str) -> "Table":
        """Drop columns."""
        kept = {name: column for name, column in self.columns.items() if name not in names}
        return Table(self.source, kept, self.decimal, self.categories, self.origin, self.missing, self._cache)

    def require(self, names: Sequence[str]) -> None:
        """Raise unless the table has all these columns."""
        missing = [name for name in names if name not in self.columns]
        if not missing:
            return
        near = get_close_matches(missing[0], [name for name in self.names if name not in names], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {_listed(self.names) or 'no columns'}."
        raise TableError(f"{self.source} has no column {_listed(missing)}; {hint}")

    def known(self, name: str) -> Bools:
        """Return which rows have a value in this column."""
        column = self.columns[name]
        if column.dtype == object:
            return text.present(column)
        known: Bools = ~(np.isnat(column) if column.dtype.kind == "M" else np.isnan(column))
        return known

    def words(self, name: str) -> Words:
        """Return a column as strings, None for gaps; whole numbers have no decimal point."""
        column = self.columns[name]
        if column.dtype == object:
            return column
        is_date = column.dtype.kind == "M"
        spell: Callable[[Any], str] = _date_text if is_date else text.spelled
        values = column if is_date else column.tolist()
        different: dict[Any, str] = {}
        words = np.empty(len(column), dtype=object)
        words[:] = [
            (different.get(x) or different.setdefault(x, spell(x))) if there else None
            for x, there in zip(values, self.known(name).tolist(), strict=True)
        ]
        return words

    def truth(self, name: str) -> Floats | None:
        """Return words that are all true or false as 1 and 0, NaN for gaps; None for any other column."""
        column = self.columns[name]
        if column.dtype != object:
            return None
        different = set(column.tolist()) - {None}
        if not different or any(word.lower() not in TRUTH for word in different):
            return None
        values = {word: TRUTH[word.lower()] for word in different} | {None: np.nan}
        return np.array([values[word] for word in column.tolist()], dtype=np.float64)

    def spelling(self, name: str, decimal: str | None = None, unit: str | None = None) -> Spelling:
        """Find how the words of a column write numbers; a unit that is given is the only one."""

        def find() -> Spelling:
            column = self.columns[name]
            different = set(column.tolist()) - {None} if column.dtype == object else set()
            return text.spelling_of(different, decimal or self.decimal, unit)

        return self._cached(("spelling", name, decimal or self.decimal, unit), find)

    def readable(self, name: str, spelling: Spelling) -> dict[str, float]:
        """Return the words of a column that are numbers, with their values."""

        def find() -> dict[str, float]:
            different = set(self.columns[name].tolist()) - {None}
            return {word: x for word in different if (x := spelling.value(word)) is not None}

        return self._cached(("readable", name, spelling), find)

    def numbers(self, name: str, spelling: Spelling | None = None) -> Floats:
        """Return a column as float64, NaN for gaps; raise `TableError` that lists words that are no numbers.

        `spelling` is found from the column by default.
        """
        values = self.numbers_or_none(name, spelling)
        if values is not None:
            return values
        if self.columns[name].dtype.kind == "M":
            raise TableError(
                f"{self.source} has dates in column {name!r}, which should hold numbers; correct it."
            )
        odd = odd_words(self, name, self.readable(name, spelling or self.spelling(name)))
        first = next(iter(odd))
        raise TableError(
            f"{self.source} has {odd_listed(self, name, odd)} of column {name!r}, which should hold numbers; "
            f"correct it, or mark it as a gap when fitting: --missing {first!r} of `tggm fit`, "
            f"TableTransformer(missing=[{first!r}]) in Python."
        )

    def numbers_or_none(self, name: str, spelling: Spelling | None = None) -> Floats | None:
        """Return a column as `numbers` does, or None if it has a word that is not a number."""
        column = self.columns[name]
        if column.dtype != object:
            return None if column.dtype.kind == "M" else column
        spelling = spelling or self.spelling(name)
        return self._cached(("numbers", name, spelling), lambda: self._read_numbers(name, spelling))

    def _read_numbers(self, name: str, spelling: Spelling) -> Floats | None:
        column, known = self.columns[name], self.known(name)
        values = np.full(len(column), np.nan)
        plain = text.plain_numbers(column[known])
        if plain is not None:
            values[known] = plain
            return values
        if (found := self.truth(name)) is not None:
            return found
        readable = self.readable(name, spelling)
        words = column[known].tolist()
        if len(readable) < len(set(words)):
            return None
        values[known] = [readable[word] for word in words]
        return values

    def dates(self, name: str, first: bool) -> Dates:
        """Return a column of words as dates, NaT for other words; with `first`, the day comes first."""

        def parse() -> Dates:
            words = self.columns[name].tolist()
            shown = text.day_first(set(words) - {None})
            return text.parse_dates(words, first if shown is None else shown)

        return self._cached(("dates", name, first), parse)

    def _cached(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self._cache:
            self._cache[key] = make()
        found: T = self._cache[key]
        return found


def odd_words(table: Table, name: str, readable: Mapping[str, float]) -> dict[str, int]:
    """Return the words of a column that are not readable, with the first row of each."""
    odd: dict[str, int] = {}
    for row, word in enumerate(table.columns[name].tolist()):
        if word is not None and word not in readable:
            odd.setdefault(word, row)
    return odd


def odd_listed(table: Table, name: str, odd: Mapping[str, int], most: int = 5) -> str:
    """List such words with their rows, for a message."""
    shown = [f"{word!r} in row {table.row_number(row)}" for word, row in list(odd.items())[:most]]
    return ", ".join(shown) + (f" and {len(odd) - most} more" if len(odd) > most else "")


def stacked(tables: Sequence[Table], source: str) -> Table:
    """Concatenate tables with the same columns."""
    first = tables[0]
    for table in tables[1:]:
        table.require(first.names)
    columns: dict[str, Any] = {name: _stacked_column(tables, name) for name in first.names}
    origin = np.concatenate([table.places for table in tables])
    return Table(source, columns, categories=first.categories, origin=origin)


def _stacked_column(tables: Sequence[Table], name: str) -> NDArray[Any]:
    """Concatenate a column; as words if some tables have numbers and others words."""
    columns = [table.columns[name] for table in tables]
    kinds = {column.dtype.kind for column in columns}
    if kinds == {"M"}:
        return np.concatenate(columns)
    only_gaps = all(word is None for column in columns if column.dtype == object for word in column)
    if "M" not in kinds and only_gaps:  # columns of gaps can be of any type
        return np.concatenate([table.numbers(name) for table in tables])
    return np.concatenate([table.words(name) for table in tables])


def _date_text(date: Any) -> str:
    """Return a date, with its time if that is not midnight."""
    words = str(date.astype("datetime64[s]"))
    return words.removesuffix("T00:00:00").replace("T", " ")


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
