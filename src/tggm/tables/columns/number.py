"""A column of numbers, with gaps and marks."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tggm.arrays import Floats, Ints
from tggm.tables.columns.base import MANY, Column, rows
from tggm.tables.columns.usual import UsualTarget, usual_target
from tggm.tables.errors import TableError
from tggm.tables.numerals import Spelling, limit
from tggm.tables.outcomes import Outcomes
from tggm.tables.table import Table, odd_listed, odd_words

MOST_MARKS = 10
LEAST_ROWS = 3  # that a mark must have
USUAL = 0.75  # of the rows: a value that more have is the usual one
LEAST_OTHERS = 500  # rows with other values than the usual one, for their ranks to say something
LEAST_DIFFERENT = 20  # values among these
KNOTS = 33  # quantiles of the others
APART = 0.3  # rank of the usual value below the lowest other one


@dataclass(frozen=True)
class Number(Column):
    """Numbers; a gap becomes the median, and a column of its own says so if there were any.

    `marks` are words among the numbers, as ``<LOD``: each has a column that says where it stands, and the
    number is the one behind it (``<0.5``) or the median.

    If nearly all rows have the smallest value, as 0 of a sum that few people have, the others are crowded on
    the scale of all. A column of their ranks tells them apart: 0 to 1 over `knots`, the first of which is the
    usual value, a little below 0. `usual` knows the target of values that repeat, where that tells more than
    their size.
    """

    name: str
    fill: float
    indicator: bool
    decimal: str = "."
    unit: str = ""
    marks: tuple[str, ...] = ()
    knots: tuple[float, ...] = ()
    usual: UsualTarget | None = None

    def __post_init__(self) -> None:
        if len(self.knots) == 1 or any(np.diff(self.knots) <= 0):
            raise ValueError("the knots of a column of numbers must be increasing")

    @classmethod
    def of(
        cls,
        table: Table,
        name: str,
        spelling: Spelling,
        marks: tuple[str, ...] = (),
        outcome: Outcomes | None = None,
    ) -> "Number":
        """Learn from a table."""
        empty = cls(name, 0.0, False, spelling.decimal, spelling.unit, marks)
        values, where = empty._read(table)
        known = values[~np.isnan(values)]
        fill = float(np.median(known)) if len(known) else 0.0
        gaps = bool((np.isnan(values) & (where < 0)).any())
        usual = usual_target(values, outcome)
        return cls(name, fill, gaps, spelling.decimal, spelling.unit, marks, knots_of(known), usual)

    @property
    def features(self) -> list[str]:
        """Names of the columns that the model sees."""
        marked = [f"{self.name} = {mark}" for mark in self.marks]
        ranked = [f"{self.name}: rank"] * bool(self.knots)
        usual = [] if self.usual is None else self.usual.features(self.name)
        return [self.name, *ranked, *[f"{self.name} is missing"] * self.indicator, *marked, *usual]

    @property
    def ranks(self) -> Floats:
        """Of the knots."""
        return np.concatenate([[-APART], np.linspace(0.0, 1.0, len(self.knots) - 1)])

    @property
    def description(self) -> str:
        """What a person should know of it."""
        parts = [f"number in {self.unit}" if self.unit else "number"]
        if self.decimal == ",":
            parts.append("with decimal commas")
        if self.marks:
            parts.append(f"marked {', '.join(self.marks)}")
        if self.knots:
            parts.append(f"and its rank where it is not {self.knots[0]:g}")
        if self.usual is not None:
            parts.append("and the usual target of each")
        gaps = f"; gaps become {self.fill:g}, and a second column marks them" if self.indicator else ""
        return " ".join(parts) + gaps

    def doubt(self, table: Table) -> str:
        """Whether there is no value, where the model saw one in every row."""
        if self.indicator or len(table) < MANY or table.known(self.name).any():
            return ""
        return f"{self.name}: no row has a value, though the model saw no gaps there; taken as {self.fill:g}"

    def encode(self, table: Table, notes: list[str], strict: bool = False) -> Floats:
        """The columns that the model sees, (rows, features)."""
        values, where = self._read(table)
        gaps = np.isnan(values) & (where < 0)
        if gaps.any():
            if strict and not self.indicator:
                raise TableError(
                    f"{table.source} has gaps in column {self.name!r}, where the model saw none; fill them, "
                    "or leave --strict out to have them filled with the median."
                )
            known = "" if self.indicator else ", though the model saw no gaps there"
            notes.append(
                f"{self.name}: {rows(gaps)} without a value, filled with the median {self.fill:g}{known}"
            )
        filled = np.where(np.isnan(values), self.fill, values)
        ranked = [np.interp(filled, self.knots, self.ranks)] if self.knots else []
        parts = [filled, *ranked, *[gaps] * self.indicator, *(where == k for k in range(len(self.marks)))]
        usual = [] if self.usual is None else [self.usual.encode(values)]
        return np.column_stack([*parts, *usual]).astype(np.float64)

    def encode_learned(self, table: Table, outcome: Outcomes | None, encoded: Floats) -> Floats:
        """The same, but for the usual target: each fifth of the rows by what the others say."""
        if self.usual is None or outcome is None:
            return encoded
        told = self.usual.encode_learned(self._read(table)[0], outcome)
        return np.column_stack([encoded[:, : -told.shape[1]], told])

    def _read(self, table: Table) -> tuple[Floats, Ints]:
        """Values, NaN for gaps and bare marks; and which mark each row has, −1 for none."""
        column, nowhere = table.columns[self.name], np.full(len(table), -1)
        hint = table.decimal if table.decimal != "." else self.decimal
        spelling = table.spelling(self.name, hint)
        if spelling.unit != self.unit:
            spelling = table.spelling(self.name, hint, self.unit)
        if not self.marks:
            return table.numbers(self.name, spelling), nowhere
        if column.dtype != object:
            return table.numbers(self.name), nowhere
        return self._marked(table, spelling)

    def _marked(self, table: Table, spelling: Spelling) -> tuple[Floats, Ints]:
        readable = table.readable(self.name, spelling)
        values: dict[str | None, float] = {None: np.nan}
        values.update(readable)
        places: dict[str | None, int] = {}
        strange: dict[str, int] = {}
        for word, row in odd_words(table, self.name, readable).items():
            mark, value = limit(word, spelling)
            if mark in self.marks:
                places[word], values[word] = self.marks.index(mark), np.nan if value is None else value
            else:
                strange[word] = row
        if strange:
            raise TableError(
                f"{table.source} has {odd_listed(table, self.name, strange)} of column {self.name!r}, which "
                f"should hold numbers or {', '.join(self.marks)}; correct it."
            )
        words = table.columns[self.name].tolist()
        read = np.array([values[word] for word in words], dtype=np.float64)
        return read, np.array([places.get(word, -1) for word in words])


def knots_of(known: Floats) -> tuple[float, ...]:
    """The smallest value and quantiles of the others, if three quarters have it and the others are many."""
    if not len(known) or not np.isfinite(known).all():
        return ()
    others = known[known > known.min()]
    if not LEAST_OTHERS <= len(others) < (1 - USUAL) * len(known):
        return ()
    if len(np.unique(others)) < LEAST_DIFFERENT:
        return ()
    quantiles = np.unique(np.quantile(others, np.linspace(0.0, 1.0, KNOTS)))
    return (float(known.min()), *map(float, quantiles))


def marks_of(table: Table, name: str, spelling: Spelling) -> tuple[str, ...] | None:
    """Words among the numbers that repeat, as marks do; None if there is one that does not."""
    readable = table.readable(name, spelling)
    odd = [word for word in table.columns[name].tolist() if word is not None and word not in readable]
    count = Counter(limit(word, spelling)[0] for word in odd)
    if len(count) > MOST_MARKS or min(count.values(), default=0) < LEAST_ROWS:
        return None
    return tuple(sorted(count))
