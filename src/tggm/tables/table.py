"""A table in memory: named columns, each of numbers or of words, with gaps.

A file of text does not say which columns are numbers; a column of words is therefore asked for either, and
answers in the way that the asker needs: "7" is the number 7 to a model that saw numbers in this column, and
the word "7" to one that saw categories.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Bools, Floats, Ints
from tggm.tables.errors import TableError

GAPS = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "?")  # words for a missing value
Words = NDArray[np.object_]  # str, or None where there is none


@dataclass(frozen=True)
class Table:
    """Columns by name, in order.

    Parameters
    ----------
    source : str
        What messages call it, usually the name of the file.
    columns : mapping of str to array, shape (rows,)
        float64 with NaN for gaps, or objects: strings with None for gaps.
    decimal : str
        What separates whole from decimal digits in columns of words.
    dates : frozenset of str
        Columns whose type says that they are dates.
    origin : array, shape (rows,), optional
        Where each row stands in the file, from 0, if this is a part of it.
    """

    source: str
    columns: Mapping[str, NDArray[Any]]
    decimal: str = "."
    dates: frozenset[str] = frozenset()
    origin: Ints | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns)

    def take(self, rows: Ints | Bools) -> "Table":
        """The table of these rows."""
        chosen = {name: column[rows] for name, column in self.columns.items()}
        return Table(self.source, chosen, self.decimal, self.dates, self.places[rows])

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
        near = get_close_matches(missing[0], self.names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {_listed(self.names)}."
        raise TableError(f"{self.source} has no column {_listed(missing)}; {hint}")

    def known(self, name: str) -> Bools:
        """Rows that have a value in this column."""
        column = self.columns[name]
        gaps = [word is None for word in column] if column.dtype == object else np.isnan(column)
        return ~np.asarray(gaps, dtype=bool)

    def words(self, name: str) -> Words:
        """A column as strings, None for gaps; whole numbers without a decimal point."""
        column = self.columns[name]
        if column.dtype == object:
            return column
        return np.array([None if np.isnan(x) else spelled(x) for x in column.tolist()], dtype=object)

    def numbers(self, name: str) -> Floats:
        """A column as float64, NaN for gaps; TableError at the first word that is no number."""
        column = self.columns[name]
        values = self.numbers_or_none(name)
        if values is None:
            row = next(k for k, word in enumerate(column.tolist()) if self.number(word) is None)
            raise TableError(
                f"{self.source} has {column[row]!r} in row {self.row_number(row)} of column {name!r}, which "
                f"should hold numbers; correct it, or say in `tggm fit` that it means a gap: --missing "
                f"{column[row]!r}."
            )
        return values

    def numbers_or_none(self, name: str) -> Floats | None:
        """A column as `numbers` gives it, or None if there is a word in it that is no number."""
        column = self.columns[name]
        if column.dtype != object:
            return column
        known = self.known(name)
        words = [word.replace(self.decimal, ".") for word in column[known].tolist()]
        values = np.full(len(column), np.nan)
        try:
            values[known] = np.array(words, dtype=np.float64)
        except ValueError:
            return None
        finite = np.isfinite(values[known]).all() and not any("_" in word for word in words)
        return values if finite else None

    def number(self, word: str | None) -> float | None:
        """What a word is worth: NaN for a gap, None if it is no finite number."""
        if word is None:
            return float("nan")
        try:
            value = float(word.replace(self.decimal, "."))
        except ValueError:
            return None
        # Python reads 1_000 and "infinity" too; in a table they are more likely mistakes
        return value if np.isfinite(value) and "_" not in word else None


def stacked(tables: Sequence[Table], source: str) -> Table:
    """One table of the rows of several with the same columns."""
    first = tables[0]
    for table in tables[1:]:
        table.require(first.names)
    columns: dict[str, Any] = {name: _stacked_column(tables, name) for name in first.names}
    dates = frozenset[str]().union(*(table.dates for table in tables))
    return Table(source, columns, dates=dates, origin=np.concatenate([table.places for table in tables]))


def _stacked_column(tables: Sequence[Table], name: str) -> NDArray[Any]:
    """One column of all tables; words where some have numbers and others words, as in columns not used."""
    words = [table.columns[name] for table in tables if table.columns[name].dtype == object]
    if all(word is None for column in words for word in column):  # gaps alone may be of any type
        return np.concatenate([table.numbers(name) for table in tables])
    return np.concatenate([table.words(name) for table in tables])


def spelled(number: float) -> str:
    """The shortest spelling of a number: 3, not 3.0."""
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
