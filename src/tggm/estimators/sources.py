"""Where the rows of a fit come from: arrays in memory are one block, a stream is many."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tggm.arrays import Floats
from tggm.data import Stream, from_arrays
from tggm.data.standardise import LARGEST, Columns, Extent, Scales, require_moderate
from tggm.data.stream import Survey, again, cut, require_as_before, surveyed
from tggm.estimators.recipe import MOST_PERIODIC, Recipe
from tggm.models.sparse import SparseRows
from tggm.training import Rows
from tggm.training.rows import Blocks, RowBlock, bucket, dealt, membership
from tggm.training.state import Membership

STREAM_BYTES = 2**28  # a memory map of more is not read into memory
SPANNED = 0.9  # of the values of a table that its columns span if they are of one kind


ToRows = Callable[..., Rows]  # (X, y, quick=False) to standardised rows


def as_stream(X: Any, y: Any, *rest: Any) -> Stream | None:
    """The source of rows that `fit` was given, None if it was given ordinary arrays."""
    if isinstance(X, Stream):
        if y is not None or any(value is not None for value in rest):
            raise ValueError("a stream brings its targets; `y`, weights and limits cannot be given with it.")
        return X
    mapped = isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > STREAM_BYTES and y is not None
    return from_arrays(X, y) if mapped and all(value is None for value in rest) else None


class MemorySource:
    """Arrays: each member holds out rows of its own."""

    capacity = 1024  # epochs that may run in one chunk
    whole = True  # all rows are in memory

    def __init__(self, X: Any, y: Any, weight: Floats) -> None:
        self.X, self.y, self.weight, self.mean_weight = X, y, weight, float(weight.mean())
        self.count, self.sparse = len(weight), sparse.issparse(X)
        self.n_kept = self.count  # rows that are at hand after training

    def inputs(self, how: bool | str) -> Columns:
        """Standardisation of the inputs."""
        return standardisation(self.X, self.weight, how)

    def outputs(self, how: bool | str) -> Columns:
        """Standardisation of targets that are numbers."""
        scales: Columns = self.y.scales(self.weight, how)
        return scales

    def blocks(
        self, recipe: Recipe, scales: Scales, rows: ToRows, rng: np.random.Generator,
        fraction: float | None = None,
    ) -> Blocks:  # fmt: skip
        """One block that stays in memory; `fraction` of the rows are held out, by default as settings say."""
        count, part = len(self.weight), recipe.held_fraction if fraction is None else fraction
        data = jax.tree.map(partial(_padded, recipe.dtype), rows(self.X, self.y))
        weight = _padded(recipe.dtype, self.weight / self.mean_weight)
        members = membership(dealt(rng, np.arange(count), part, recipe.n_members))
        return Blocks.of(RowBlock(members, data, weight))

    def sample(self, rows: ToRows) -> Rows:
        """All rows."""
        return rows(self.X, self.y)


class StreamSource:
    """A stream: all members hold out the same rows, at most 8192, and see a block's in different orders.

    `target` makes of its targets what `MemorySource` has: numbers as `Targets`, labels as places of classes.
    """

    capacity, mean_weight, sparse, whole = 1, 1.0, False, False

    def __init__(
        self, stream: Stream, recipe: Recipe, rng: np.random.Generator, target: Callable[[Any], Any],
        *, labels: bool,
    ) -> None:  # fmt: skip
        self.stream, self._target = stream, target
        self.survey: Survey = surveyed(stream, int(rng.integers(2**63)), labels)
        self.count = self.survey.count
        fraction = recipe.held_fraction
        self.X, self._y, bound = self.survey.held(fraction or 1.0)
        self._bound = bound if fraction else np.uint64(0)
        self.n_kept = len(self.X) if fraction else 0
        # of labels there is none
        self._extents = [extent for extent in (self.survey.X, self.survey.y) if extent is not None]

    def inputs(self, how: bool | str) -> Columns:
        """Standardisation of the inputs."""
        extent = self._extents[0]
        if not how:
            return Columns.unchanged(len(extent.mean))
        if how == "whole":
            return extent.whole()
        return _by_sample(self.X, extent) if how == "robust" else extent.columns()

    def outputs(self, how: bool | str) -> Columns:
        """Standardisation of targets that are numbers."""
        extent = self._extents[1]
        if not how:
            return Columns.unchanged(len(extent.mean))
        sample = self._y.reshape(len(self._y), -1)
        return _by_sample(sample, extent) if how == "robust" else extent.columns()

    def _require_moderate(self, scales: Scales) -> None:
        """Raise for what is too large on the scale of the model: the range is known, no row need be read."""
        for name, extent, columns in zip(("X", "y"), self._extents, scales, strict=False):
            size = np.abs(columns.apply(np.stack([extent.low, extent.high]))).max(0)
            if size.max() > LARGEST:
                raise ValueError(
                    f"`{name}` has a value of size {size.max():.3g} on the scale of the model in column "
                    f"{size.argmax()}, where {LARGEST:g} is the most that can be computed with; use "
                    "standardize=True, or divide it."
                )

    def blocks(self, recipe: Recipe, scales: Scales, rows: ToRows, rng: np.random.Generator) -> Blocks:
        """Blocks of one shape, the held-out rows behind each block's own."""
        self._require_moderate(scales)
        seed, count = int(rng.integers(2**31)), self.survey.count - self.n_kept
        per_pass = math.ceil(count / self.stream.block_rows)
        length = math.ceil(count / per_pass)  # blocks of equal size: a small one would take noisy steps
        size = bucket(length) if length < 1024 else math.ceil(length / 1024) * 1024
        held_size = bucket(len(self.X))
        held = jax.tree.map(partial(_joined, held_size), self.sample(rows))
        weight = np.ones(size + held_size, recipe.dtype)
        members = partial(self._members, recipe.n_members, size, held_size)

        def each(epoch: int) -> Iterator[RowBlock]:
            for part in self._cut(rows, seed, epoch, length, count):
                n = len(part.X)
                data = jax.tree.map(partial(_joined, size), part, held)
                yield RowBlock(members(n), data, weight, n / count)

        kept = RowBlock(self._members(recipe.n_members, 0, held_size, 0), held, weight[size:])
        return Blocks(each, per_pass, count, size, (held, count, size), kept=kept)

    def sample(self, rows: ToRows) -> Rows:
        """The rows that are held out, or might have been."""
        return rows(self.X.astype(np.float64, copy=False), self._target(self._y))

    def _cut(self, rows: ToRows, seed: int, epoch: int, length: int, count: int) -> Iterator[Rows]:
        """The rows to train on, so many at a time; errors for what another pass did not give."""
        seen = 0
        pieces = again(self.stream, self.survey, seed, epoch)
        for number, X, y in cut(pieces, self.survey.seed, self._bound, length):
            seen += len(X)
            part = rows(X, self._target(y), quick=True)
            require_as_before(part, number, epoch)
            yield part
        if seen != count:
            raise ValueError(
                f"the stream gave {seen} rows to train on in pass {epoch + 2}, but {count} in the first; "
                "each piece must have the same `start` in every pass."
            )

    def _members(self, K: int, size: int, held_size: int, count: int) -> Membership:
        """A block's rows first, the held-out ones behind them, the same for all members."""
        numbers = np.arange(size + held_size, dtype=np.int32)
        train, held = (np.broadcast_to(part, (K, len(part))) for part in np.split(numbers, [size]))
        n_train, n_held = (np.full(K, number, np.int32) for number in (count, self.n_kept))
        return Membership(train, n_train, held, n_held)  # type: ignore[arg-type]  # NumPy until training


