"""Rows that do not fit into memory: sources that are read piece by piece, once a pass.

    from_arrays(X, y)            arrays on a disk: np.load("X.npy", mmap_mode="r")
    from_parquet(folder, "y")    a folder of Parquet files, or one file
    from_batches(batches)        anything that gives (X, y) again and again

Pass the result to `fit` in place of X, without y. A source is passed over once to learn how many rows there
are and how large their columns, and then once an epoch, in an order as random as it allows.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.pieces import Piece as Piece
from tggm.pieces import numbers, plain, require_table, table

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
    """

    pieces: Callable[[np.random.Generator | None], Iterator[Piece]]
    names: Sequence[str] | None = None
    block_rows: int = BLOCK_ROWS

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
    """Batches (X, y) of any sizes; a function that begins anew, or what can be iterated over repeatedly."""
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


def from_parquet(
    path: Any, target: str, *, columns: Sequence[str] | None = None, block_rows: int = BLOCK_ROWS
) -> Stream:
    """Columns of numbers from a Parquet file or a folder of them; all others than `target` by default."""
    import pyarrow.parquet as pq

    files = parquet_files(path)
    names: list[str] = []
    groups, start = list[tuple[Path, int, int]](), 0
    for file in files:
        with _damage(file):
            metadata = pq.read_metadata(file)
        there = metadata.schema.to_arrow_schema().names
        names = names or _inputs(columns, there, target)
        missing = [name for name in (*names, target) if name not in there]
        if missing:
            raise ValueError(
                f"{file} has no column {missing[0]!r}; it has {', '.join(there)}. Every file needs it."
            )
        for k in range(metadata.num_row_groups):
            groups.append((file, k, start))
            start += metadata.row_group(k).num_rows

    def pieces(rng: np.random.Generator | None) -> Iterator[Piece]:
        order = np.arange(len(groups))
        for g in order if rng is None else rng.permutation(order):
            file, k, first = groups[g]
            with _damage(file), pq.ParquetFile(file) as opened:
                rows = opened.read_row_group(k, columns=[*names, target])
            X = np.stack([_numbers(rows.column(name), name, file) for name in names], axis=1)
            yield Piece(first, X, rows.column(target).to_numpy())

    return Stream(pieces, names=names, block_rows=block_rows)


def _inputs(columns: Sequence[str] | None, there: Sequence[str], target: str) -> list[str]:
    """Names of the columns of X."""
    if isinstance(columns, str):
        raise ValueError(f"`columns` must be a list of names; got {columns!r}. Pass [{columns!r}].")
    names = [name for name in there if name != target] if columns is None else list(columns)
    if target in names:
        raise ValueError(f"`columns` has the target {target!r}, which cannot be an input, too; leave it out.")
    if not names:
        raise ValueError(
            f"`columns` must name an input at least; got {columns!r}, and the target {target!r}."
        )
    return names


def parquet_files(path: Any) -> list[Path]:
    """The Parquet files of a folder in the order of their names, or the one file."""
    place = Path(path)
    files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    if not files:
        raise ValueError(f"`path` {place} has no file *.parquet in it; name the folder that has.")
    return files


@contextmanager
def _damage(file: Path) -> Iterator[None]:
    """Errors of the reader as a sentence; that there is no such file is one already."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{file} cannot be read as Parquet ({reason}); write it again, or take it away."
        ) from None


def _numbers(column: Any, name: str, file: Path) -> NDArray[np.float64]:
    try:
        return np.asarray(numbers("X", column.to_numpy()), dtype=np.float64)
    except ValueError:
        raise ValueError(
            f"{file} has values in column {name!r} that are no numbers; name the others in `columns`."
        ) from None
