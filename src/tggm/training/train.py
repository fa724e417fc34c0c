"""Train the members of an ensemble: chunks of epochs, progress, early ends, interruption, checkpoints.

A compiled training loop keeps little more than one core busy: its arrays are too small to be split. So the
members are split into groups, and each group runs the same program in its own thread. Accelerators take all
members at once. So does a CPU if the program factorises matrices: two of JAX's batched factorisations that
run at the same time may deadlock (jaxlib 0.10, see `tggm.blas_lock`).
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Tree
from tggm.blas_lock import blas_lock, factorises
from tggm.training.checkpoint import Checkpoint, CheckpointFile, identity
from tggm.training.compilation_cache import precision
from tggm.training.loop import FAILURES, Hyper, LogDensity, Objective, Plan, State, Trace, run_chunk, start
from tggm.training.progress import Observer
from tggm.training.rows import Blocks, RowBlock

_CHUNK_SECONDS = 0.1  # a chunk longer than this is not doubled: it delays progress and interruption
EARLY = 0.6  # fraction of the first cycle; a best epoch before it is early


@dataclass(frozen=True)
class Milestones:
    """Epochs after which training continues only if the held-out score has risen enough.

    After the first cycle training also ends if the best epoch came early: what follows would fit noise. It
    ends between milestones if the held-out scores have fallen far below their best. That is checked at fixed
    epochs, so that the result does not depend on the clock.
    """

    epochs: tuple[int, ...]
    gain: float  # of the mean score, required for the next cycle
    share: float | None = None  # of a log-probability: required gain where it is smaller than `gain`
    fall: float = np.inf  # of the mean score below its best, which ends training
    last: float = 0.0  # gain required for the last cycle, which takes two thirds of the time

    @property
    def every(self) -> int:
        """Return the epochs between checks for a fallen score: a tenth of the first cycle."""
        return self.epochs[0] // 10 or self.epochs[0]

    def reached(self, held: NDArray[np.floating], done: int) -> bool:
        """Return whether training ends here; `held` are the scores of the members after each epoch."""
        if done % self.every == 0 and self._fallen(held):
            return True
        if done not in self.epochs:
            return False
        best = np.fmax.reduce(held, axis=1).mean()
        place = self.epochs.index(done)
        if place == 0:
            early = 1 + np.nan_to_num(held, nan=-np.inf).argmax(1) <= EARLY * done
            return bool(early.mean() > 0.5)
        before = np.fmax.reduce(held[:, : self.epochs[place - 1]], axis=1).mean()
        gain = self.gain if self.share is None else min(self.gain, -self.share * best)
        if place == len(self.epochs) - 1:
            gain = max(gain, self.last)
        return bool(best - before < gain)

    def _fallen(self, held: NDArray[np.floating]) -> bool:
        below = np.fmax.reduce(held, axis=1)[:, None] - held[:, -self.every :]
        return bool(np.nan_to_num(below, nan=0.0).mean() > self.fall)

    def room(self, done: int) -> int:
        """Return the number of epochs to the next milestone or check."""
        ahead = next((epoch - done for epoch in self.epochs if epoch > done), self.every)
        return min(ahead, self.every - done % self.every)


@dataclass(frozen=True)
class Program:
    """How to train: what is compiled, its numbers, and when to end."""

    plan: Plan
    hyper: Hyper  # its patience is counted in blocks
    max_epochs: int
    seed: int = 0
    objective: Objective = LogDensity()  # noqa: RUF009  # immutable
    milestones: Milestones | None = None
    budget: float | None = None  # seconds, counted from the end of the first chunk, which compiles
    checkpoint: Any = None  # file in which the state is stored
    settings: Mapping[str, Any] | None = None  # identify the fit in a checkpoint


@dataclass(frozen=True)
class Trained:
    """The best parameters, the state to continue from, and the history."""

    state: State
    params: Tree  # best parameters, with a leading axis of members
    train: NDArray[np.floating]  # (members, epochs) mean objective in each epoch
    held: NDArray[np.floating]  # (members, epochs) mean score of held-out rows after it
    best_epoch: NDArray[np.int32]  # (members,)
    undone: NDArray[np.int32]  # (members,) undone steps
    failed: NDArray[np.bool_]  # (members,) whether training was given up
    interrupted: bool
    stopped_early: bool


def train(
    params: Tree,
    blocks: Blocks,
    program: Program,
    observer: Observer | None = None,
    state: State | None = None,
) -> Trained:
    """Train until the planned end, the patience of all members, or a milestone that ends training.

    KeyboardInterrupt ends training with the best parameters so far. Pass the `state` of an earlier result to
    continue from it: the result does not depend on where training was cut. With `program.checkpoint` the
    state is stored every few seconds, and an unfinished fit with the same settings and rows is resumed.
    Histories and `best_epoch` of the result are counted in passes over the rows.
    """
    with precision(str(np.asarray(program.hyper.clip).dtype)):
        return _train(params, blocks, program, observer, state)


def _train(
    params: Tree, blocks: Blocks, program: Program, observer: Observer | None, state: State | None
) -> Trained:
    plan, hyper, milestones = program.plan, program.hyper, program.milestones
    if observer is not None:
        observer.planned(program.max_epochs)
    if state is None:
        seeds = np.random.default_rng(program.seed).integers(0, 2**32, len(hyper.clip), np.uint32)
        state = start(plan, params, seeds)
    file = _checkpoint_file(program, params, blocks, state, observer)
    resume = None if file is None else file.read()
    traces: list[Trace] = []
    done, interrupted, n = 0, False, 1
    if resume is not None:
        state, done = resume.state, resume.train.shape[1]
        traces.append(Trace(resume.train, resume.held))  # type: ignore[arg-type]  # NumPy
        if observer is not None:
            observer.resumed(done // blocks.per_pass)
    last = program.max_epochs * blocks.per_pass
    room = milestones.room if milestones is not None else lambda _: last
    batch = min(plan.batch_size, blocks.batch_limit)
    deadline = np.inf
    ended = _ended(milestones, traces, done, blocks.per_pass)
    with _workers(len(state.seed)) as workers:

        def prepare(block: RowBlock) -> Any:
            decay = hyper.weight_decay * np.asarray(block.share, np.asarray(hyper.clip).dtype)
            each = (block.members, hyper._replace(weight_decay=decay))
            steps = -(-int(np.max(block.members.n_train)) // batch)
            return *jax.device_put((each, (block.data, block.weight))), np.int32(steps)

        with closing(blocks.coming(done, program.max_epochs, prepare)) as coming:
            while not (done >= last or interrupted or ended or stalled(state, hyper) or failed(state)):
                clock = time.perf_counter()
                n = min(n, last - done, room(done // blocks.per_pass) * blocks.per_pass)
                if observer is not None:
                    n = min(n, observer.room(done // blocks.per_pass) * blocks.per_pass)
                try:
                    each, shared, steps = next(coming)
                    later, trace = workers.run(
                        plan, program.objective, state, each, shared, np.int32(n), steps
                    )
                    traces.append(jax.tree.map(lambda a, n=n: np.asarray(a)[:, :n], trace))
                    state, done = later, done + n
                    if observer is not None and done % blocks.per_pass == 0:
                        observer.progressed(done // blocks.per_pass, traces[-1])
                    if file is not None:
                        file.keep(_checkpoint(state, traces))
                    ended = _ended(milestones, traces, done, blocks.per_pass)
                    if observer is not None and done % blocks.per_pass == 0:
                        observer.examined(done // blocks.per_pass, state.best)
                    if program.budget is not None:
                        deadline = min(deadline, time.perf_counter() + program.budget)
                        ended |= time.perf_counter() > deadline
                except KeyboardInterrupt:
                    interrupted = True
                if time.perf_counter() - clock < _CHUNK_SECONDS:
                    n = min(2 * n, plan.capacity)
    if observer is not None:
        observer.ended()
    if file is not None:
        file.write(finished=not interrupted)
    result = _result(plan, state, hyper, traces, interrupted)
    return _by_pass(replace(result, stopped_early=result.stopped_early or ended), blocks.per_pass)


def _checkpoint_file(
    program: Program, params: Tree, blocks: Blocks, state: State, observer: Observer | None
) -> CheckpointFile | None:
    if program.checkpoint is None:
        return None
    fit = identity(program.settings or {}, (params, blocks.identity))
    return CheckpointFile(program.checkpoint, fit, state, observer or Observer())


def _ended(milestones: Milestones | None, traces: list[Trace], done: int, per_pass: int) -> bool:
    if milestones is None or not done or done % per_pass:
        return False
    held = np.concatenate([t.held for t in traces], axis=1)[:, per_pass - 1 :: per_pass]
    return milestones.reached(held, done // per_pass)


def failed(state: State) -> bool:
    """Return whether no member can continue."""
    return bool(np.all(np.asarray(state.failures) >= FAILURES))


def stalled(state: State, hyper: Hyper) -> bool:
    """Return whether every member's patience is used up."""
    return bool(np.all(np.asarray(state.epoch) - np.asarray(state.best_epoch) > np.asarray(hyper.patience)))


