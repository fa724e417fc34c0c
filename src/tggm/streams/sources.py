"""Sources of rows: arrays on a disk, and batches that others make."""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from tggm.streams.checks import Piece, plain, require_table, table

BLOCK_ROWS = 2**18  # rows in memory at a time; two more blocks wait to be trained on
_CHUNK_ROWS = 2**14  # consecutive rows of an array; a block has sixteen, from anywhere


@dataclass(frozen=True)
class Stream:
    """A source of rows.

    Parameters
    ----------
    pieces : callable
        Given a NumPy generator, or None for the order in which the rows lie, an iterator over all rows.
    names : sequence of str, optional
        Names of the columns of X.
    block_rows : int
        Rows that are shuffled and trained on together.
    table : TableTransformer, optional
        How the rows of tables became those of X; the fitted model takes tables then.
    target : str
        Name of the target.
    """

    pieces: Callable[[np.random.Generator | None], Iterator[Piece]]
    names: Sequence[str] | None = None
    block_rows: int = BLOCK_ROWS
    table: Any = None
    target: str = "y"

    def __post_init__(self) -> None:
        rows: Any = self.block_rows
        if isinstance(rows, bool) or not isinstance(rows, Integral) or rows < 1:
            raise ValueError(f"`block_rows` must be a whole number of rows, 1 at least; got {rows!r}.")


def from_arrays(X: Any, y: Any, *, block_rows: int = BLOCK_ROWS) -> Stream:
    """Rows of two arrays, usually memory-mapped; what was read is given back to the system at once."""
    X, y = _sliceable("X", X), _sliceable("y", y)
    require_table(X, y)

    def pieces(rng: np.random.Generator | None) -> Iterator[Piece]:
        starts = np.arange(0, len(X), _CHUNK_ROWS)
        for start in (starts if rng is None else rng.permutation(starts)).tolist():
            rows = slice(start, start + _CHUNK_ROWS)
            piece = Piece(start, np.array(X[rows]), np.array(y[rows]))
            for array in (X, y):
                _release(array)
            yield piece

    return Stream(pieces, block_rows=block_rows)


def _sliceable(name: str, array: Any) -> Any:
    """An array of NumPy or on a disk as it is, to be read in pieces; all else as NumPy reads it."""
    others = ("mask", "tocsr", "to_numpy")  # masked arrays, sparse ones, those of pandas
    as_it_is = hasattr(array, "ndim") and not any(hasattr(array, word) for word in others)
    return array if as_it_is else plain(name, array)


def _release(array: Any) -> None:
    """Forget the pages of a memory map that were read; they are in the file."""
    mapped = getattr(array, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and getattr(array, "mode", "") == "r":
        mapped.madvise(mmap.MADV_DONTNEED)


def from_batches(
    batches: Iterable[tuple[Any, Any]] | Callable[[], Iterable[tuple[Any, Any]]],
    *,
    block_rows: int = BLOCK_ROWS,
) -> Stream:
    """Batches (X, y) of any sizes, from an iterable that can be repeated or a function that returns one."""
    if isinstance(batches, Iterator):
        raise ValueError(
            "`batches` can be iterated over once only, and training needs several passes; pass the function "
            "that makes it, as from_batches(lambda: read_batches())."
        )
    if not any(hasattr(batches, way) for way in ("__call__", "__iter__", "__getitem__")):
        raise ValueError(
            f"`batches` must give pairs (X, y), or be a function that returns them; got {batches!r}."
        )

    def pieces(rng: np.random.Generator | None) -> Iterator[Piece]:
        start = 0
        for batch in _begun(batches):
            X, y = table(*_pair(batch))
            yield Piece(start, X, y)
            start += len(X)

    return Stream(pieces, block_rows=block_rows)


def _begun(batches: Any) -> Iterator[Any]:
    found = batches() if callable(batches) else batches
    try:
        return iter(found)
    except TypeError:
        raise ValueError(f"`batches` must return pairs (X, y), one after the other; got {found!r}.") from None


def _pair(batch: Any) -> tuple[Any, Any]:
    try:
        X, y = batch
    except (TypeError, ValueError):
        size = f" of {len(batch)}" if hasattr(batch, "__len__") else ""
        raise ValueError(
            f"`batches` must give pairs (X, y); got a {type(batch).__name__}{size}. Return both: yield X, y."
        ) from None
    return X, y
