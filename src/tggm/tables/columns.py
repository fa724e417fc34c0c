"""Learn encodings of columns from the training rows, and encode columns as numbers; one class per kind."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tggm.arrays import Bools, Floats, Ints
from tggm.data.standardise import WIDEST
from tggm.tables.table import Table, TableError
from tggm.tables.target_encoding import CodeSums, Outcomes, TargetEncoding, encode_codes, encode_out_of_fold
from tggm.tables.text import Dates, day_first, limit

_NO_GAPS = "unknown: no value was missing in training"
MANY_ROWS = 10  # new rows from which a column without any known value causes a warning


class Note(NamedTuple):
    """Values of a column that were replaced."""

    text: str
    doubtful: bool = False  # whether the values look wrong for this column, so that predictions warn
    unknown: Bools | None = None  # rows, or features of rows, that the training rows give no encoding for


class Column(ABC):
    """A column of a table, and the features that a model gets from it."""

    name: str

    @property
    def categories(self) -> tuple[str, ...]:
        """Return the category of each feature if the features are indicators, else nothing."""
        return ()

    @property
    @abstractmethod
    def features(self) -> list[str]:
        """Return the names of the features."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Describe the column for the user."""

    @abstractmethod
    def encode(self, table: Table, notes: list[Note], outcome: Outcomes | None = None) -> Floats:
        """Return the features, shape (rows, features); add a note for each kind of value that is replaced.

        `outcome` are the targets of training rows, whose target encodings are out of fold.
        """


MOST_MARKS = 10
LEAST_MARKED = 3  # rows that a mark must have


@dataclass(frozen=True)
class Number(Column):
    """Numbers; missing ones become the median, with an indicator if the training rows had any.

    `marks` are words among the numbers, such as ``<LOD``. Each has an indicator; its number is the one after
    it (``<0.5``) or the median. `encoding` is the target encoding of repeated values, if it predicts better
    than neighbouring values.
    """

    name: str
    fill: float
    indicator: bool
    decimal: str = "."
    unit: str = ""
    marks: tuple[str, ...] = ()
    encoding: TargetEncoding | None = None

    @classmethod
    def of(
        cls, table: Table, name: str, marks: tuple[str, ...] = (), outcome: Outcomes | None = None
    ) -> "Number":
        """Learn from a table."""
        decimal, unit = table.spelling(name)
        values, where = cls(name, 0.0, False, decimal, unit, marks)._read(table)
        known = values[~np.isnan(values)]
        if (most := np.abs(known).max(initial=0.0)) > WIDEST:
            raise TableError(f"{table.source} has {most:.3g} in column {name!r}, too large; divide it.")
        fill = float(np.median(known)) if len(known) else 0.0
        gaps = bool((np.isnan(values) & (where < 0)).any())
        return cls(name, fill, gaps, decimal, unit, marks, TargetEncoding.of(values, outcome))

    @property
    def features(self) -> list[str]:
        marked = [f"{self.name} = {mark}" for mark in self.marks]
        outputs = () if self.encoding is None else self.encoding.outputs
        encoded = [f"{self.name}: mean {output}" for output in outputs]
        return [self.name, *[f"{self.name} is missing"] * self.indicator, *marked, *encoded]

    @property
    def description(self) -> str:
        parts = [f"number in {self.unit}" if self.unit else "number"]
        parts += ["with decimal commas"] * (self.decimal == ",")
        parts += [f"marked {', '.join(self.marks)}"] * bool(self.marks)
        parts += ["and its target encoding"] * (self.encoding is not None)
        how = f"; missing values become {self.fill:g}, and a second column marks them"
        return " ".join(parts) + (how if self.indicator else "")

    def encode(self, table: Table, notes: list[Note], outcome: Outcomes | None = None) -> Floats:
        values, where = self._read(table)
        gaps, unseen = np.isnan(values) & (where < 0), not self.indicator
        if gaps.any():
            how = _NO_GAPS if unseen else f"filled with the median {self.fill:g}"
            doubtful = bool(unseen and gaps.all() and len(gaps) >= MANY_ROWS)
            text = f"{self.name}: {_count(gaps)} without a value, {how}"
            notes.append(Note(text, doubtful, gaps if unseen else None))
        filled = np.where(np.isnan(values), self.fill, values)
        parts = [filled, *[gaps] * self.indicator, *(where == k for k in range(len(self.marks)))]
        if self.encoding is not None:
            parts.append(self.encoding.encode(values, outcome))
            new = ~np.isnan(values) & ~np.isin(values, self.encoding.levels)
            if new.any() and self.encoding.others < LEAST_RARE:
                unknown = np.zeros((len(values), len(self.features)), np.bool_)
                unknown[new, -len(self.encoding.outputs) :] = True
                text = f"{self.name}: {_count(new)} with new numbers, whose target encoding is unknown"
                doubtful = bool(new.sum() >= MANY_ROWS and (new | np.isnan(values)).all())
                notes.append(Note(text, doubtful, unknown))
        return np.column_stack(parts).astype(np.float64)

    def _read(self, table: Table) -> tuple[Floats, Ints]:
        """Return the values, NaN for missing ones and bare marks, and the index of each row's mark or -1."""
        hint = table.decimal if table.decimal != "." else self.decimal
        spelling = table.spelling(self.name, hint, self.unit)
        if not self.marks or table.columns[self.name].dtype != object:
            return table.numbers(self.name, spelling), np.full(len(table), -1)
        readable = table.readable(self.name, spelling)
        odd = table.odd_words(self.name, readable)
        marked = {word: limit(word, spelling) for word in odd}
        unknown = {word: row for word, row in odd.items() if marked[word][0] not in self.marks}
        if unknown:
            found = f"{table.source} has {table.quote(unknown)} of column {self.name!r}"
            raise TableError(f"{found}, which should hold numbers or {', '.join(self.marks)}; correct it.")
        values = readable | {word: np.nan if x is None else x for word, (_, x) in marked.items()}
        index = {word: self.marks.index(mark) for word, (mark, _) in marked.items()}
        words = table.columns[self.name].tolist()
        numbers = np.array([values.get(word, np.nan) for word in words], dtype=np.float64)
        return numbers, np.array([index.get(word, -1) for word in words])