def _checkpoint(state: State, traces: list[Trace]) -> Checkpoint:
    history = (np.concatenate([getattr(t, name) for t in traces], axis=1) for name in Trace._fields)
    return Checkpoint(jax.tree.map(np.asarray, state), *history)


def _result(plan: Plan, state: State, hyper: Hyper, traces: list[Trace], interrupted: bool) -> Trained:
    none: Any = np.zeros((len(state.seed), 0))
    best = np.asarray(state.best_epoch)
    stopped = stalled(state, hyper)
    # epochs after the one in which the last patience ended depend on the size of chunks: leave them out
    end = int(np.max(best + np.asarray(hyper.patience))) + 1 if stopped else None
    return Trained(
        state=state,
        params=plan.layout.split_members(state.best),
        train=np.concatenate([t.train for t in traces] or [none], axis=1)[:, :end],
        held=np.concatenate([t.held for t in traces] or [none], axis=1)[:, :end],
        best_epoch=best,
        undone=np.asarray(state.undone),
        failed=np.asarray(state.failures) >= FAILURES,
        interrupted=interrupted,
        stopped_early=stopped,
    )


def _by_pass(result: Trained, per_pass: int) -> Trained:
    """Convert histories to one entry per pass: the mean objective of its blocks, the last score."""
    if per_pass == 1:
        return result

    def passes(history: Any, of: Callable[[Any], Any]) -> Any:
        parts = [history[:, k : k + per_pass] for k in range(0, history.shape[1], per_pass)]
        return np.stack([of(part) for part in parts], axis=1) if parts else history

    return replace(
        result,
        train=passes(result.train, lambda part: part.mean(1)),
        held=passes(result.held, lambda part: part[:, -1]),
        best_epoch=result.best_epoch // per_pass,
    )


