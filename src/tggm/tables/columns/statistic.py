r"""A column of many different words: what the target is like where each of them stands.

Of a word with n rows whose targets sum to s, the model sees the posterior mean under a normal prior,

.. math:: (s + m \bar y) / (n + m), \qquad m = \sigma^2 / \tau^2,

with the variances within and between words as the analysis of variance estimates them; of classes, the
log-odds of that share. Rows that are learned from see what the other four fifths of the rows say: a row's own
target is never in its inputs. Words of one row, and those never seen, are taken together.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tggm.arrays import Floats, Ints
from tggm.tables.columns.base import Column, none_known, rows
from tggm.tables.errors import TableError
from tggm.tables.outcomes import Outcomes
from tggm.tables.table import Table

FOLDS = 5
MOST_WORDS = 20_000  # that a model file holds
MOST_ROWS = 2**53  # that a word is counted in: a whole number in double precision
LEAST_PRIOR, MOST_PRIOR = 1.0, 1000.0  # rows that the prior counts for


@dataclass(frozen=True)
class Statistic(Column):
    """Statistics of the target by word, and how frequent the word was."""

    name: str
    outputs: tuple[str, ...]
    levels: tuple[str, ...]
    counts: tuple[int, ...]  # rows of each level, of the rare ones together, and without a value
    values: tuple[tuple[float, ...], ...]  # of the same

    def __post_init__(self) -> None:
        size = len(self.levels) + 2
        if len(self.counts) != size or len(self.values) != size or len(set(self.levels)) != size - 2:
            raise ValueError("the statistics of a column must be one for each of its different words")
        if any(len(value) != len(self.outputs) for value in self.values):
            raise ValueError("the statistics of a column must be one for each output")
        if not all(0 <= count <= MOST_ROWS for count in self.counts):
            raise ValueError(f"the rows of a word must be from 0 to {MOST_ROWS}")

    @classmethod
    def of(cls, table: Table, name: str, outcome: Outcomes | None) -> "Statistic":
        """Learn from a table."""
        frequent = Counter(word for word in table.words(name).tolist() if word is not None)
        ordered = sorted((-n, word) for word, n in frequent.items() if n > 1)[:MOST_WORDS]
        levels = tuple(sorted(word for _, word in ordered))
        code, size = coded(table, name, levels), len(levels) + 2
        counts = tuple(np.bincount(code, minlength=size).tolist())
        if outcome is None:
            return cls(name, (), levels, counts, ((),) * size)
        values = statistics(code, size, outcome)
        return cls(name, outcome.names, levels, counts, tuple(map(tuple, values.tolist())))

    @property
    def features(self) -> list[str]:
        """Names of the columns that the model sees."""
        return [*(f"{self.name}: usual {output}" for output in self.outputs), f"{self.name}: rows"]

    @property
    def description(self) -> str:
        """What a person should know of it."""
        return f"one of {len(self.levels)} words, seen as the usual target of each"

    def doubt(self, table: Table) -> str:
        """Whether the model knows none of the words."""
        return none_known(self.name, self.levels, table)

    def encode(self, table: Table, notes: list[str], strict: bool = False) -> Floats:
        """The columns that the model sees, (rows, features)."""
        code = coded(table, self.name, self.levels)
        strange = code == len(self.levels)
        if strange.any():
            example = table.words(self.name)[strange][0]
            if strict and not self.counts[-2]:
                raise TableError(
                    f"{table.source} has categories in column {self.name!r} that the model does not know "
                    f"({example!r}); correct them, or leave --strict out to have them taken as other."
                )
            notes.append(
                f"{self.name}: {rows(strange)} with rare or unknown categories ({example!r}, ...), taken "
                "together as other"
            )
        return self.lookup[code]

    @property
    def lookup(self) -> Floats:
        """What the model sees of each level, of the rare ones together, and of gaps, a row each."""
        return np.column_stack([self._values, self._frequency])

    def encode_learned(self, table: Table, outcome: Outcomes | None, encoded: Floats) -> Floats:
        """The same, each fifth of the rows by the statistics of the others."""
        code, size = coded(table, self.name, self.levels), len(self.levels) + 2
        found = np.empty((len(code), 0)) if outcome is None else of_others(code, size, outcome)
        return np.column_stack([found, self._frequency[code]])

    @property
    def _values(self) -> Floats:
        return np.asarray(self.values, dtype=np.float64).reshape(len(self.values), len(self.outputs))

    @property
    def _frequency(self) -> Floats:
        """Logarithm of the rows of each word; rare ones had one."""
        counts = np.asarray(self.counts, dtype=np.float64)
        counts[-2] = 1.0
        return np.log1p(counts)


def coded(table: Table, name: str, levels: tuple[str, ...]) -> Ints:
    """The number of each row's word; after the levels come the rare ones, then gaps."""
    place: dict[str | None, int] = {level: k for k, level in enumerate(levels)}
    place[None] = len(levels) + 1
    return np.array([place.get(word, len(levels)) for word in table.words(name).tolist()], dtype=np.int64)


def of_others(code: Ints, size: int, outcome: Outcomes) -> Floats:
    """What the target is like for each row's code, each fifth of the rows by the statistics of the others."""
    found = np.empty((len(code), outcome.values.shape[1]))
    fold = np.random.default_rng(0).permutation(len(code)) % FOLDS
    for k in range(FOLDS):
        others = fold != k
        found[~others] = statistics(code[others], size, outcome.take(others))[code[~others]]
    return found


def statistics(code: Ints, size: int, outcome: Outcomes) -> Floats:
    """What the target is like for each of so many codes, (size, outputs)."""
    columns = [_shrunk(code, size, y, outcome.is_class) for y in outcome.values.T]
    return np.stack(columns, axis=1)


def _shrunk(code: Ints, size: int, y: Floats, odds: bool) -> Floats:
    known = ~np.isnan(y)
    code, y = code[known], y[known]
    count = np.bincount(code, minlength=size)
    total: Floats = np.bincount(code, y, minlength=size).astype(np.float64)
    mean = float(y.mean()) if len(y) else 0.0
    m = prior_rows(code, count, total, y)
    value: Floats = (total + m * mean) / (count + m)
    if not odds:
        return value
    least = 0.5 / (len(y) + 1)
    share = np.clip(value, least, 1 - least)
    logit: Floats = np.log(share / (1 - share))
    return logit


def prior_rows(code: Ints, count: Ints, total: Floats, y: Floats) -> float:
    """Rows that the prior counts for: the variance within words over that between their means."""
    there = count > 0
    words, n = int(there.sum()), len(y)
    if words < 2 or n <= words:
        return LEAST_PRIOR
    mean = np.where(there, total / np.maximum(count, 1), 0.0)
    within = float(((y - mean[code]) ** 2).sum() / (n - words))
    spread = float((count * (mean - y.mean()) ** 2).sum())
    between = (spread - (words - 1) * within) / (n - (count.astype(np.float64) ** 2).sum() / n)
    if between <= 0:
        return MOST_PRIOR
    return float(np.clip(within / between, LEAST_PRIOR, MOST_PRIOR))
