"""One pass over a stream: how many rows, how large their columns, which labels, and a part to hold out.

Means and sums of squares of pieces are merged as Chan, Golub and LeVeque do (1983), without loss of digits.
The part is the rows whose numbers have the smallest hashes, so that later passes know them without a list.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.estimators.columns import NARROWEST, Columns, Floats
from tggm.streams import Piece, Stream

HELD_ROWS = 8192  # at most: more would tell no more, and be scored after every block
_MOST = 1e150  # squares of more overflow


def scattered(seed: int, rows: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """A random-looking number for each row number (the finaliser of SplitMix64)."""
    z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass
class Spread:
    """Count, mean, sum of squared differences from it, and range of columns."""

    count: int
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats) -> "Spread":
        """That of the rows of a table."""
        mean = values.mean(0)
        squares = ((values - mean[None, :]) ** 2).sum(0)
        return cls(len(values), mean, squares, values.min(0), values.max(0))

    def merged(self, other: "Spread") -> "Spread":
        """That of both together."""
        n = self.count + other.count
        step = other.mean - self.mean
        return Spread(
            n,
            self.mean + step * (other.count / n),
            self.squares + other.squares + step**2 * (self.count * other.count / n),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def columns(self) -> Columns:
        """Mean and deviation, as `Columns.of` has them."""
        extent = np.maximum(np.abs(self.low), np.abs(self.high))
        varies = self.high - self.low > np.maximum(1e-12 * extent, NARROWEST)
        deviation = np.sqrt(self.squares / self.count)
        scale = np.where(varies & (deviation > 0), deviation, 1.0)
        return Columns(np.where(varies, self.mean, self.low), scale)

    def whole(self) -> Columns:
        """One mean and deviation for all columns."""
        d, centre = len(self.mean), self.mean.mean()
        variance = float(((self.mean - centre) ** 2 + self.squares / self.count).mean())
        return Columns(np.full(d, centre), np.full(d, np.sqrt(variance) if variance > 0 else 1.0))


@dataclass
class Survey:
    """What is known of a stream after one pass; `add` takes its pieces."""

    seed: int
    is_class: bool
    X: Spread | None = None
    y: Spread | None = None
    flat: bool = True
    classes: Any = None
    _hash: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    _rows: Any = None

    def add(self, piece: Piece) -> None:
        """Take one more piece into account."""
        X = _checked("X", piece.X, piece.start)
        self.X = Spread.of(X) if self.X is None else self.X.merged(Spread.of(X))
        if self.is_class:
            seen = np.unique(piece.y)
            self.classes = seen if self.classes is None else np.unique(np.concatenate([self.classes, seen]))
        else:
            self.flat = piece.y.ndim == 1
            Y = _checked("y", piece.y.reshape(len(X), -1), piece.start)
            self.y = Spread.of(Y) if self.y is None else self.y.merged(Spread.of(Y))
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
        return 0 if self.X is None else self.X.count

    def held(self, fraction: float) -> tuple[NDArray[Any], NDArray[Any], np.uint64]:
        """Rows to hold out, and the hash below which a row is one of them."""
        n = min(len(self._hash), max(round(fraction * self.count), 1))
        return self._rows[0][:n], self._rows[1][:n], self._hash[n - 1] + np.uint64(1)


def _checked(name: str, values: NDArray[Any], start: int) -> Floats:
    table = np.asarray(values, np.float64)
    size = np.abs(table).max(initial=0.0)
    if not size < _MOST:
        row = start + int(np.argmax(~(np.abs(table) < _MOST).all(1)))
        raise ValueError(
            f"`{name}` must be finite numbers below {_MOST:g}; row {row} has others; leave it out."
        )
    return table


def surveyed(stream: Stream, seed: int, is_class: bool) -> Survey:
    """Pass over a stream once."""
    survey = Survey(seed, is_class)
    for piece in stream.pieces(None):
        if len(piece.X):
            survey.add(piece)
    if survey.count < 2:
        raise ValueError(f"the stream gave {survey.count} rows; a fit needs two at least.")
    return survey
