"""Rows of a fit: which rows each member trains on and holds out, their order, and blocks of rows.

Data come as one in-memory block or as a stream of blocks that a background thread reads. Index lists are
padded to a few sizes, so that tables and folds of similar size run the same compiled program.

Each block is trained on for one epoch (or many, if it is the only one): its rows are shuffled and cut into
mini-batches, and the held-out rows are scored afterwards. All blocks have one shape, so that one program
serves them all; the number of rows without padding is an argument. A stream needs memory for four blocks.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy import sparse

from tggm.data.standardise import Columns
from tggm.models.layers import SparseRows

ENOUGH_HELD = 250  # rows held out by at least one member
_QUEUED = 2  # blocks read ahead
Index = NDArray[np.int32]
Fold = tuple[Index, Index]  # rows to train on, rows to hold out
T = TypeVar("T")


class Rows(NamedTuple):
    """Rows of a table."""

    X: Any  # (rows, d), or SparseRows
    y: Any  # what the likelihood takes: (rows, n) numbers, `Incomplete` targets, (rows,) labels


class Membership(NamedTuple):
    """Rows that a member trains on and rows that it holds out: indices into the table, padding last."""

    train: Array  # (n_train,) int32
    n_train: Array  # () number without padding
    held: Array  # (n_held,) int32
    n_held: Array  # () number without padding; 0 keeps the last parameters instead of the best


def bucket(size: int) -> int:
    """Return the smallest of 16, 24, 32, 48, 64, 96, … that is at least `size`."""
    power = max(16, 1 << (max(int(size), 1) - 1).bit_length())
    return 3 * power // 4 if power > 16 and 4 * size <= 3 * power else power


def sparse_rows(X: Any, scale: NDArray[Any], dtype: Any) -> SparseRows:
    """Return a SciPy sparse table, divided by `scale`, with as many places as the longest row needs."""
    X = X.tocsr()
    counts = np.diff(X.indptr)
    places = bucket(int(counts.max(initial=1)))
    row = np.repeat(np.arange(X.shape[0]), counts)
    place = np.arange(X.nnz) - np.repeat(X.indptr[:-1], counts)
    # unused places hold 0 of different columns: parallel additions to one column would be serialised
    indices = np.tile(np.arange(places, dtype=np.int32) % X.shape[1], (X.shape[0], 1))
    values = np.zeros((X.shape[0], places), dtype)
    indices[row, place] = X.indices
    values[row, place] = X.data / scale[X.indices]
    return SparseRows(indices, values)  # type: ignore[arg-type]  # NumPy until training


def model_inputs(X: Any, columns: Columns, dtype: Any, *, most: float = np.inf) -> Any:
    """Standardise a dense table, or return sparse rows with as many places as the longest row needs."""
    dtype = np.dtype(dtype)
    if not sparse.issparse(X):
        with np.errstate(over="ignore"):  # checked where they are used
            if not columns.fits_float32() or most < np.inf:
                return columns.apply(np.asarray(X, np.float64), most=most).astype(dtype)
            X = np.asarray(X, dtype)
        if columns.shift.any():
            X = X - columns.shift.astype(dtype)[None, :]
        return X if (columns.scale == 1).all() else X * (1 / columns.scale).astype(dtype)[None, :]
    return sparse_rows(X, columns.scale, dtype)


def hold_out(rng: np.random.Generator, rows: NDArray[np.integer], fraction: float) -> tuple[Index, Index]:
    """Split row numbers at random into a training part and a held-out part of the given fraction."""
    shuffled = rng.permutation(rows).astype(np.int32)
    n_held = round(fraction * len(rows))
    return shuffled[n_held:], shuffled[:n_held]


def assign_folds(
    rng: np.random.Generator, rows: NDArray[np.integer], fraction: float, members: int,
    units: NDArray[np.integer] | None = None,
) -> list[Fold]:  # fmt: skip
    """Return the rows that each member trains on and those that it holds out, about `fraction` of all.

    The rows are split at random into folds, one for each group of members, and split again if there are more
    groups than folds. Members that hold out the same rows show how much members differ on unseen rows. The
    number of groups is the smallest that holds out 250 rows, but at least two, so that at least half of the
    members train on each row. Each group has at least two members; up to three members are one group.

    Rows of one unit are held out together if `units` has the unit of each row; units are then counted instead
    of rows, and at least one is held out.
    """
    size = len(rows) if units is None else len(np.unique(units))
    count = max(round(fraction * size), units is not None and fraction > 0)
    if not count:
        none = np.zeros(0, np.int32)
        return [(rng.permutation(rows).astype(np.int32), none) for _ in range(members)]
    folds = min(max(-(-ENOUGH_HELD // count), 2), max(members // 2, 1))
    found: list[Fold] = []
    while len(found) < folds:
        found += random_folds(rng, rows, max(2, round(size / count)), units)
    return [found[k * folds // members] for k in range(members)]


def random_folds(
    rng: np.random.Generator, rows: NDArray[np.integer], parts: int, units: NDArray[np.integer] | None = None
) -> list[Fold]:
    """Split rows, or whole units, at random into folds."""
    if units is None:
        cuts = np.array_split(rng.permutation(rows).astype(np.int32), parts)
    else:
        names, place = np.unique(units, return_inverse=True)
        fold = (rng.permutation(len(names)) * parts // len(names))[place]
        cuts = [rows[fold == k].astype(np.int32) for k in range(parts)]
    return [(np.concatenate(cuts[:k] + cuts[k + 1 :]), held) for k, held in enumerate(cuts)]


def folds_in_turn(folds: list[Fold], members: int) -> list[Fold]:
    """Assign folds to members in turn, at least two each; with too few members only the last are used."""
    used = folds[-max(1, members // 2) :]
    return [used[k % len(used)] for k in range(members)]


def _pad_lists(lists: list[Index]) -> tuple[Index, Index]:
    size = bucket(max(len(a) for a in lists))
    # padding repeats the list
    out = np.stack([np.resize(a, size) if len(a) else np.zeros(size, np.int32) for a in lists])
    return out.astype(np.int32), np.array([len(a) for a in lists], np.int32)


def leaves_rows_out(folds: list[Fold], count: int) -> bool:
    """Return whether a member neither trains on a row nor holds it out; not if no rows are held out."""
    return any(len(held) and len(train) + len(held) < count for train, held in folds)


def membership(parts: list[Fold]) -> Membership:
    """Stack the row numbers (train, held) of several members."""
    train, n_train = _pad_lists([train for train, _ in parts])
    held, n_held = _pad_lists([held for _, held in parts])
    return Membership(train, n_train, held, n_held)  # type: ignore[arg-type]  # NumPy until training


def held_out_groups(members: Membership) -> list[tuple[list[int], Index]]:
    """Group the members that hold out the same rows: pairs of member numbers and their held-out rows."""
    found: dict[bytes, tuple[list[int], Index]] = {}
    for k, (held, count) in enumerate(zip(members.held, members.n_held, strict=True)):
        rows = np.asarray(held)[: int(count)]
        if len(rows):
            found.setdefault(np.sort(rows).tobytes(), ([], rows))[0].append(k)
    return list(found.values())


class RowBlock(NamedTuple):
    """Rows to train on and to hold out."""

    members: Membership  # a leading axis of members
    data: Any  # rows first
    weight: Any  # (rows,)
    share: float = 1.0  # of the rows of a pass, without padding; the penalty is scaled by it


@dataclass(frozen=True)
class Blocks:
    """The blocks of each pass over the rows of a fit."""

    each: Callable[[int], Iterator[RowBlock]] | None  # called with the number of the pass, from 0
    per_pass: int
    n_rows: int  # training rows in a pass, of the member with the most
    batch_limit: int  # largest mini-batch
    identity: Any = ()  # arrays that identify these rows, for checkpoints
    only: RowBlock | None = None  # the block of a table in memory
    kept: RowBlock | None = None  # rows available after training: all, or the held-out rows of a stream
    partial: bool = False  # members leave out rows that they do not hold out, and are trained again on all

    @classmethod
    def of(cls, block: RowBlock, *, partial: bool = False) -> "Blocks":
        """Make the single block of a table in memory."""
        members = block.members
        rows = int(np.max(members.n_train))
        return cls(None, 1, rows, members.train.shape[1], block, block, block, partial)

    def steps(self, batch_size: int) -> int:
        """Return the number of gradient steps in a pass."""
        rows = -(-self.n_rows // self.per_pass)
        return self.per_pass * -(-rows // min(batch_size, self.batch_limit))


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items; a background thread reads them in advance."""
    end: Any = object()
    pool = ThreadPoolExecutor(1, "tggm-read")
    ahead = deque(pool.submit(next, items, end) for _ in range(_QUEUED))
    try:
        while (item := ahead.popleft().result()) is not end:
            ahead.append(pool.submit(next, items, end))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)


def take(arrays: Any, rows: Any) -> Any:
    """Select rows of all arrays of a pytree."""
    return jax.tree.map(lambda a: np.asarray(a)[rows], arrays)


def held_out_sample(block: RowBlock, most: int) -> list[tuple[list[int], Any]]:
    """Return groups of members with rows that they held out, at most about `most` rows in total."""
    groups = held_out_groups(block.members)
    rows = np.unique(np.concatenate([np.zeros(0, np.int32), *(held for _, held in groups)]))
    rows = rows[:: max(1, -(-len(rows) // most))]
    chosen = [(members, rows[np.isin(rows, held)]) for members, held in groups]
    return [(members, take(block.data, part)) for members, part in chosen if len(part)]