def n_cores() -> int:
    """Return the number of CPU cores that this process may use; 1 if an accelerator computes."""
    if jax.default_backend() != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def group_size(n_members: int, cores: int) -> int:
    """Return the size of each of at most `cores` equal groups; the last group is padded."""
    return -(-n_members // max(1, min(n_members, cores)))


class _Workers:
    """Runs chunks of epochs, with groups of members in parallel threads."""

    def __init__(self, pool: ThreadPoolExecutor | None, size: int) -> None:
        self._pool, self._size, self._ready, self._factorises = pool, size, False, False
        self._double = bool(jax.config.read("jax_enable_x64"))  # a setting of the calling thread

    def run(
        self, plan: Plan, objective: Objective, state: State, each: Any, shared: Any, *counts: Any
    ) -> tuple[State, Trace]:
        """Call `run_chunk`: `each` is (members, hyper), `shared` (data, weight), `counts` the rest."""
        if not self._ready:
            self._prepare(plan, objective, self._part(0, state, each), shared, counts)
        if self._pool is None:
            whole: tuple[State, Trace]
            with blas_lock(self._factorises):
                whole = self._run(run_chunk, plan, objective, (state, *each), shared, counts)
            return whole

        def one(k: int) -> Any:
            return self._run(run_chunk, plan, objective, self._part(k, state, each), shared, counts)

        n_members = len(state.seed)
        groups = list(self._pool.map(one, range(-(-n_members // self._size))))
        joined: tuple[State, Trace] = jax.tree.map(lambda *parts: np.concatenate(parts)[:n_members], *groups)
        return joined

    def _part(self, k: int, state: State, each: Any) -> Any:
        """Return the arrays of group `k`; the last group is padded by repeating members."""
        share = np.arange(k * self._size, (k + 1) * self._size) % len(state.seed)
        return jax.tree.map(lambda a: np.asarray(a)[share], (state, *each))

    def _run(self, call: Any, plan: Plan, objective: Objective, part: Any, shared: Any, counts: Any) -> Any:
        # accelerators would round the factors of a product to 10 bits
        with jax.enable_x64(self._double), jax.default_matmul_precision("highest"):
            return jax.block_until_ready(call(plan, objective, *part, *shared, *counts))

    def _prepare(self, plan: Plan, objective: Objective, part: Any, shared: Any, counts: Any) -> None:
        """Check whether threads may run the program, and compile it before they start."""
        self._ready = True
        traced = self._run(run_chunk.trace, plan, objective, part, shared, counts)
        self._factorises = factorises(traced.jaxpr.jaxpr)
        if self._factorises:
            self._pool = None
        elif self._pool is not None:
            self._run(run_chunk, plan, objective, part, shared, (np.int32(0), counts[1]))


@contextmanager
def _workers(n_members: int) -> Iterator[_Workers]:
    size = group_size(n_members, n_cores())
    if size == n_members:
        yield _Workers(None, n_members)
        return
    pool = ThreadPoolExecutor(-(-n_members // size), thread_name_prefix="tggm-train")
    try:
        yield _Workers(pool, size)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interrupted chunk ends by itself
