"""Rows that do not fit into memory: sources that are read piece by piece, once a pass.

    from_arrays(X, y)            arrays on a disk: np.load("X.npy", mmap_mode="r")
    from_parquet(folder, "y")    a folder of Parquet files, or one file
    from_batches(batches)        anything that gives (X, y) again and again

Pass the result to `fit` in place of X, without y. A source is passed over once to learn how many rows there
are and how large their columns, and then once an epoch, in an order as random as it allows.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK_ROWS = 2**18  # rows in memory at a time; two more blocks wait to be trained on
_CHUNK_ROWS = 2**14  # consecutive rows of an array; a block has sixteen, from anywhere


class Piece(NamedTuple):
    """Consecutive rows of a source."""

    start: int  # number of the first among all rows
    X: NDArray[Any]
    y: NDArray[Any]


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
    """

    pieces: Callable[[np.random.Generator | None], Iterator[Piece]]
    names: Sequence[str] | None = None
    block_rows: int = BLOCK_ROWS


def from_arrays(X: Any, y: Any, *, block_rows: int = BLOCK_ROWS) -> Stream:
    """Rows of two arrays, usually memory-mapped; what was read is given back to the system at once."""
    if X.ndim != 2 or len(X) != len(y):
        raise ValueError(f"`X` and `y` must be a table and its targets; got shapes {X.shape} and {y.shape}.")

    def pieces(rng: np.random.Generator | None) -> Iterator[Piece]:
        starts = np.arange(0, len(X), _CHUNK_ROWS)
        for start in (starts if rng is None else rng.permutation(starts)).tolist():
            rows = slice(start, start + _CHUNK_ROWS)
            piece = Piece(start, np.array(X[rows]), np.array(y[rows]))
            for array in (X, y):
                _release(array)
            yield piece

    return Stream(pieces, block_rows=block_rows)


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
    """Batches (X, y) of any sizes; a function that begins anew, or what can be iterated over repeatedly."""
    if isinstance(batches, Iterator):
        raise ValueError(
            "`batches` can be iterated over once only, and training needs several passes; pass the function "
            "that makes it, as from_batches(lambda: read_batches())."
        )

    def pieces(rng: np.random.Generator | None) -> Iterator[Piece]:
        start = 0
        for X, y in batches() if callable(batches) else batches:
            piece = Piece(start, np.asarray(X), np.asarray(y))
            if piece.X.ndim != 2 or len(piece.X) != len(piece.y):
                raise ValueError(
                    "a batch must be a table X and its targets y; got shapes "
                    f"{piece.X.shape} and {piece.y.shape}."
                )
            start += len(piece.X)
            yield piece

    return Stream(pieces, block_rows=block_rows)


def from_parquet(
    path: Any, target: str, *, columns: Sequence[str] | None = None, block_rows: int = BLOCK_ROWS
) -> Stream:
    """Columns of numbers from a Parquet file or a folder of them; all others than `target` by default."""
    import pyarrow.parquet as pq

    files = parquet_files(path)
    schema = pq.read_schema(files[0])
    names = [name for name in schema.names if name != target] if columns is None else list(columns)
    missing = [name for name in (*names, target) if name not in schema.names]
    if missing:
        raise ValueError(f"{files[0]} has no column {missing[0]!r}; it has {', '.join(schema.names)}.")
    groups, start = list[tuple[Path, int, int]](), 0
    for file in files:
        metadata = pq.read_metadata(file)
        for k in range(metadata.num_row_groups):
            groups.append((file, k, start))
            start += metadata.row_group(k).num_rows

    def pieces(rng: np.random.Generator | None) -> Iterator[Piece]:
        order = np.arange(len(groups))
        for g in order if rng is None else rng.permutation(order):
            file, k, first = groups[g]
            with pq.ParquetFile(file) as opened:
                rows = opened.read_row_group(k, columns=[*names, target])
            X = np.stack([_numbers(rows.column(name), name, file) for name in names], axis=1)
            yield Piece(first, X, rows.column(target).to_numpy())

    return Stream(pieces, names=names, block_rows=block_rows)


def parquet_files(path: Any) -> list[Path]:
    """The Parquet files of a folder in the order of their names, or the one file."""
    place = Path(path)
    files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    if not files:
        raise ValueError(f"`path` {place} has no file *.parquet in it; name the folder that has.")
    return files


def _numbers(column: Any, name: str, file: Path) -> NDArray[np.float64]:
    try:
        return np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{file} has values in column {name!r} that are no numbers; name the others in `columns`."
        ) from None