Source = MemorySource | StreamSource


def _by_sample(values: NDArray[Any], extent: Extent) -> Columns:
    """Robust scales of a sample of the rows; of all where the sample has no two values."""
    sample = np.asarray(values, np.float64)
    found, whole = Columns.robust(sample, np.ones(len(sample))), extent.columns()
    varies = np.ptp(sample, axis=0) > 0
    return Columns(*(np.where(varies, a, b) for a, b in zip(found, whole, strict=True)))


def _padded(dtype: Any, a: NDArray[Any]) -> NDArray[Any]:
    """Rows added that no index list names, so that shapes repeat; labels stay integers."""
    if np.issubdtype(a.dtype, np.floating):
        require_moderate(a, "`X` or `y`", "use standardize=True, or divide them")
        a = a.astype(dtype)
    return np.pad(a, [(0, bucket(len(a)) - len(a)), *[(0, 0)] * (a.ndim - 1)])


def _joined(size: int, rows: NDArray[Any], *more: NDArray[Any]) -> NDArray[Any]:
    """Rows, padded to `size` with zeros that do not count, and more."""
    return np.concatenate([rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype), *more])


def standardisation(X: Any, weight: Floats, how: bool | str) -> Columns:
    """The map that brings inputs to unit size.

    True treats each column by itself, "robust" without its outliers, "whole" the table as one column, False
    leaves it. "robust" takes many columns of one kind, as those of pixels, for one, too. A sparse table keeps
    its zeros: it is divided by one number that makes the mean square of a column 1.
    """
    d = X.shape[1]
    if not how:
        return Columns.unchanged(d)
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1), np.float64).reshape(-1)
        size = np.sqrt(np.average(squares, weights=weight) / d)
        return Columns(np.zeros(d), np.full(d, size if size > 0 else 1.0))
    if how != "whole" and not (how == "robust" and alike(X)):
        maker = Columns.robust if how == "robust" else Columns.of
        return maker(np.asarray(X, np.float64), weight)
    one = Columns.of(X.mean(1, dtype=np.float64)[:, None], weight)
    centred = X - one.shift.astype(X.dtype)[None, :]
    variance = np.average(np.einsum("ij,ij->i", centred, centred).astype(np.float64), weights=weight) / d
    return Columns(np.full(d, one.shift[0]), np.full(d, np.sqrt(variance) if variance > 0 else 1.0))


