"""A table in memory: named columns, each of numbers, of words or of moments in time, with gaps.

A file of text does not say which columns are numbers; a column of words is therefore asked for either, and
answers in the way that the asker needs: "7" is the number 7 to a model that saw numbers in this column, and
the word "7" to one that saw categories.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Bools, Floats, Ints
from tggm.tables.dates import Dates, day_first, parsed
from tggm.tables.errors import TableError
from tggm.tables.numerals import Spelling, spelling_of
from tggm.tables.words import TRUTH, Words, plain_numbers, present, spelled


@dataclass(frozen=True)
class Table:
    """Columns by name, in order.

    Parameters
    ----------
    source : str
        What messages call it, usually the name of the file.
    columns : mapping of str to array, shape (rows,)
        float64 with NaN for gaps, datetime64[us] with NaT, or objects: strings with None.
    decimal : str
        What separates whole from decimal digits in columns of words that do not show it.
    categories : mapping of str to tuple of str
        Columns whose type says that they are categories: their levels from the lowest to the highest, or
        none where these have no order.
    origin : array, shape (rows,), optional
        Where each row stands in the file, from 0, if this is a part of it.
    missing : tuple of str
        Words that were read as missing values besides the usual ones; a model keeps them for later tables.
    """

    source: str
    columns: Mapping[str, NDArray[Any]]
    decimal: str = "."
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: Ints | None = None
    missing: tuple[str, ...] = ()
    _read: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)  # what was read before

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns)

    def take(self, rows: Ints | Bools) -> "Table":
        """The table of these rows."""
        chosen = {name: column[rows] for name, column in self.columns.items()}
        return Table(self.source, chosen, self.decimal, self.categories, self.places[rows], self.missing)

    def row_number(self, row: int) -> int:
        """What a person calls a row: its place in the file, from 1, the line of names not counted."""
        return int(self.places[row]) + 1

    @property
    def places(self) -> Ints:
        """Where the rows stand in the file, from 0."""
        return np.arange(len(self)) if self.origin is None else self.origin

    def require(self, names: Sequence[str]) -> None:
        """Raise unless all these columns are here."""
        missing = [name for name in names if name not in self.columns]
        if not missing:
            return
        near = get_close_matches(missing[0], [name for name in self.names if name not in names], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {_listed(self.names) or 'no columns'}."
        raise TableError(f"{self.source} has no column {_listed(missing)}; {hint}")

    def known(self, name: str) -> Bools:
        """Rows that have a value in this column."""
        column = self.columns[name]
        if column.dtype == object:
            return present(column)
        known: Bools = ~(np.isnat(column) if column.dtype.kind == "M" else np.isnan(column))
        return known

    def without(self, *names: str) -> "Table":
        """The table less some columns."""
        kept = {name: column for name, column in self.columns.items() if name not in names}
        return Table(self.source, kept, self.decimal, self.categories, self.origin, self.missing, self._read)

    def words(self, name: str) -> Words:
        """A column as strings, None for gaps; whole numbers without a decimal point."""
        column = self.columns[name]
        if column.dtype == object:
            return column
        spell = _moment if column.dtype.kind == "M" else spelled
        values = column if column.dtype.kind == "M" else column.tolist()
        known = self.known(name).tolist()
        different: dict[Any, str] = {}
        words = np.empty(len(column), dtype=object)
        words[:] = [
            (different.get(x) or different.setdefault(x, spell(x))) if there else None
            for x, there in zip(values, known, strict=True)
        ]
        return words

    def truth(self, name: str) -> Floats | None:
        """A column of words that are all true or false as 1 and 0, NaN for gaps; None for any other."""
        column = self.columns[name]
        if column.dtype != object:
            return None
        different = set(column.tolist()) - {None}
        if not different or any(word.lower() not in TRUTH for word in different):
            return None
        values = {word: TRUTH[word.lower()] for word in different} | {None: np.nan}
        return np.array([values[word] for word in column.tolist()], dtype=np.float64)

    def spelling(self, name: str, decimal: str | None = None, unit: str | None = None) -> Spelling:
        """How the words of a column write numbers; a unit that is given is the only one."""
        key = (name, decimal or self.decimal, unit)
        if key not in self._read:
            words = self.columns[name]
            different = set(words.tolist()) - {None} if words.dtype == object else set()
            self._read[key] = spelling_of(different, decimal or self.decimal, unit)
        found: Spelling = self._read[key]
        return found

    def numbers(self, name: str, spelling: Spelling | None = None) -> Floats:
        """A column as float64, NaN for gaps; TableError for words that are no numbers, all of them at once.

        Without a spelling, the column's own.
        """
        values = self.numbers_or_none(name, spelling)
        if values is None and self.columns[name].dtype.kind == "M":
            raise TableError(
                f"{self.source} has dates in column {name!r}, which should hold numbers; correct it."
            )
        if values is None:
            known = self.readable(name, spelling or self.spelling(name))
            odd = odd_words(self, name, known)
            first = next(iter(odd))
            raise TableError(
                f"{self.source} has {odd_listed(self, name, odd)} of column {name!r}, which should hold "
                f"numbers; correct it, or say that it means a gap when fitting: --missing {first!r} of "
                f"`tggm fit`, TableTransformer(missing=[{first!r}]) in Python."
            )
        return values

    def dates(self, name: str, first: bool) -> Dates:
        """A column of words as moments, NaT for all that is none; the day `first` where no word shows it."""
        key = ("dates", name, first)
        if key not in self._read:
            words = self.columns[name].tolist()
            shown = day_first(set(words) - {None})
            self._read[key] = parsed(words, first if shown is None else shown)
        found: Dates = self._read[key]
        return found

    def readable(self, name: str, spelling: Spelling) -> dict[str, float]:
        """The words of a column that are numbers, and their values."""
        key = (name, spelling)
        if key not in self._read:
            self._read[key] = spelling.values(set(self.columns[name].tolist()) - {None})
        found: dict[str, float] = self._read[key]
        return found

    def numbers_or_none(self, name: str, spelling: Spelling | None = None) -> Floats | None:
        """A column as `numbers` gives it, or None if there is a word in it that is no number."""
        column = self.columns[name]
        if column.dtype != object:
            return None if column.dtype.kind == "M" else column
        key = ("numbers", name, spelling or self.spelling(name))
        if key not in self._read:
            self._read[key] = self._numbers(name, key[2])
        found: Floats | None = self._read[key]
        return found

    def _numbers(self, name: str, spelling: Spelling) -> Floats | None:
        column = self.columns[name]
        known = self.known(name)
        values = np.full(len(column), np.nan)
        plain = plain_numbers(column[known])
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

    def number(self, word: str | None) -> float | None:
        """What a word is worth by itself: NaN for a gap, None if it is no finite number."""
        return float("nan") if word is None else Spelling(self.decimal).value(word)


def odd_words(table: Table, name: str, readable: Mapping[str, float]) -> dict[str, int]:
    """Words of a column that are not readable, and the row of the first of each."""
    odd: dict[str, int] = {}
    for row, word in enumerate(table.columns[name].tolist()):
        if word is not None and word not in readable:
            odd.setdefault(word, row)
    return odd


def odd_listed(table: Table, name: str, odd: Mapping[str, int], most: int = 5) -> str:
    """Such words with their rows, for a message."""
    shown = [f"{word!r} in row {table.row_number(row)}" for word, row in list(odd.items())[:most]]
    return ", ".join(shown) + (f" and {len(odd) - most} more" if len(odd) > most else "")


def stacked(tables: Sequence[Table], source: str) -> Table:
    """One table of the rows of several with the same columns."""
    first = tables[0]
    for table in tables[1:]:
        table.require(first.names)
    columns: dict[str, Any] = {name: _stacked_column(tables, name) for name in first.names}
    origin = np.concatenate([table.places for table in tables])
    return Table(source, columns, categories=first.categories, origin=origin)


def _stacked_column(tables: Sequence[Table], name: str) -> NDArray[Any]:
    """One column of all tables; words where some have numbers and others words, as in columns not used."""
    kinds = {table.columns[name].dtype.kind for table in tables}
    if kinds == {"M"}:
        return np.concatenate([table.columns[name] for table in tables])
    if "M" in kinds:
        return np.concatenate([table.words(name) for table in tables])
    words = [table.columns[name] for table in tables if table.columns[name].dtype == object]
    if all(word is None for column in words for word in column):  # gaps alone may be of any type
        return np.concatenate([table.numbers(name) for table in tables])
    return np.concatenate([table.words(name) for table in tables])


def _moment(moment: Any) -> str:
    """A date, with its time if it has one."""
    text = str(moment.astype("datetime64[s]"))
    return text.removesuffix("T00:00:00").replace("T", " ")


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
