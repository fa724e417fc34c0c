"""Where the rows of a fit come from, and which of them are held out for the figures.

A table is in memory whole. A folder of Parquet files never is: how its columns become numbers, and the
baselines, are learned from a sample spread over it, and the model sees every row. The rows held out of a
folder are chosen by their numbers, and collected in the first pass over it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Bools, Floats, Ints
from tggm.cli.wish import Wish
from tggm.data import Piece, Stream
from tggm.data.stream import hash_rows
from tggm.tables import Preparation, Table, Target
from tggm.tables.reading import Folder
from tggm.tables.table import stacked

MOST_HELD_OUT = 10_000  # rows; more would not make the figures more honest, only later


class Source(ABC):
    """Rows with a target, a part of them held out."""

    name: str  # of the file or folder
    target: Target
    learned: Table  # rows from which the preparation is learned
    rows: int  # how many there are, for the settings of the estimator
    trained: int  # rows that the model has seen
    many: bool  # whether columns may learn of the target: of a stream, rows would see their own
    summary: str
    notes: list[str]

    @abstractmethod
    def inputs(
        self, preparation: Preparation, notes: list[str]
    ) -> tuple[Floats, NDArray[Any], Stream | None]:
        """Inputs and targets of the learned rows, and the stream to train on if these are not all."""

    @abstractmethod
    def held_out(self) -> Table | None:
        """The rows for the figures, once the model is trained."""


class TableSource(Source):
    """A table; held-out rows are drawn at random, of each class by its share."""

    def __init__(self, table: Table, target: Target, wish: Wish) -> None:
        known = target.known(table)
        gaps = int((~known).sum())
        self.name, self.target, self._table = table.source, target, table.take(known)
        self._values = target.values(self._table)
        self.notes = [f"{target.name}: {gaps} rows without a target left out"] if gaps else []
        self.notes += rare_classes(self._values, target)
        self._train, self._test = split(self._values, wish.test_size, wish.seed, stratified=target.is_class)
        self.learned, self.rows = self._table.take(self._train), len(self._train)
        self.trained, self.many = self.rows, True
        self.summary = f"{self.rows} rows to learn from, {len(self._test)} held out"

    def inputs(
        self, preparation: Preparation, notes: list[str]
    ) -> tuple[Floats, NDArray[Any], Stream | None]:
        """All that is learned from; `notes` are about the whole table."""
        X, y = preparation.features(self._table, notes)[self._train], self._values[self._train]
        return preparation.learned_features(self.learned, y, X), y, None

    def held_out(self) -> Table | None:
        """The others."""
        return self._table.take(self._test) if len(self._test) else None


class FolderSource(Source):
    """A folder, of which `sample` is a sample."""

    def __init__(self, folder: Folder, sample: Table, target: Target, wish: Wish) -> None:
        self.name, self.target, self.rows, self._folder = folder.source, target, len(folder), folder
        self._seed, self._fraction = wish.seed, min(wish.test_size, MOST_HELD_OUT / len(folder))
        self.learned = sample.take(target.known(sample) & ~self._held(sample.places))
        self.notes = rare_classes(target.values(self.learned), target)
        self.summary = f"{self.rows} rows in {len(folder.files.groups)} groups"
        self.trained, self.many = 0, False
        self._test: list[Table] = []
        self._first = True

    def inputs(
        self, preparation: Preparation, notes: list[str]
    ) -> tuple[Floats, NDArray[Any], Stream | None]:
        """The sample, and a stream of all rows."""
        stream = Stream(lambda order: self._pieces(preparation, order))
        return preparation.features(self.learned), preparation.targets(self.learned), stream

    def held_out(self) -> Table | None:
        """What the first pass collected."""
        return stacked(self._test, self.name) if self._test else None

    def _pieces(self, preparation: Preparation, order: np.random.Generator | None) -> Iterator[Piece]:
        for group in self._folder.files.ordered(order):
            table = self._folder.read(group)
            known, held = self.target.known(table), self._held(group.start + np.arange(group.rows))
            if self._first and (known & held).any():
                self._test.append(table.take(known & held))
            table = table.take(known & ~held)
            if len(table):
                self.trained += self._first * len(table)
                yield Piece(group.start, preparation.features(table), preparation.targets(table))
        self._first = False

    def _held(self, rows: Ints) -> Bools:
        """Which rows are held out, by their numbers."""
        return hash_rows(self._seed, rows) < np.uint64(int(self._fraction * 2**64))


def split(
    y: NDArray[Any], fraction: float, seed: int, *, stratified: bool
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to learn from and rows to hold out, in order; each class keeps its share, and one row at least."""
    rng = np.random.default_rng(seed)
    fraction = min(fraction, MOST_HELD_OUT / len(y))
    if not stratified:
        rows = rng.permutation(len(y))
        test = rows[: round(fraction * len(y))]
    else:
        parts = []
        for label in np.unique(y):
            rows = rng.permutation(np.flatnonzero(y == label))
            parts.append(rows[: min(round(fraction * len(rows)), len(rows) - 1)])
        test = np.concatenate(parts)
    return np.setdiff1d(np.arange(len(y)), test), np.sort(test)


def rare_classes(labels: NDArray[Any], target: Target, least: int = 5) -> list[str]:
    """A note on classes of which there are too few rows."""
    classes, count = np.unique(labels, return_counts=True)
    rare = classes[count < least].tolist() if target.is_class else []
    shown = ", ".join(map(repr, rare[:3])) + ", ..." * (len(rare) > 3)
    return [f"{target.name}: classes of fewer than {least} rows can hardly be learned ({shown})"] * bool(rare)
