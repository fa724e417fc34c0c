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

from tggm.tables.errors import TableError

Floats = NDArray[np.float64]
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
    origin: NDArray[np.integer[Any]] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns)

    def take(self, rows: NDArray[np.integer[Any]] | NDArray[np.bool_]) -> "Table":
        """The table of these rows."""
        chosen = {name: column[rows] for name, column in self.columns.items()}
        return Table(self.source, chosen, self.decimal, self.dates, self.places[rows])

    def row_number(self, row: int) -> int:
        """What a person calls a row: its place in the file, from 1, the line of names not counted."""
        return int(self.places[row]) + 1

    @property
    def places(self) -> NDArray[np.integer[Any]]:
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
        known = np.array([word is not None for word in column], dtype=bool)
        words = column[known].tolist()
        if self.decimal != ".":
            words = [word.replace(self.decimal, ".") for word in words]
        try:
            numbers = np.array(words, dtype=np.float64)
        except ValueError:
            return None
        if not np.isfinite(numbers).all() or any("_" in word for word in words):
            return None
        values = np.full(len(column), np.nan)
        values[known] = numbers
        return values

    def number(self, word: str | None) -> float | None:
        """What a word is worth: NaN for a gap, None if it is no finite number."""
        if word is None:
            return float("nan")
        if self.decimal != ".":
            word = word.replace(self.decimal, ".")
        try:
            value = float(word)
        except ValueError:
            return None
        # Python reads 1_000 and "infinity" too; in a table they are more likely mistakes
        return value if np.isfinite(value) and "_" not in word else None


def spelled(number: float) -> str:
    """The shortest spelling of a number: 3, not 3.0."""
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
