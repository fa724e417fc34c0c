"""The rows of a fit: which each member trains on and holds out, in which order, and block by block.

Blocks are one that stays in memory, or many that are read while others train. Index lists are padded to a few
sizes, so that tables and folds of nearly equal size run the same compiled program.

A block is trained on for an epoch of its own (or many, where it is the only one): its rows are shuffled, cut
into mini-batches, and the held-out rows are scored after it. All blocks of a source have one shape, so that
one program serves them all; how many of a block's rows count is a number. Memory is that of four blocks: the
one that trains, two that wait, one that is made.
"""

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tggm.training.state import Membership

Index = NDArray[np.int32]


def bucket(size: int) -> int:
    """Smallest of 16, 24, 32, 48, 64, 96, … that is not below `size`; at most a third is padding."""
    power = 16
    while True:
        if size <= power:
            return power
        if size <= power + power // 2:
            return power + power // 2
        power *= 2


GROUPED = 4  # members from which on several hold out the same rows
ENOUGH_HELD = 250  # rows held out by some member


def hold_out(rng: np.random.Generator, rows: NDArray[np.integer], fraction: float) -> tuple[Index, Index]:
    """Split row numbers at random into a part to train on and a part of the given fraction, rounded."""
    shuffled = rng.permutation(rows).astype(np.int32)
    n_held = round(fraction * len(rows))
    return shuffled[n_held:], shuffled[:n_held]


