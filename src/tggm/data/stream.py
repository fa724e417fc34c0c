"""Read rows in pieces, with one pass per epoch.

The first pass (`survey`) counts rows, measures columns, checks values, and selects held-out rows: those whose
row numbers have the smallest hashes, so that later passes (`next_pass`) recognise them without a list. Types,
shapes and the number of rows are checked in every pass.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.data.standardise import WIDEST, Extent
from tggm.settings import count

BLOCK_ROWS = 2**18  # rows in memory at a time; two more blocks wait for training
HELD_ROWS = 8192  # held-out rows at most: they are scored after every block
_CHUNK_ROWS = 2**14  # consecutive rows of an array; a block has sixteen chunks
_GAPS = ("None", "nan", "<NA>", "NaT")  # missing labels as text

Part = tuple[NDArray[Any], NDArray[Any]]  # inputs, targets


class Piece(NamedTuple):
    """Consecutive rows of a source."""

    start: int  # number of the first row
    X: NDArray[Any]
    y: NDArray[Any]


@dataclass(frozen=True)
class Stream:
    """A source of rows.

    Parameters
    ----------
    pieces : callable
        Takes a NumPy generator, or None for the order of the file, and returns an iterator over all rows.
    names : sequence of str, optional
        Names of the columns of X.
    block_rows : int
        Rows that are shuffled and trained on together.
    table : TableTransformer, optional
        Encoder that made X from tables; the fitted model takes tables then.
    target : str
        Name of the target.
    """

    pieces: Callable[[np.random.Generator | None], Iterator[Piece]]
    names: Sequence[str] | None = None
    block_rows: int = BLOCK_ROWS
    table: Any = None
    target: str = "y"

    def __post_init__(self) -> None:
        count("block_rows", self.block_rows)


def from_arrays(X: Any, y: Any, *, block_rows: int = BLOCK_ROWS) -> Stream:
    """Stream the rows of two arrays, usually memory-mapped."""
    X, y = _as_sliceable("X", X), _as_sliceable("y", y)
    _require_shapes(X, y)

    def pieces(rng: np.random.Generator | None) -> Iterator[Piece]:
        starts = np.arange(0, len(X), _CHUNK_ROWS)
        for start in (starts if rng is None else rng.permutation(starts)).tolist():
            rows = slice(start, start + _CHUNK_ROWS)
            yield Piece(start, np.array(X[rows]), np.array(y[rows]))

    return Stream(pieces, block_rows=block_rows)


def _as_sliceable(name: str, array: Any) -> Any:
    """Return NumPy arrays and arrays on disk unchanged, anything else as a NumPy array."""
    others = ("mask", "tocsr", "to_numpy")  # masked, sparse, pandas
    is_array = hasattr(array, "ndim") and not any(hasattr(array, attribute) for attribute in others)
    return array if is_array else as_array(name, array)


def from_batches(
    batches: Iterable[tuple[Any, Any]] | Callable[[], Iterable[tuple[Any, Any]]], *,
    block_rows: int = BLOCK_ROWS,
) -> Stream:  # fmt: skip
    """Stream batches (X, y) of any sizes from a repeatable iterable or a function that returns one."""
    if isinstance(batches, Iterator):
        raise ValueError("`batches` can be read only once; pass a function that returns it: from_batches(f).")

    def pieces(rng: np.random.Generator | None) -> Iterator[Piece]:
        start = 0
        found = batches() if callable(batches) else batches
        if not hasattr(found, "__iter__") and not hasattr(found, "__getitem__"):
            raise ValueError(f"`batches` must be an iterable of pairs (X, y); got {found!r}.")
        for batch in found:
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                raise ValueError(f"`batches` must yield pairs (X, y); got a {type(batch).__name__}.")
            X, y = batch
            yield Piece(start, X, y)  # `check_pieces` checks both
            start += len(X)

    return Stream(pieces, block_rows=block_rows)


def _form(piece: Piece) -> str:
    """Describe what all pieces of a source must share."""
    y = piece.y
    text = isinstance(y.flat[0], str) if y.dtype == object else y.dtype.kind in "UST"
    kind = "text" if text else "numbers"
    return f"{piece.X.shape[1]} columns and targets of shape {y.shape[1:]} ({kind})"


def check_pieces(pieces: Iterable[Piece], is_class: bool, form: str = "") -> Iterator[Piece]:
    """Yield the pieces as arrays of numbers or labels, without empty ones; raise if their forms differ."""
    for raw in pieces:
        X, y = as_array("X", raw.X), as_array("y", raw.y)
        _require_shapes(X, y)
        if not len(X):
            continue
        X = as_numbers("X", X, raw.start)
        piece = Piece(raw.start, X, _as_labels(y, raw.start) if is_class else as_numbers("y", y, raw.start))
        found = _form(piece)
        form = form or found
        if found != form:
            raise ValueError(
                f"all batches must have one form; row {raw.start} has {found}, earlier ones {form}."
            )
        yield piece


def _require_shapes(X: Any, y: Any) -> None:
    shapes = f"got shapes {tuple(X.shape)} and {tuple(y.shape)}."
    if X.ndim != 2 or y.ndim not in (1, 2) or len(X) != len(y):
        raise ValueError(f"`X` and `y` must be a table and its targets, with equal numbers of rows; {shapes}")
    if 0 in (*X.shape[1:], *y.shape[1:]):
        raise ValueError(f"`X` and `y` must have at least one column; {shapes}")


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Convert to a NumPy array; raise if that would lose information."""
    if np.ma.isMaskedArray(values):
        raise ValueError(f"`{name}` is masked; leave the masked rows out, or fill them: {name}.filled(0).")
    if hasattr(values, "tocsr"):
        raise ValueError(f"`{name}` is sparse, but a stream must be dense; pass {name}.toarray().")
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"`{name}` must be an array ({error}); give all its rows the same length.") from None


