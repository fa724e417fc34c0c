"""Streams: rows that are read piece by piece, once per pass, and the checks of every pass.

Sources are the work of others, and may change between two passes, so that every piece of every pass is looked
at: its type and shape, which cost nothing. Values are looked at where they are measured and where they are
trained on. The first pass (`surveyed`) counts rows, measures columns and keeps a part to hold out: the rows
whose numbers have the smallest hashes, so that later passes know them without a list. Later passes (`again`)
are held against it.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.data.standardise import LARGEST, WIDEST, Extent

_GAPS = ("None", "nan", "<NA>", "NaT")  # what NumPy and pandas call a label that is missing


class Piece(NamedTuple):
    """Consecutive rows of a source."""

    start: int  # number of the first among all rows
    X: NDArray[Any]
    y: NDArray[Any]


class Form(NamedTuple):
    """What all pieces of a source have in common."""

    columns: int  # of X
    outputs: tuple[int, ...]  # shape of one row of y
    kind: str  # of y: numbers, text or bytes

    @classmethod
    def of(cls, piece: Piece) -> "Form":
        """That of a piece whose arrays were checked."""
        return cls(piece.X.shape[1], piece.y.shape[1:], _kind(piece.y))


def alike(pieces: Iterable[Piece], is_class: bool, form: Form | None = None) -> Iterator[Piece]:
    """The same pieces as arrays of numbers or labels, empty ones left out; all of one form, or an error."""
    for raw in pieces:
        X, y = table(raw.X, raw.y)
        if not len(X):
            continue
        X = numbers("X", X, raw.start)
        piece = Piece(raw.start, X, labels(y, raw.start) if is_class else numbers("y", y, raw.start))
        found = Form.of(piece)
        form = found if form is None else form
        if found != form:
            raise ValueError(_difference(found, form, raw.start))
        yield piece


def table(X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """A table and its targets as arrays, row for row."""
    X, y = plain("X", X), plain("y", y)
    require_table(X, y)
    return X, y


def require_table(X: Any, y: Any) -> None:
    """Raise unless these are arrays of the shapes of a table and its targets."""
    shapes = f"got shapes {tuple(X.shape)} and {tuple(y.shape)}."
    if X.ndim != 2 or y.ndim not in (1, 2) or len(X) != len(y):
        raise ValueError(f"`X` and `y` must be a table and its targets, row for row; {shapes}")
    if 0 in (*X.shape[1:], *y.shape[1:]):
        raise ValueError(f"`X` and `y` must have a column at least; {shapes}")


def plain(name: str, values: Any) -> NDArray[Any]:
    """What NumPy makes an array of without losing anything."""
    if np.ma.isMaskedArray(values):
        raise ValueError(
            f"`{name}` is a masked array, whose mask would be lost; leave the masked rows out, or fill them: "
            f"{name}.filled(0)."
        )
    if hasattr(values, "tocsr"):
        raise ValueError(f"`{name}` is sparse, which a stream cannot be; pass {name}.toarray().")
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"`{name}` must be an array ({error}); give all its rows the same length.") from None


def numbers(name: str, array: NDArray[Any], start: int = 0) -> NDArray[Any]:
    """An array of real numbers as it is, one of objects or text as float64."""
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind == "c":
        raise ValueError(
            f"`{name}` must be real numbers; it is {array.dtype}. Pass {name}.real, or its real and "
            "imaginary parts as columns of their own."
        )
    if array.dtype.kind in "OUST":
        try:
            return np.asarray(array, np.float64)
        except (TypeError, ValueError):
            place, value = _no_number(array)
            where = f"row {start + place[0]}" + "".join(f", column {k}" for k in place[1:])
            raise ValueError(
                f"`{name}` must be numbers; {where} is {value!r}. Replace it by a number, and words by a "
                "column of zeros and ones for each."
            ) from None
    raise ValueError(
        f"`{name}` must be numbers; it is {array.dtype}. Replace dates by numbers that matter, and "
        "records by columns."
    )


def labels(y: NDArray[Any], start: int = 0) -> NDArray[Any]:
    """One label a row, all of them there and of a kind that can be sorted."""
    if y.size != len(y):
        raise ValueError(f"`y` must be one label a row; got shape {y.shape}.")
    y = y.reshape(-1)
    if y.dtype == object:
        kinds = {type(label) for label in y.tolist()}
        if kinds == {str}:
            return y
        gap = np.array([not isinstance(label, str) and str(label) in _GAPS for label in y.tolist()])
    else:
        kinds, gap = {float}, ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(1, np.bool_)
    if gap.any():
        row = int(gap.argmax())
        raise ValueError(f"`y` has {y[row]} in row {start + row}, which is no label; leave such rows out.")
    if len({_group(kind) for kind in kinds}) > 1:
        raise ValueError(f"`y` has text and numbers from row {start} on; make all labels one or the other.")
    return y


def _group(kind: type) -> str:
    return "text" if issubclass(kind, str) else "bytes" if issubclass(kind, bytes) else "numbers"


def _kind(y: NDArray[Any]) -> str:
    if y.dtype == object and y.size:
        return _group(type(y.flat[0]))
    return {"U": "text", "T": "text", "S": "bytes"}.get(y.dtype.kind, "numbers")


def _no_number(array: NDArray[Any]) -> tuple[tuple[int, ...], Any]:
    """Place and value of the first entry that is no number."""
    for place, value in np.ndenumerate(array):
        try:
            float(value)
        except (TypeError, ValueError):
            return place, value.item() if isinstance(value, np.generic) else value
    return (0,), array[0]


def _difference(found: Form, form: Form, start: int) -> str:
    if found.columns != form.columns:
        return (
            f"`X` must have the same columns in every batch and pass; it has {found.columns} from row "
            f"{start} on, and had {form.columns} before."
        )
    if found.outputs != form.outputs:
        return (
            f"`y` must have one shape in every batch and pass; a row has shape {found.outputs} from row "
            f"{start} on, and had {form.outputs} before."
        )
    return (
        f"`y` must have labels of one kind in every batch and pass; they are {found.kind} from row {start} "
        f"on, and were {form.kind} before. Make all of them text, or numbers."
    )


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


Part = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # numbers of rows, inputs, targets


def again(stream: Stream, survey: Survey, seed: int, epoch: int) -> Iterator[Piece]:
    """One more pass; the survey was the first."""
    seen = 0
    for piece in alike(stream.pieces(np.random.default_rng([seed, epoch])), survey.is_class, survey.form):
        seen += len(piece.X)
        yield piece
    if seen != survey.count:
        raise ValueError(
            f"the stream gave {seen} rows in pass {epoch + 2}, but {survey.count} in pass 1; every pass must "
            "give the same rows. Where a function makes the batches, let it begin anew each time: "
            "from_batches(lambda: read_batches())."
        )


def cut(pieces: Iterable[Piece], seed: int, bound: np.uint64, rows: int) -> Iterator[Part]:
    """The rows that are not held out, so many at a time: their numbers, inputs and targets."""
    parts: list[Part] = []
    waiting = 0
    for piece in pieces:
        number = piece.start + np.arange(len(piece.X))
        kept = scattered(seed, number) >= bound
        parts.append((number[kept], piece.X[kept], piece.y[kept]))
        waiting += len(parts[-1][0])
        while waiting >= rows:
            number, X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
            yield number[:rows], X[:rows], y[:rows]
            parts, waiting = [(number[rows:], X[rows:], y[rows:])], waiting - rows
    if waiting:
        number, X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        yield number, X, y


def require_as_before(data: Any, number: NDArray[Any], epoch: int) -> None:
    """Raise for values that the first pass would have refused: a source may change between passes.

    One product looks at all of them: a sum of squares is finite, and small, only if all values are.
    """
    for name, Z in zip(("X", "y"), data, strict=True):
        if not np.issubdtype(Z.dtype, np.floating):
            continue  # labels, which were looked up
        flat = Z.ravel(order="K")
        with np.errstate(over="ignore", invalid="ignore"):
            if np.dot(flat, flat) <= LARGEST**2:
                continue
        wrong = ~(np.abs(Z) <= LARGEST).reshape(len(Z), -1).all(1)
        if wrong.any():
            raise ValueError(
                f"`{name}` of row {number[wrong.argmax()]} is not finite, or huge, in pass {epoch + 2}, and "
                "was not in pass 1; every pass must give the same rows. See what changes their source."
            )
