"""One pass over a stream: how many rows, how large their columns, which labels, and a part to hold out.

The part is the rows whose numbers have the smallest hashes, so that later passes know them without a list.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.streams.checks import Form, Piece, alike
from tggm.streams.columns import WIDEST, Extent
from tggm.streams.sources import Stream

HELD_ROWS = 8192  # at most: more would tell no more, and be scored after every block


def scattered(seed: int, rows: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """A random-looking number for each row number (the finaliser of SplitMix64)."""
    z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass
class Survey:
    """What is known of a stream after one pass; `add` takes its pieces."""

    seed: int
    is_class: bool
    X: Extent | None = None
    y: Extent | None = None
    form: Form | None = None
    classes: Any = None
    _hash: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    _rows: Any = None

    def add(self, piece: Piece) -> None:
        """Take one more piece into account."""
        self.form = Form.of(piece)
        found = _measured("X", piece.X, piece.start)
        self.X = found if self.X is None else self.X.merged(found)
        if self.is_class:
            seen = np.unique(piece.y)
            self.classes = seen if self.classes is None else np.unique(np.concatenate([self.classes, seen]))
        else:
            found = _measured("y", piece.y.reshape(len(piece.X), -1), piece.start)
            self.y = found if self.y is None else self.y.merged(found)
        self._hold(piece)

    def _hold(self, piece: Piece) -> None:
        hashes = scattered(self.seed, piece.start + np.arange(len(piece.X)))
        kept = hashes <= self._hash.max() if len(self._hash) >= HELD_ROWS else np.ones(len(hashes), np.bool_)
        new = [hashes[kept], piece.X[kept], piece.y[kept]]
        if self._rows is not None:
            new = [np.concatenate(pair) for pair in zip([self._hash, *self._rows], new, strict=True)]
        order = np.argsort(new[0], kind="stable")[:HELD_ROWS]
        self._hash, self._rows = new[0][order], tuple(part[order] for part in new[1:])

    @property
    def count(self) -> int:
        """How many rows there are."""
        return 0 if self.X is None else int(self.X.mass)

    @property
    def flat(self) -> bool:
        """Whether a target is a number, not a row of them."""
        return self.form is not None and not self.form.outputs

    def held(self, fraction: float) -> tuple[NDArray[Any], NDArray[Any], np.uint64]:
        """Rows to hold out, and the hash below which a row is one of them."""
        n = min(len(self._hash), max(round(fraction * self.count), 1))
        return self._rows[0][:n], self._rows[1][:n], self._hash[n - 1] + np.uint64(1)


def _measured(name: str, values: NDArray[Any], start: int) -> Extent:
    """The extent of a piece; ValueError for what is not finite, or too large to be added."""
    table = np.asarray(values, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # seen to below
        found = Extent.of(table)
    if not (found.low >= -WIDEST).all() or not (found.high <= WIDEST).all():  # NaN is neither
        wrong = ~(np.abs(table) <= WIDEST)
        row = int(wrong.any(1).argmax())
        column = int(wrong[row].argmax())
        raise ValueError(
            f"`{name}` must be finite numbers of size {WIDEST:g} at most; row {start + row} has "
            f"{table[row, column]:g} in column {column}. Leave the row out, or divide the column."
        )
    return found


def surveyed(stream: Stream, seed: int, is_class: bool) -> Survey:
    """Pass over a stream once."""
    survey = Survey(seed, is_class)
    for piece in alike(stream.pieces(None), is_class):
        survey.add(piece)
    if survey.count < 2:
        raise ValueError(
            f"the stream gave {survey.count} rows, and a fit needs two at least; look at its source."
        )
    return survey