def alike(X: Any) -> bool:
    """Whether a wide table has columns of one kind: most of those that vary span all its values.

    The border of pictures, nearly always blank, says little: by itself it would be blown up to unit size.
    """
    if X.shape[1] <= MOST_PERIODIC:
        return False
    low, high = X.min(0), X.max(0)
    span = (high - low)[high > low]
    return bool(len(span) and np.median(span) >= SPANNED * (high.max() - low.min()))


def prepared(X: Any, columns: Columns, dtype: Any, *, most: float = np.inf) -> Any:
    """A dense table standardised, or sparse rows with as many places as the fullest row needs."""
    if not sparse.issparse(X):
        with np.errstate(over="ignore"):  # values that overflow are seen to where they are used
            if not columns.mild() or most < np.inf:
                return columns.apply(np.asarray(X, np.float64), most=most).astype(dtype)
            X = np.asarray(X, dtype)
        if columns.shift.any():
            X = X - columns.shift.astype(dtype)[None, :]
        return X if (columns.scale == 1).all() else X * (1 / columns.scale).astype(dtype)[None, :]
    X = X.tocsr()
    counts = np.diff(X.indptr)
    places = bucket(int(counts.max(initial=1)))
    row = np.repeat(np.arange(X.shape[0]), counts)
    place = np.arange(X.nnz) - np.repeat(X.indptr[:-1], counts)
    # unused places hold 0 of different columns: additions to one and the same would wait for each other
    indices = np.tile(np.arange(places, dtype=np.int32) % X.shape[1], (X.shape[0], 1))
    values = np.zeros((X.shape[0], places), dtype)
    indices[row, place] = X.indices
    values[row, place] = X.data / columns.scale[X.indices]
    return SparseRows(indices, values)  # type: ignore[arg-type]  # NumPy until training