def marks_of(table: Table, name: str) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the words among the numbers that are frequent enough to be marks, and others with a row each."""
    odd, spelling = table.odd_words(name, table.readable(name)), table.spelling(name)
    mark = {word: limit(word, spelling)[0] for word in odd}
    count = Counter(mark[word] for word in table.columns[name].tolist() if word in mark)
    frequent = {word for word in count if count[word] >= LEAST_MARKED}
    if len(frequent) > MOST_MARKS:
        return (), odd
    return tuple(sorted(frequent)), {word: row for word, row in odd.items() if mark[word] not in frequent}


OTHER, MISSING = "(other)", "(missing)"
MOST_WORDS = 20_000  # in a model file
MOST_ROWS = 2**53  # of a word: exact in double precision
LEAST_RARE, LEAST_GAPS = 200, 10  # rows of rare words, or missing values, from which a width is learned


class _Words(Column):
    """A column of words."""

    levels: tuple[str, ...]  # words of the training rows

    def __post_init__(self) -> None:
        if not self.levels or len(set(self.levels)) < len(self.levels):
            raise ValueError("the levels of a category must be distinct words")

    def _codes(self, table: Table, notes: list[Note], rare: bool | tuple[str, ...], gaps: bool) -> Ints:
        """Return the codes of `code_words`, and note words and missing values that are new.

        `rare` has the rare words of training, whose encoding other words do not have, or says whether all
        words that are no level have it; `gaps`: values were missing in training.
        """
        code, words = code_words(table, self.name, self.levels), table.words(self.name)
        odd, known = code == len(self.levels), code < len(self.levels)
        kept = frozenset(() if isinstance(rare, bool) else rare)
        seen = np.array([rare is True or word in kept for word in words.tolist()], np.bool_)
        unseen = odd & ~seen
        parts = (odd & seen, "counted as 'other'", None), (unseen, "treated as unknown", unseen)
        for some, taken, unknown in parts:
            if not some.any():
                continue
            shown = _shown(dict.fromkeys(words[some].tolist()))
            text = f"{self.name}: {_count(some)} with rare or unknown categories ({shown}), {taken}"
            doubtful = bool(some.sum() >= MANY_ROWS and not known.any())
            more = f"; no row has a known one ({_shown(self.levels)})" if doubtful else ""
            notes.append(Note(text + more, doubtful, unknown))
        if not gaps and (lost := code == len(self.levels) + 1).any():
            notes.append(Note(f"{self.name}: {_count(lost)} without a value, {_NO_GAPS}", False, lost))
        return code


@dataclass(frozen=True)
class Category(_Words):
    """Indicators of the levels, of all rare words together, and of missing values."""

    name: str
    levels: tuple[str, ...]
    rare: tuple[str, ...]  # words of the training rows without an indicator of their own
    missing: bool

    @property
    def categories(self) -> tuple[str, ...]:
        return (*self.levels, *[OTHER] * bool(self.rare), *[MISSING] * self.missing)

    @property
    def features(self) -> list[str]:
        return [f"{self.name} = {category}" for category in self.categories]

    @property
    def description(self) -> str:
        words = [*self.levels, *["other"] * bool(self.rare), *["missing"] * self.missing]
        return f"one of {', '.join(words)}"

    def encode(self, table: Table, notes: list[Note], outcome: Outcomes | None = None) -> Floats:
        code, size = self._codes(table, notes, self.rare, self.missing), len(self.levels)
        if self.missing and (gaps := code == size + 1).any():
            notes.append(Note(f"{self.name}: {_count(gaps)} without a value, counted as 'missing'", False))
        kept = [*range(size), *[size] * bool(self.rare), *[size + 1] * self.missing]
        return np.eye(size + 2)[:, kept][code]


@dataclass(frozen=True)
class Ordinal(_Words):
    """The index of each level, from 0 for the lowest; missing values become the median, with an indicator."""

    name: str
    levels: tuple[str, ...]  # from the lowest to the highest
    fill: float
    indicator: bool

    @classmethod
    def of(cls, table: Table, name: str, levels: tuple[str, ...]) -> "Ordinal":
        """Learn from a table; `levels` go from the lowest to the highest."""
        code = code_words(table, name, levels)
        known = code[code < len(levels)]
        return cls(name, levels, float(np.median(known)) if len(known) else 0.0, len(known) < len(code))

    @property
    def features(self) -> list[str]:
        return [self.name, *[f"{self.name} is missing"] * self.indicator]

    @property
    def description(self) -> str:
        return f"grade from {self.levels[0]} to {self.levels[-1]}"

    def encode(self, table: Table, notes: list[Note], outcome: Outcomes | None = None) -> Floats:
        code = self._codes(table, notes, False, self.indicator)
        gaps = code >= len(self.levels)
        parts = [np.where(gaps, self.fill, code), *[gaps] * self.indicator]
        return np.stack(parts, axis=1).astype(np.float64)


@dataclass(frozen=True)
class Statistic(_Words):
    """Many different words: the target encoding of each, and the logarithm of its number of rows.

    Words with one row and unknown words share one encoding, or are unknown if few rows have such words.
    """

    name: str
    outputs: tuple[str, ...]
    levels: tuple[str, ...]
    counts: tuple[int, ...]  # rows of each level, of rare words together, and without a value
    values: tuple[tuple[float, ...], ...]  # target encodings of the same

    def __post_init__(self) -> None:
        size = len(self.levels) + 2
        if len(self.counts) != size or len(set(self.levels)) != size - 2 or max(self.counts) > MOST_ROWS:
            raise ValueError("the statistics of a column must be one for each of its distinct words")
        if [len(value) for value in self.values] != [len(self.outputs)] * size:
            raise ValueError("the statistics of a column must be one for each output")

    @classmethod
    def of(cls, table: Table, name: str, outcome: Outcomes) -> "Statistic":
        """Learn from a table."""
        frequent = Counter(word for word in table.words(name).tolist() if word is not None)
        ordered = sorted((-n, word) for word, n in frequent.items() if n > 1)[:MOST_WORDS]
        levels = tuple(sorted(word for _, word in ordered))
        code, size = code_words(table, name, levels), len(levels) + 2
        counts = tuple(np.bincount(code, minlength=size).tolist())
        values = encode_codes(code, size, outcome).tolist()
        return cls(name, outcome.names, levels, counts, tuple(map(tuple, values)))

    @property
    def features(self) -> list[str]:
        return [*(f"{self.name}: mean {output}" for output in self.outputs), f"{self.name}: rows"]

    @property
    def description(self) -> str:
        return f"one of {len(self.levels)} words, encoded by the mean target"

    def encode(self, table: Table, notes: list[Note], outcome: Outcomes | None = None) -> Floats:
        code = self._codes(table, notes, self.counts[-2] >= LEAST_RARE, self.counts[-1] >= LEAST_GAPS)
        if outcome is None:
            return self.lookup[code]
        out_of_fold = encode_out_of_fold(code, len(self.counts), outcome)
        return np.column_stack([out_of_fold, self.lookup[code, -1]])

    def encoded(self, sums: CodeSums, without: int | None) -> "Statistic":
        """Return the column with all rows of a stream, encoded without those of one fold."""
        values = tuple(map(tuple, sums.encode(without).tolist()))
        return replace(self, counts=tuple(sums.rows.tolist()), values=values)

    @property
    def lookup(self) -> Floats:
        """Return the features of each level, of rare words together, and of missing ones, one row each."""
        counts = np.asarray(self.counts, dtype=np.float64)
        counts[-2] = 1.0  # a rare word has one row
        return np.column_stack([np.asarray(self.values, dtype=np.float64), np.log1p(counts)])


def code_words(table: Table, name: str, levels: tuple[str, ...]) -> Ints:
    """Return the index of each row's word among the levels; len(levels) for others, one more if missing."""
    index: dict[str | None, int] = {level: k for k, level in enumerate(levels)}
    index[None] = len(levels) + 1
    return np.array([index.get(word, len(levels)) for word in table.words(name).tolist()], dtype=np.int64)