def dealt(
    rng: np.random.Generator, rows: NDArray[np.integer], fraction: float, members: int
) -> list[tuple[Index, Index]]:
    """Rows that each member trains on and holds out, about `fraction` of them.

    The rows are cut at random into parts, one for each group of members in turn, and cut anew when the parts
    run out. Members that hold out the same rows tell how far members differ on rows that they have not seen,
    and how well they do together. There are as few groups as hold out 250 rows, but two, so that every row is
    trained on by half of the members at least; none has fewer than two members. Fewer than four members have
    a part each.
    """
    count = round(fraction * len(rows))
    folds = _folds(members, count)
    if not count:
        none = np.zeros(0, np.int32)
        return [(rng.permutation(rows).astype(np.int32), none) for _ in range(members)]
    parts = max(2, round(len(rows) / count))
    found: list[tuple[Index, Index]] = []
    while len(found) < folds:
        cuts = np.array_split(rng.permutation(rows).astype(np.int32), parts)
        found += [(np.concatenate(cuts[:k] + cuts[k + 1 :]), held) for k, held in enumerate(cuts)]
    return [found[k * folds // members] for k in range(members)]


def _folds(members: int, count: int) -> int:
    """How many groups of members hold out `count` rows each."""
    if members < GROUPED or not count:
        return members
    return int(np.clip(-(-ENOUGH_HELD // count), 2, members // 2))


def _padded(lists: list[Index]) -> tuple[Index, Index]:
    size = bucket(max(len(a) for a in lists))
    # padding repeats the list, so that padded rows are as good as any for a batch statistic
    out = np.stack([np.resize(a, size) if len(a) else np.zeros(size, np.int32) for a in lists])
    return out.astype(np.int32), np.array([len(a) for a in lists], np.int32)


def membership(parts: list[tuple[Index, Index]]) -> Membership:
    """Stack the (train, held) row numbers of several members."""
    train, n_train = _padded([train for train, _ in parts])
    held, n_held = _padded([held for _, held in parts])
    return Membership(train, n_train, held, n_held)  # type: ignore[arg-type]  # NumPy until training


def parts(members: Membership) -> list[Index]:
    """Rows that each member trains on, without the padding."""
    pairs = zip(np.asarray(members.train), np.asarray(members.n_train), strict=True)
    return [rows[:count] for rows, count in pairs]


PACKED = 2**16  # positions that leave 15 bits for the hash, enough to order them at random
GOLDEN = np.uint32(0x9E3779B9)  # an odd number whose multiples spread evenly


def scatter(h: Array) -> Array:
    """A bijection of the 32-bit integers that looks random (the finaliser of MurmurHash3)."""
    h = (h ^ (h >> 16)) * jnp.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * jnp.uint32(0xC2B2AE35)
    return h ^ (h >> 16)


def shuffled(rows: Array, count: Array, seed: Array, epoch: Array) -> Array:
    """The first `count` rows in an order that depends on seed and epoch, the padding behind them.

    Sorting hashes of positions compiles much faster than a general random generator, and mini-batches need
    no better one. Few enough positions are the last bits of what is sorted: one array is sorted in a sixth of
    the time that two take.
    """
    position = jnp.arange(rows.shape[0], dtype=jnp.uint32)
    start = scatter(seed ^ scatter(epoch.astype(jnp.uint32) + GOLDEN))
    noise = scatter(start + position * GOLDEN) >> 1
    noise = jnp.where(position < count.astype(jnp.uint32), noise, jnp.uint32(2**31))
    if rows.shape[0] > PACKED:
        return rows[jnp.argsort(noise)]
    bits = jnp.uint32((1 << (rows.shape[0] - 1).bit_length()) - 1)
    return rows[jnp.sort((noise & ~bits) | position) & bits]


_WAITING = 2  # blocks that are read ahead


class RowBlock(NamedTuple):
    """Rows to train on and to hold out."""

    members: Membership  # a leading axis of members
    data: Any  # rows first
    weight: Any  # (rows,)
    share: float = 1.0  # of all rows that count: that of the penalty which the block has


@dataclass(frozen=True)
class Blocks:
    """What passes over the rows of a fit give, block by block."""

    each: Callable[[int], Iterator[RowBlock]] | None  # given the number of the pass, from 0
    per_pass: int
    n_rows: int  # to train on in a pass, of the member that has most
    batch_limit: int  # most rows of a mini-batch
    identity: Any = ()  # arrays that tell these rows from others
    only: RowBlock | None = None  # that of a table in memory
    kept: RowBlock | None = None  # rows at hand after training: all, or those of a stream that are held out

    @classmethod
    def of(cls, block: RowBlock) -> "Blocks":
        """A table in memory: one block, which stays."""
        members = block.members
        rows = int(np.max(members.n_train))
        return cls(None, 1, rows, members.train.shape[1], block, block, block)

    def steps(self, batch_size: int) -> int:
        """Gradient steps of a pass."""
        rows = -(-self.n_rows // self.per_pass)
        return self.per_pass * -(-rows // min(batch_size, self.batch_limit))

    def coming(self, done: int, passes: int, prepare: Callable[[RowBlock], Any]) -> Generator[Any]:
        """What `prepare` makes of all blocks of all passes but those done; of one that stays, once."""
        if self.only is not None:
            yield from repeat(prepare(self.only))
        for block in read_ahead(self._left(done, passes)):
            yield prepare(block)

    def _left(self, done: int, passes: int) -> Iterator[RowBlock]:
        assert self.each is not None
        for epoch in range(done // self.per_pass, passes):
            for k, block in enumerate(self.each(epoch)):
                if epoch * self.per_pass + k >= done:
                    yield block


def read_ahead(items: Iterator[Any]) -> Iterator[Any]:
    """The same items, made in a thread of their own, a few ahead."""
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(_WAITING)
    stopped = threading.Event()

    def put(kind: str, value: Any) -> None:
        while not stopped.is_set():
            try:
                waiting.put((kind, value), timeout=0.1)
                break
            except queue.Full:
                continue

    def read() -> None:
        try:
            for item in items:
                put("item", item)
                if stopped.is_set():
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=read, name="tggm-read", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stopped.set()
        thread.join()


class Scaling(NamedTuple):
    """An affine map of inputs and targets: (X − x_shift) / x_scale, (y − y_shift) / y_scale."""

    x_shift: Array  # (d,)
    x_scale: Array  # (d,)
    y_shift: Array  # (n,)
    y_scale: Array  # (n,)

    def __call__(self, rows: Any) -> Any:
        """Apply the map to `Rows`."""
        X = (rows.X - self.x_shift[None, :]) / self.x_scale[None, :]
        return rows._replace(X=X, y=(rows.y - self.y_shift[None, :]) / self.y_scale[None, :])
