"""Training on rows that come in blocks: the next block is read while the last one trains.

A block is one epoch of the ordinary training loop: its rows are shuffled, cut into mini-batches, and the
held-out rows, which stay in memory, are scored after it. All blocks have one shape, so that one program
serves them all; how many of a block's rows count is a number. Memory is that of four blocks: the one that
trains, two that wait, one that is made.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from tggm.training.groups import crew
from tggm.training.loop import Hyper, Membership, Plan, Trace, start
from tggm.training.objectives import Objective
from tggm.training.training import Checkpoint, Training, _checkpoint, _failed, _result, _stalled

_WAITING = 2  # blocks that are read ahead


@dataclass(frozen=True)
class Blocks:
    """What a pass over the rows gives: (data, rows that count), the held-out rows behind a block's own."""

    each: Callable[[int], Iterator[tuple[Any, int]]]  # given the number of the pass, from 0
    size: int  # rows of a block with its padding
    held_size: int  # held-out rows with their padding
    n_held: int  # how many of them count
    n_rows: int  # that count in a pass
    per_pass: int


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


def train_blocks(
    plan: Plan,
    objective: Objective,
    params: Any,
    blocks: Blocks,
    context: Any,
    hyper: Hyper,
    *,
    max_epochs: int,
    seed: int = 0,
    report: Callable[[int, Trace], None] | None = None,
    resume: Checkpoint | None = None,
    keep: Callable[[Checkpoint], None] | None = None,
) -> Training:
    """As `train`, for rows in blocks: `max_epochs` passes, the patience of `hyper` counted in blocks.

    A checkpoint may be of any block: the pass it belongs to is read again up to there. Histories and
    `best_epoch` of the result are those of passes.
    """
    seeds = np.random.default_rng(seed).integers(0, 2**32, len(hyper.clip), np.uint32)
    state = start(plan, params, seeds) if resume is None else resume.state
    traces: list[Trace] = [] if resume is None else [Trace(resume.train, resume.held)]  # type: ignore[arg-type]  # NumPy
    done, interrupted = 0 if resume is None else resume.train.shape[1], False
    with crew(len(seeds), min(plan.batch_size, blocks.size)) as workers:
        coming = read_ahead(_from(blocks, done, max_epochs))
        try:
            for data, count in coming:
                each, shared, steps = _arguments(plan, blocks, context, hyper, data, count)
                shared = workers.place(shared)
                state, trace = workers.run(plan, objective, state, each, shared, np.int32(1), steps)
                traces.append(jax.tree.map(lambda a: np.asarray(a)[:, :1], trace))
                done += 1
                if report is not None and done % blocks.per_pass == 0:
                    report(done // blocks.per_pass, traces[-1])
                if keep is not None:
                    keep(_checkpoint(state, traces))
                if _stalled(state, hyper) or _failed(state):
                    break
        except KeyboardInterrupt:
            interrupted = True
        finally:
            coming.close()  # type: ignore[attr-defined]  # a generator
    return _of_passes(_result(plan, state, hyper, traces, interrupted), blocks.per_pass)


def _from(blocks: Blocks, done: int, max_epochs: int) -> Iterator[tuple[Any, int]]:
    """All blocks of all passes but those done."""
    for epoch in range(done // blocks.per_pass, max_epochs):
        for k, block in enumerate(blocks.each(epoch)):
            if epoch * blocks.per_pass + k >= done:
                yield block


def _arguments(plan: Plan, blocks: Blocks, context: Any, hyper: Hyper, data: Any, count: int) -> Any:
    """What the training program takes for one block: its rows first, the held-out ones behind them."""
    K = len(hyper.clip)
    rows = np.arange(blocks.size + blocks.held_size, dtype=np.int32)
    train, held = (np.broadcast_to(part, (K, len(part))) for part in np.split(rows, [blocks.size]))
    n_train, n_held = (np.full(K, number, np.int32) for number in (count, blocks.n_held))
    members: Any = Membership(train, n_train, held, n_held)  # type: ignore[arg-type]  # NumPy until training
    # the loop shares the penalty by the rows of a block; it belongs to all
    dtype = np.asarray(hyper.clip).dtype
    share: Any = hyper._replace(weight_decay=hyper.weight_decay * np.asarray(count / blocks.n_rows, dtype))
    weight = np.ones(len(rows), dtype)
    steps = np.int32(-(-count // min(plan.batch_size, blocks.size)))
    return (members, context, share), (data, weight), steps


def _of_passes(result: Training, per_pass: int) -> Training:
    """Histories with one entry a pass: the mean objective of its blocks, the score after the last."""

    def passes(history: Any, of: Callable[[Any], Any]) -> Any:
        parts = [history[:, k : k + per_pass] for k in range(0, history.shape[1], per_pass)]
        return np.stack([of(part) for part in parts], axis=1) if parts else history

    return replace(
        result,
        train=passes(result.train, lambda part: part.mean(1)),
        held=passes(result.held, lambda part: part[:, -1]),
        best_epoch=result.best_epoch // per_pass,
    )