def as_numbers(name: str, array: NDArray[Any], start: int = 0) -> NDArray[Any]:
    """Return an array of real numbers unchanged, one of objects or text as float64."""
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind not in "OUST":
        raise ValueError(f"`{name}` must be real numbers; it is {array.dtype}. Replace it by numbers.")
    try:
        return np.asarray(array, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be numbers from row {start} on ({error}); encode words.") from None


def _as_labels(y: NDArray[Any], start: int = 0) -> NDArray[Any]:
    """Return one label per row; raise if labels are missing or cannot be sorted."""
    if y.size != len(y):
        raise ValueError(f"`y` must have one label per row; got shape {y.shape}.")
    y = y.reshape(-1)
    labels = y.tolist() if y.dtype == object else []
    text = {isinstance(label, str) for label in labels}
    gap = np.array([not isinstance(label, str) and str(label) in _GAPS for label in labels], np.bool_)
    if y.dtype.kind == "f":
        gap = ~np.isfinite(y)
    if gap.any():
        row = int(gap.argmax())
        raise ValueError(f"`y` has {y[row]} in row {start + row}, which is not a label; leave such rows out.")
    if len(text) > 1:
        raise ValueError(f"`y` has text and numbers from row {start} on; convert all labels to one type.")
    return y


def hash_rows(seed: int, rows: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """Hash row numbers (the finaliser of SplitMix64)."""
    z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass
class Survey:
    """Count, extents, classes and held-out rows of a stream; `add` takes its pieces."""

    seed: int
    is_class: bool
    X: Extent | None = None
    y: Extent | None = None
    form: str = ""
    flat: bool = False  # whether `y` has one dimension
    classes: Any = None
    _hash: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    _rows: Any = None

    def add(self, piece: Piece) -> None:
        """Add a piece."""
        self.form, self.flat = _form(piece), piece.y.ndim == 1
        found = _measure("X", piece.X, piece.start)
        self.X = found if self.X is None else self.X.merge(found)
        if self.is_class:
            seen = np.unique(piece.y)
            self.classes = seen if self.classes is None else np.unique(np.concatenate([self.classes, seen]))
        else:
            found = _measure("y", piece.y.reshape(len(piece.X), -1), piece.start)
            self.y = found if self.y is None else self.y.merge(found)
        hashes = hash_rows(self.seed, piece.start + np.arange(len(piece.X)))
        kept = hashes <= self._hash.max() if len(self._hash) >= HELD_ROWS else np.ones(len(hashes), np.bool_)
        new = [hashes[kept], piece.X[kept], piece.y[kept]]
        if self._rows is not None:
            new = [np.concatenate(pair) for pair in zip([self._hash, *self._rows], new, strict=True)]
        order = np.argsort(new[0], kind="stable")[:HELD_ROWS]
        self._hash, self._rows = new[0][order], tuple(part[order] for part in new[1:])

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return 0 if self.X is None else int(self.X.mass)

    def held(self, fraction: float) -> tuple[NDArray[Any], NDArray[Any], np.uint64]:
        """Return the held-out inputs and targets, and the upper bound of the hashes of held-out rows."""
        n = min(len(self._hash), max(round(fraction * self.count), 1))
        return self._rows[0][:n], self._rows[1][:n], self._hash[n - 1] + np.uint64(1)


def survey(stream: Stream, seed: int, is_class: bool) -> Survey:
    """Read a stream once and return its survey."""
    found = Survey(seed, is_class)
    for piece in check_pieces(stream.pieces(None), is_class):
        found.add(piece)
    if found.count < 2:
        raise ValueError(f"the stream gave {found.count} rows; a fit needs at least two. Check its source.")
    return found


def _measure(name: str, values: NDArray[Any], start: int) -> Extent:
    """Measure a piece; raise for values that are not finite, or too large for sums."""
    table = np.asarray(values, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        found = Extent.of(table)
    if not (found.low >= -WIDEST).all() or not (found.high <= WIDEST).all():  # also true for NaN
        wrong = ~(np.abs(table) <= WIDEST)
        row = int(wrong.any(1).argmax())
        column = int(wrong[row].argmax())
        raise ValueError(
            f"`{name}` must be finite numbers between ±{WIDEST:g}; row {start + row} has "
            f"{table[row, column]:g} in column {column}. Leave the row out, or divide the column."
        )
    return found


def next_pass(stream: Stream, first: Survey, seed: int, epoch: int) -> Iterator[Piece]:
    """Yield the pieces of another pass in random order; raise if it differs from the first."""
    seen = 0
    pieces = stream.pieces(np.random.default_rng([seed, epoch]))
    for piece in check_pieces(pieces, first.is_class, first.form):
        seen += len(piece.X)
        yield piece
    if seen != first.count:
        raise ValueError(
            f"pass {epoch + 2} gave {seen} rows, pass 1 {first.count}; a function of "
            "batches must start again at each call."
        )


def training_blocks(pieces: Iterable[Piece], seed: int, bound: np.uint64, rows: int) -> Iterator[Part]:
    """Yield the rows that are not held out, `rows` at a time: inputs and targets."""
    parts: list[Part] = []
    waiting = 0
    for piece in pieces:
        kept = hash_rows(seed, piece.start + np.arange(len(piece.X))) >= bound
        parts.append((piece.X[kept], piece.y[kept]))
        waiting += len(parts[-1][0])
        while waiting >= rows:
            X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
            yield X[:rows], y[:rows]
            parts, waiting = [(X[rows:], y[rows:])], waiting - rows
    if waiting:
        X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        yield X, y


class RowGroup(NamedTuple):
    """A row group of a file, and the number of its first row among all."""

    file: Path
    number: int
    start: int
    rows: int


class ParquetFiles:
    """A Parquet file, or all files of a folder in the order of their names."""

    def __init__(self, path: Any) -> None:
        import pyarrow.parquet as pq

        self.schemas: dict[Path, Any] = {}
        self.groups: list[RowGroup] = []
        self.rows = 0
        place = Path(path)
        files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
        if not files:
            raise ValueError(f"`path` {place} contains no file *.parquet; name a folder with such files.")
        for file in files:
            with parquet_errors(file):
                metadata = pq.read_metadata(file)
            self.schemas[file] = metadata.schema.to_arrow_schema()
            for k in range(metadata.num_row_groups):
                rows = metadata.row_group(k).num_rows
                self.groups += [RowGroup(file, k, self.rows, rows)] if rows else []
                self.rows += rows

    def read(self, group: RowGroup, columns: Sequence[str] | None = None) -> Any:
        """Read a row group as a pyarrow table."""
        import pyarrow.parquet as pq

        with parquet_errors(group.file), pq.ParquetFile(group.file) as opened:
            return opened.read_row_group(group.number, columns=columns)

    def order_groups(self, rng: np.random.Generator | None) -> list[RowGroup]:
        """Return the groups in random order; without a generator, in the order of the files."""
        order = range(len(self.groups)) if rng is None else rng.permutation(len(self.groups)).tolist()
        return [self.groups[k] for k in order]


def from_parquet(
    path: Any, target: str, *, columns: Sequence[str] | None = None, block_rows: int = BLOCK_ROWS
) -> Stream:
    """Stream columns of numbers from a Parquet file or a folder of them; by default all except `target`."""
    if isinstance(columns, str):
        raise ValueError(f"`columns` must be a list of names; got {columns!r}. Pass [{columns!r}].")
    source = ParquetFiles(path)
    available = next(iter(source.schemas.values())).names
    names = [name for name in available if name != target] if columns is None else list(columns)
    if target in names:
        raise ValueError(f"`columns` has the target {target!r}, which cannot be an input, too; leave it out.")
    if not names:
        raise ValueError(f"`columns` must name at least one input; got {columns!r} and target {target!r}.")
    for file, schema in source.schemas.items():
        missing = [name for name in (*names, target) if name not in schema.names]
        if missing:
            raise ValueError(f"{file} has no column {missing[0]!r}; it has {', '.join(schema.names)}.")

    def pieces(rng: np.random.Generator | None) -> Iterator[Piece]:
        for group in source.order_groups(rng):
            rows = source.read(group, [*names, target])
            X = np.stack([_numbers(rows.column(name), name, group.file) for name in names], axis=1)
            yield Piece(group.start, X, rows.column(target).to_numpy())

    return Stream(pieces, names=names, block_rows=block_rows)


@contextmanager
def parquet_errors(file: Any) -> Iterator[None]:
    """Convert errors of pyarrow to a message that names the file."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{file} is a damaged Parquet file ({reason}); write it again.") from None


def _numbers(column: Any, name: str, file: Path) -> Floats:
    try:
        return np.asarray(as_numbers("X", column.to_numpy()), dtype=np.float64)
    except ValueError:
        raise ValueError(f"column {name!r} of {file} has other values than numbers; leave it out.") from None
