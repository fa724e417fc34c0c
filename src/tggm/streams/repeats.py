"""Passes over a stream after the first: the same rows again, cut into blocks, and nothing that was not there.

A source may change while it is trained on, so every pass is held against the survey: the number of rows,
their form, and that no value came that the survey would have refused.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.streams.checks import Piece, alike
from tggm.streams.columns import LARGEST
from tggm.streams.sources import Stream
from tggm.streams.survey import Survey, scattered

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
