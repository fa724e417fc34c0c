"""From a plan to fitted parameters: blocks of rows, chunks of epochs, progress, patience, interruption."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Tree
from tggm.training.loop import FAILURES
from tggm.training.observer import Observer
from tggm.training.parallel.crew import crew
from tggm.training.parallel.processes import agreed
from tggm.training.rows import Blocks, RowBlock
from tggm.training.state import Hyper, Objective, Plan, State, Trace, start

_CHUNK_SECONDS = 0.1  # progress, interruption and patience wait no longer than about twice this


@dataclass(frozen=True)
class Training:
    """Result of `train`: the state to go on from, the best parameters, and what happened."""

    state: State
    params: Tree  # best parameters, a leading axis of members
    train: NDArray[np.floating]  # (members, epochs) mean objective in each epoch
    held: NDArray[np.floating]  # (members, epochs) mean score of held-out rows after it
    best_epoch: NDArray[np.int32]  # (members,)
    undone: NDArray[np.int32]  # (members,) steps taken back
    failed: NDArray[np.bool_]  # (members,) whether so many in a row were that training was given up
    interrupted: bool
    stopped_early: bool

    def part(self, members: slice) -> "Training":
        """What belongs to some of the members."""
        fields = ("state", "params", "train", "held", "best_epoch", "undone", "failed")
        cut = {name: jax.tree.map(lambda a: np.asarray(a)[members], getattr(self, name)) for name in fields}
        return replace(self, **cut)


@dataclass(frozen=True)
class Milestones:
    """Epochs after which training goes on only if the held-out score has risen enough since the last.

    After the first it also ends if its best epoch came early: what follows would fit noise. It ends between
    them, too, when members have fallen far below their best scores: no later cycle brings them back. That is
    looked at every so many epochs, whatever the size of chunks, so that it never depends on the clock.
    """

    epochs: tuple[int, ...]
    gain: float  # of the mean score that the next cycle, three times as long, is worth
    share: float | None = None  # of a log-probability, where it is near 0 and can gain no more than itself
    fall: float = np.inf  # of the mean score, from which on members are lost
    last: float = 0.0  # gain that the last cycle is worth, twice as long as all before it

    @property
    def every(self) -> int:
        """Epochs between looks at what has fallen: a tenth of the first cycle, all of a short one."""
        return self.epochs[0] // 10 or self.epochs[0]

    def reached(self, held: NDArray[np.floating], done: int) -> bool:
        """Whether training ends here; `held` are the scores of members after each epoch so far."""
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
        """Epochs to the next of them, or to the next look."""
        ahead = next((epoch - done for epoch in self.epochs if epoch > done), self.every)
        return min(ahead, self.every - done % self.every)


EARLY = 0.6  # part of the first cycle within which a best epoch is early


@dataclass(frozen=True)
class Checkpoint:
    """All that `train` needs to go on from where it was cut, as NumPy arrays."""

    state: State
    train: NDArray[np.floating]  # (members, epochs so far), or blocks
    held: NDArray[np.floating]


def train(
    plan: Plan,
    objective: Objective,
    params: Tree,
    blocks: Blocks,
    hyper: Hyper,
    *,
    max_epochs: int,
    seed: int = 0,
    view: Any = None,
    state: State | None = None,
    observer: Observer | None = None,
    milestones: Milestones | None = None,
    budget: float | None = None,
    resume: Checkpoint | None = None,
    keep: Callable[[Checkpoint], None] | None = None,
) -> Training:
    """Run the loop to the end, until every member's patience is spent, or to a milestone that says so.

    KeyboardInterrupt ends training with the best parameters so far. Pass the `state` of an earlier result to
    go on from it: the result does not depend on where training was cut. `keep` is handed a checkpoint after
    every chunk; `resume` goes on from one, counting its epochs as done: it may be of any block, the pass it
    belongs to is read again up to there. No chunk begins when the `budget` of seconds is spent, which are
    counted from the end of the first: that compiles. The patience of `hyper` is counted in blocks, the
    histories and `best_epoch` of the result in passes.
    """
    if resume is not None:
        state = resume.state
    if state is None:
        seeds = np.random.default_rng(seed).integers(0, 2**32, len(hyper.clip), np.uint32)
        state = start(plan, params, seeds)
    traces: list[Trace] = [] if resume is None else [Trace(resume.train, resume.held)]  # type: ignore[arg-type]  # NumPy
    done, interrupted, n = 0 if resume is None else resume.train.shape[1], False, 1
    end = max_epochs * blocks.per_pass
    room = milestones.room if milestones is not None else lambda _: end
    batch = min(plan.batch_size, blocks.batch_limit)
    deadline = np.inf
    ended = _ended(milestones, traces, done, blocks.per_pass)
    with crew(len(state.seed), batch) as workers:

        def prepare(block: RowBlock) -> Any:
            decay = hyper.weight_decay * np.asarray(block.share, np.asarray(hyper.clip).dtype)
            each = (block.members, view, hyper._replace(weight_decay=decay))
            steps = -(-int(np.max(block.members.n_train)) // batch)
            return *workers.place((each, (block.data, block.weight))), np.int32(steps)

        with closing(blocks.coming(done, max_epochs, prepare)) as coming:
            while not (done >= end or interrupted or ended or stalled(state, hyper) or failed(state)):
                clock = time.perf_counter()
                n = min(n, end - done, room(done // blocks.per_pass) * blocks.per_pass)
                if observer is not None:
                    n = min(n, observer.room(done // blocks.per_pass) * blocks.per_pass)
                try:
                    each, shared, steps = next(coming)
                    later, trace = workers.run(plan, objective, state, each, shared, np.int32(n), steps)
                    traces.append(jax.tree.map(lambda a, n=n: np.asarray(a)[:, :n], trace))
                    state, done = later, done + n
                    if observer is not None and done % blocks.per_pass == 0:
                        observer.progressed(done // blocks.per_pass, traces[-1])
                    if keep is not None:
                        keep(_checkpoint(state, traces))
                    ended = _ended(milestones, traces, done, blocks.per_pass)
                    if observer is not None and done % blocks.per_pass == 0:
                        ended |= observer.ends(done // blocks.per_pass, state.best)
                    if budget is not None:
                        deadline = min(deadline, time.perf_counter() + budget)
                        ended |= agreed(time.perf_counter() > deadline)
                except KeyboardInterrupt:
                    interrupted = True
                if agreed(time.perf_counter() - clock < _CHUNK_SECONDS):
                    n = min(2 * n, plan.capacity)
    if observer is not None:
        observer.ended()
    result = _result(plan, state, hyper, traces, interrupted)
    return _of_passes(replace(result, stopped_early=result.stopped_early or ended), blocks.per_pass)


def _ended(milestones: Milestones | None, traces: list[Trace], done: int, per_pass: int) -> bool:
    if milestones is None or not done or done % per_pass:
        return False
    held = np.concatenate([t.held for t in traces], axis=1)[:, per_pass - 1 :: per_pass]
    return milestones.reached(held, done // per_pass)


def failed(state: State) -> bool:
    """Whether no member can go on."""
    return bool(np.all(np.asarray(state.failures) >= FAILURES))


def stalled(state: State, hyper: Hyper) -> bool:
    """Whether every member's patience is spent."""
    return bool(np.all(np.asarray(state.epoch) - np.asarray(state.best_epoch) > np.asarray(hyper.patience)))


def _checkpoint(state: State, traces: list[Trace]) -> Checkpoint:
    history = (np.concatenate([getattr(t, name) for t in traces], axis=1) for name in Trace._fields)
    return Checkpoint(jax.tree.map(np.asarray, state), *history)


def _result(plan: Plan, state: State, hyper: Hyper, traces: list[Trace], interrupted: bool) -> Training:
    none: Any = np.zeros((len(state.seed), 0))
    best = np.asarray(state.best_epoch)
    stopped = stalled(state, hyper)
    # what follows the epoch in which the last member's patience was spent depends on the size of chunks
    end = int(np.max(best + np.asarray(hyper.patience))) + 1 if stopped else None
    return Training(
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


def _of_passes(result: Training, per_pass: int) -> Training:
    """Histories with one entry a pass: the mean objective of its blocks, the score after the last."""
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
