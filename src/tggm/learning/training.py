"""From a plan to fitted parameters: chunks of epochs, progress, patience, interruption."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tggm.learning.loop import Hyper, Membership, Plan, State, Trace, run_chunk, start
from tggm.learning.objectives import Objective


@dataclass(frozen=True)
class Training:
    """Result of `train`: the state to go on from, the best parameters, and what happened."""

    state: State
    params: Any  # best parameters, a leading axis of members
    train: NDArray[np.floating]  # (members, epochs) mean objective in each epoch
    held: NDArray[np.floating]  # (members, epochs) mean score of held-out rows after it
    best_epoch: NDArray[np.int32]  # (members,)
    undone: NDArray[np.int32]  # (members,) steps taken back
    interrupted: bool
    stopped_early: bool


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
) -> Hyper:
    """Stack hyper-parameters over members; a scalar serves all of them."""

    def spread(value: Any) -> Any:
        return np.broadcast_to(np.asarray(value, dtype), (n_members,))

    return Hyper(
        spread(learning_rate),
        spread(weight_decay),
        spread(clip),
        spread(average),
        spread(total_steps),
        jax.tree.map(spread, rates),
    )


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
    patience: int | None = None,
    state: State | None = None,
    report: Callable[[int, Trace], None] | None = None,
) -> Training:
    """Run the loop to the end, or until no member has improved for `patience` epochs.

    KeyboardInterrupt between chunks ends training with the best parameters so far. Pass the `state` of an earlier
    result to go on from it.
    """
    n_members = members.train.shape[0]
    if state is None:
        keys = jax.random.split(jax.random.key(seed), n_members)
        state = start(plan, params, keys)
    B = min(plan.batch_size, members.train.shape[1])
    steps = np.int32(-(-int(np.max(members.n_train)) // B))
    traces: list[Trace] = []
    done, interrupted, stopped = 0, False, False
    while done < max_epochs and not stopped:
        n = min(plan.capacity, max_epochs - done)
        try:
            with jax.default_matmul_precision("highest"):  # accelerators would round the factors to 10 bits
                state, trace = run_chunk(
                    plan, objective, state, members, context, hyper, data, weight, np.int32(n), steps
                )
            trace = jax.tree.map(lambda a, n=n: np.asarray(a)[:, :n], trace)
        except KeyboardInterrupt:
            interrupted = True
            break
        traces.append(trace)
        done += n
        if report is not None:
            report(done, trace)
        if patience is not None:
            stopped = bool(np.all(np.asarray(state.epoch - state.best_epoch) > patience))
    return Training(
        state=state,
        params=jax.tree.map(np.asarray, state.best),
        train=np.concatenate([t.train for t in traces], axis=1),
        held=np.concatenate([t.held for t in traces], axis=1),
        best_epoch=np.asarray(state.best_epoch),
        undone=np.asarray(state.undone),
        interrupted=interrupted,
        stopped_early=stopped,
    )
