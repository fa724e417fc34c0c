"""The rows of a fit as blocks: one that stays in memory, or many that are read while others train.

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

import numpy as np

from tggm.training.state import Membership

_WAITING = 2  # blocks that are read ahead


class Block(NamedTuple):
    """Rows to train on and to hold out."""

    members: Membership  # a leading axis of members
    data: Any  # rows first
    weight: Any  # (rows,)
    share: float = 1.0  # of all rows that count: that of the penalty which the block has

    def steps(self, batch_size: int) -> int:
        """Mini-batches that cover the rows of the member that has most of them."""
        B = min(batch_size, self.members.train.shape[1])
        return -(-int(np.max(self.members.n_train)) // B)


@dataclass(frozen=True)
class Blocks:
    """What passes over the rows of a fit give, block by block."""

    each: Callable[[int], Iterator[Block]]  # given the number of the pass, from 0
    per_pass: int
    n_rows: int  # to train on in a pass, of the member that has most
    batch_limit: int  # most rows of a mini-batch
    identity: Any = ()  # arrays that tell these rows from others
    stays: bool = False  # whether there is one block, in memory

    @classmethod
    def of(cls, block: Block) -> "Blocks":
        """A table in memory: one block, which stays."""
        members = block.members
        rows = int(np.max(members.n_train))
        return cls(lambda _: iter([block]), 1, rows, members.train.shape[1], block, stays=True)

    def steps(self, batch_size: int) -> int:
        """Gradient steps of a pass."""
        rows = -(-self.n_rows // self.per_pass)
        return self.per_pass * -(-rows // min(batch_size, self.batch_limit))

    def coming(self, done: int, passes: int, prepare: Callable[[Block], Any]) -> Generator[Any]:
        """What `prepare` makes of all blocks of all passes but those done; of one that stays, once."""
        if self.stays:
            yield from repeat(prepare(next(self.each(0))))
        for block in read_ahead(self._left(done, passes)):
            yield prepare(block)

    def _left(self, done: int, passes: int) -> Iterator[Block]:
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
