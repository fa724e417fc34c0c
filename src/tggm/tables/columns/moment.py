"""A column of dates or times: how long ago, and where in the year, the week and the day."""

from dataclasses import dataclass

import numpy as np

from tggm.arrays import Bools, Floats
from tggm.tables.columns.base import Column, rows
from tggm.tables.dates import Dates, day_first
from tggm.tables.errors import TableError
from tggm.tables.table import Table

_DAY = 86_400.0
YEAR = 365.2425  # days
PARTS = ("year", "week", "day")  # circles that a moment has a place on
LENGTH = {"year": YEAR, "week": 7.0, "day": 1.0}  # days


@dataclass(frozen=True)
class Moment(Column):
    """Years since the first date of the table, and sine and cosine of the place on circles that vary.

    A gap has the median date and the middle of all circles, and is told to the model. `clock` says that there
    are times of the day only.
    """

    name: str
    origin: float  # days since 1970
    fill: float  # years since the origin
    parts: tuple[str, ...]
    indicator: bool
    day_first: bool
    clock: bool = False

    def __post_init__(self) -> None:
        if not set(self.parts) <= set(PARTS):
            raise ValueError(f"the parts of a date must be some of {', '.join(PARTS)}")

    @classmethod
    def of(cls, table: Table, name: str, clock: bool = False) -> "Moment":
        """Learn from a table."""
        column = table.columns[name]
        words = set(column.tolist()) - {None} if column.dtype == object else set()
        first = bool(day_first(words))
        days = _days(moments(table, name, first))
        known = days[~np.isnan(days)]
        origin = float(np.floor(known.min())) if len(known) else 0.0
        fill = float(np.median(known - origin)) / YEAR if len(known) else 0.0
        parts = ("day",) if clock else _varying(known)
        return cls(name, origin, fill, parts, len(known) < len(days), first, clock)

    @property
    def features(self) -> list[str]:
        """Names of the columns that the model sees."""
        circles = [
            f"{self.name}: {which} of the {part}" for part in self.parts for which in ("sine", "cosine")
        ]
        trend = f"{self.name}: time of the day" if self.clock else f"{self.name}: years"
        return [trend, *circles, *[f"{self.name} is missing"] * self.indicator]

    @property
    def description(self) -> str:
        """What a person should know of it."""
        return (
            "time of the day" if self.clock else f"date, seen as trend{''.join(f', {p}' for p in self.parts)}"
        )

    def doubt(self, table: Table) -> str:
        """Whether there are words that are no dates."""
        lost = self._lost(table)
        if not lost.any():
            return ""
        example = table.words(self.name)[lost][0]
        return f"{self.name}: {rows(lost)} with words that are no dates ({example!r}), taken as gaps"

    def encode(self, table: Table, notes: list[str], strict: bool = False) -> Floats:
        """The columns that the model sees, (rows, features)."""
        found, lost = moments(table, self.name, self.day_first), self._lost(table)
        if lost.any():
            if strict or lost.sum() > 0.5 * len(lost):
                raise self._mistake(table, repr(table.words(self.name)[lost][0]))
            notes.append(self.doubt(table))
        days = _days(found)
        self._require_kind(table, days)
        gaps = np.isnan(days)
        columns = [np.where(gaps, self.fill, (days - self.origin) / YEAR)]
        for part in self.parts:
            angle = 2 * np.pi * days / LENGTH[part]
            columns += [np.where(gaps, 0.0, wave(angle)) for wave in (np.sin, np.cos)]
        return np.stack([*columns, *[gaps] * self.indicator], axis=1).astype(np.float64)

    def _lost(self, table: Table) -> Bools:
        """Rows with words that are no dates."""
        lost: Bools = np.isnat(moments(table, self.name, self.day_first)) & table.known(self.name)
        return lost

    def _require_kind(self, table: Table, days: Floats) -> None:
        """Raise for times of the day where dates were learned, or the other way round."""
        known = days[~np.isnan(days)]
        if not len(known) or table.columns[self.name].dtype != object:
            return
        clock = bool(((known >= 0) & (known < 1)).all())  # both are read as of the first day of 1970
        if clock != self.clock and self.origin >= 1 - self.clock:
            raise self._mistake(table, "times of the day" if clock else "dates")

    def _mistake(self, table: Table, what: str) -> TableError:
        wanted = "times of the day as 12:30" if self.clock else "dates as 2024-01-31"
        return TableError(
            f"{table.source} has {what} in column {self.name!r}, which should hold {wanted}; correct it."
        )


def moments(table: Table, name: str, first: bool) -> Dates:
    """The dates of a column, the day first where they do not show it; TableError if it holds numbers."""
    column = table.columns[name]
    if column.dtype.kind == "M":
        return column
    if column.dtype == object:
        return table.dates(name, first)
    if np.isnan(column).all():
        return np.full(len(column), np.datetime64("NaT", "us"))
    raise TableError(
        f"{table.source} has numbers in column {name!r}, which should hold dates as 2024-01-31; correct it."
    )


def _days(found: Dates) -> Floats:
    """Days since 1970, NaN for gaps."""
    days = found.astype("datetime64[us]").astype(np.int64) / (1e6 * _DAY)
    return np.where(np.isnat(found), np.nan, days)


def _varying(days: Floats) -> tuple[str, ...]:
    """Circles on which the dates are at different places: seasons need most of a year, weekdays two weeks."""
    if not len(days):
        return ()
    span = np.ptp(days)
    varies = {
        "year": span > 300,
        "week": span > 13 and np.ptp(np.floor(days) % 7) > 0,
        "day": np.ptp(days % 1) > 0,
    }
    return tuple(part for part in PARTS if varies[part])