YEAR = 365.2425  # days
MOST_DAYS = 1e8  # from 1970: microseconds since then are 64-bit integers
LENGTH = {"year": YEAR, "week": 7.0, "day": 1.0}  # days of each cycle


@dataclass(frozen=True)
class DateColumn(Column):
    """Years since the first date, and sine and cosine of the position in each cycle that varies.

    A missing date becomes the median date with sine and cosine 0, and has an indicator.
    """

    name: str
    origin: float  # days since 1970
    fill: float  # years since the origin
    parts: tuple[str, ...]  # cycles: year, week, day
    indicator: bool
    day_first: bool

    def __post_init__(self) -> None:
        if not set(self.parts) <= set(LENGTH):
            raise ValueError(f"the parts of a date must be some of {', '.join(LENGTH)}")
        if abs(self.origin) > MOST_DAYS or abs(self.fill) > MOST_DAYS / YEAR:
            raise ValueError(f"origin and median of a date must be within {MOST_DAYS:g} days of 1970")

    @classmethod
    def of(cls, table: Table, name: str) -> "DateColumn":
        """Learn from a table; the year needs 300 days of data, the week two weeks."""
        first = bool(day_first(table.different(name)))
        days = cls(name, 0.0, 0.0, (), False, first)._days(table)
        known = days[~np.isnan(days)]
        if not len(known):
            return cls(name, 0.0, 0.0, (), True, first)
        span, origin = np.ptp(known), float(np.floor(known.min()))
        varies = span > 300, span > 13 and np.ptp(np.floor(known) % 7) > 0, np.ptp(known % 1) > 0
        parts = tuple(part for part, does in zip(LENGTH, varies, strict=True) if does)
        fill = float(np.median(known - origin)) / YEAR
        return cls(name, origin, fill, parts, len(known) < len(days), first)

    @property
    def features(self) -> list[str]:
        waves = [f"{self.name}: {wave} of the {part}" for part in self.parts for wave in ("sine", "cosine")]
        return [f"{self.name}: years", *waves, *[f"{self.name} is missing"] * self.indicator]

    @property
    def description(self) -> str:
        return f"date, encoded as {', '.join(['trend', *self.parts])}"

    def encode(self, table: Table, notes: list[Note], outcome: Outcomes | None = None) -> Floats:
        days = self._days(table)
        gaps = np.isnan(days)
        wrong = gaps & table.known(self.name)
        if wrong.any():
            example = repr(table.words(self.name)[wrong][0])
            if wrong.mean() > 0.5:
                raise self._error(table, example)
            text = f"{self.name}: {_count(wrong)} with words that are not dates ({example}), taken as missing"
            notes.append(Note(text, True))
        if not self.indicator and gaps.any():
            notes.append(Note(f"{self.name}: {_count(gaps)} without a value, {_NO_GAPS}", False, gaps))
        columns = [np.where(gaps, self.fill, (days - self.origin) / YEAR)]
        for part in self.parts:
            angle = 2 * np.pi * days / LENGTH[part]
            columns += [np.where(gaps, 0.0, wave(angle)) for wave in (np.sin, np.cos)]
        return np.stack([*columns, *[gaps] * self.indicator], axis=1).astype(np.float64)

    def _days(self, table: Table) -> Floats:
        """Return days since 1970, NaN for missing values and words that are not dates."""
        column = table.columns[self.name]
        if column.dtype.kind == "f":
            if not np.isnan(column).all():
                raise self._error(table, "numbers")
            return column
        dates: Dates = table.dates(self.name, self.day_first) if column.dtype == object else column
        days = dates.astype("datetime64[us]").astype(np.int64) / (1e6 * 86_400.0)
        return np.where(np.isnat(dates), np.nan, days)

    def _error(self, table: Table, what: str) -> TableError:
        return TableError(f"{table.source} has {what} in column {self.name!r}, not dates such as 2024-01-31.")


def _shown(words: Iterable[str]) -> str:
    first = list(words)[:4]
    return ", ".join(map(repr, first[:3])) + ", ..." * (len(first) > 3)


def _count(chosen: Bools) -> str:
    count = int(chosen.sum())
    return f"{count} row{'s' * (count != 1)}"


COLUMNS: dict[str, type[Column]] = {
    "number": Number,
    "category": Category,
    "ordinal": Ordinal,
    "statistic": Statistic,
    "date": DateColumn,
}  # by their name in model files
