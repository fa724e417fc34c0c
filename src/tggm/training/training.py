"""From a plan to fitted parameters: chunks of epochs, progress, patience, interruption."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tggm.training.groups import crew
from tggm.training.loop import FAILURES, Hyper, Membership, Plan, State, Trace, start
from tggm.training.objectives import Objective
from tggm.training.processes import agreed

_CHUNK_SECONDS = 0.1  # progress, interruption and patience wait no longer than about twice this


@dataclass(frozen=True)
class Training:
    """Result of `train`: the state to go on from, the best parameters, and what happened."""

    state: State
    params: Any  # best parameters, a leading axis of members
    train: NDArray[np.floating]  # (members, epochs) mean objective in each epoch
    held: NDArray[np.floating]  # (members, epochs) mean score of held-out rows after it
    best_epoch: NDArray[np.int32]  # (members,)
    undone: NDArray[np.int32]  # (members,) steps taken back
    failed: NDArray[np.bool_]  # (members,) whether so many in a row were that training was given up
    interrupted: bool
    stopped_early: bool


@dataclass(frozen=True)
class Checkpoint:
    """All that `train` needs to go on from where it was cut, as NumPy arrays."""

    state: State
    train: NDArray[np.floating]  # (members, epochs so far)
    held: NDArray[np.floating]  # (members, epochs so far)


def hyper_parameters(
    n_members: int,
    rates: Any,
    dtype: Any,
    *,
    learning_rate: Any = 1e-2,
    weight_decay: Any = 0.0,
    clip: Any = 10.0,
    average: Any = 0.0,
    total_steps: Any = 1,
    patience: Any = np.inf,
    dropout: Any = 0.0,
) -> Hyper:
    """Stack hyper-parameters over members; a scalar serves all. `rates` is a vector, see `Layout.spread`."""

    def stacked(value: Any, shape: tuple[int, ...] = ()) -> Any:
        return np.broadcast_to(np.asarray(value, dtype), (n_members, *shape))

    values = (learning_rate, weight_decay, clip, average, total_steps, patience, dropout)
    return Hyper._make([*map(stacked, values), stacked(rates, np.shape(rates))])


def batch_rows(plan: Plan, members: Membership) -> int:
    """Rows of a mini-batch."""
    return min(plan.batch_size, members.train.shape[1])


def steps_per_epoch(plan: Plan, members: Membership) -> int:
    """Mini-batches that cover the rows of the member that has most of them."""
    B = batch_rows(plan, members)
    return -(-int(np.max(members.n_train)) // B)


def train(
    plan: Plan,
    objective: Objective,
    params: Any,
    members: Membership,
    context: Any,
    hyper: Hyper,
    data: Any,
    weight: Any,
    *,
    max_epochs: int,
    seed: int = 0,
    state: State | None = None,
    report: Callable[[int, Trace], None] | None = None,
    resume: Checkpoint | None = None,
    keep: Callable[[Checkpoint], None] | None = None,
) -> Training:
    """Run the loop to the end, or until every member's patience is spent.

    KeyboardInterrupt ends training with the best parameters so far. Pass the `state` of an earlier result to
    go on from it: the result does not depend on where training was cut. `keep` is handed a checkpoint after
    every chunk; `resume` goes on from one, counting its epochs as done.
    """
    if resume is not None:
        state = resume.state
    if state is None:
        seeds = np.random.default_rng(seed).integers(0, 2**32, members.train.shape[0], np.uint32)
        state = start(plan, params, seeds)
    steps = np.int32(steps_per_epoch(plan, members))
    traces: list[Trace] = [] if resume is None else [Trace(resume.train, resume.held)]  # type: ignore[arg-type]  # NumPy
    done, interrupted, n = sum(t.train.shape[1] for t in traces), False, 1
    with crew(len(state.seed), batch_rows(plan, members)) as workers:
        each, shared = workers.place(((members, context, hyper), (data, weight)))
        while done < max_epochs and not interrupted and not _stalled(state, hyper) and not _failed(state):
            n = min(n, max_epochs - done)
            clock = time.perf_counter()
            try:
                later, trace = workers.run(plan, objective, state, each, shared, np.int32(n), steps)
                traces.append(jax.tree.map(lambda a, n=n: np.asarray(a)[:, :n], trace))
                state, done = later, done + n
                if report is not None:
                    report(done, traces[-1])
                if keep is not None:
                    keep(_checkpoint(state, traces))
            except KeyboardInterrupt:
                interrupted = True
            if agreed(time.perf_counter() - clock < _CHUNK_SECONDS):
                n = min(2 * n, plan.capacity)
    return _result(plan, state, hyper, traces, interrupted)


def _checkpoint(state: State, traces: list[Trace]) -> Checkpoint:
    history = (np.concatenate([getattr(t, name) for t in traces], axis=1) for name in Trace._fields)
    return Checkpoint(jax.tree.map(np.asarray, state), *history)


def _failed(state: State) -> bool:
    """Whether no member can go on."""
    return bool(np.all(np.asarray(state.failures) >= FAILURES))


def _stalled(state: State, hyper: Hyper) -> bool:
    return bool(np.all(np.asarray(state.epoch) - np.asarray(state.best_epoch) > np.asarray(hyper.patience)))


def _result(plan: Plan, state: State, hyper: Hyper, traces: list[Trace], interrupted: bool) -> Training:
    none: Any = np.zeros((len(state.seed), 0))
    best = np.asarray(state.best_epoch)
    stopped = _stalled(state, hyper)
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
