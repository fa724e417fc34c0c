"""Train pairs of members in parallel workers, with joblib.

Each pair stops by its own held-out rows, so that workers exchange nothing but the result. Rows are sent once:
they are pickled with their arrays apart, which joblib maps into the memory of local workers, and sends once
to each worker of a cluster. A worker that has not imported JAX yet gets one thread for it.
"""

import pickle
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.cloudpickle_wrapper import dumps  # cloudpickle, in every version of joblib

from tggm.arrays import Tree
from tggm.training.loop import Layout, Trace, start
from tggm.training.rows import Blocks, RowBlock
from tggm.training.train import Observer, Program, Trained, train

PAIR = 2  # members of a group: the number that must hold out a row to show how much members differ


def train_groups(params: Tree, blocks: Blocks, program: Program, observer: Observer) -> Trained:
    """Train pairs of members in `program.n_jobs` workers, and join the results."""
    if blocks.only is None:
        raise ValueError("`n_jobs` needs rows in memory; a stream is trained with n_jobs=None.")
    if observer.room(0) <= program.max_epochs:
        raise ValueError("`n_jobs` must be None with an `eval_set`, which all members predict during a fit.")
    block, K = blocks.only, len(program.hyper.clip)
    groups = np.array_split(np.arange(K), max(1, K // PAIR))
    seconds = program.deadline
    if seconds is not None:  # workers have other clocks
        share = min(1.0, effective_n_jobs(program.n_jobs) / len(groups))
        seconds = share * (seconds - time.perf_counter())
    state = start(program.plan, params, np.random.default_rng(program.seed).integers(0, 2**32, K, np.uint32))
    buffers: list[pickle.PickleBuffer] = []
    rows = dumps((block.data, block.weight), protocol=5, buffer_callback=buffers.append)
    arrays = [np.frombuffer(each.raw(), np.uint8) for each in buffers]

    def task(k: int, group: Any) -> Any:
        file = None if program.checkpoint is None else f"{program.checkpoint}.{k}"
        plan: Any = program.plan
        plan = plan._replace(layout=None)  # cannot be pickled; made again
        mine = replace(program, plan=plan, n_jobs=None, threads=1, deadline=seconds, checkpoint=file)
        own = jax.tree.map(lambda a: np.asarray(a)[group], (params, state, block.members, program.hyper))
        return delayed(_worker())(dumps((_train_group, (own, mine, blocks.identity))), rows, arrays)

    observer.planned(program.max_epochs, () if program.milestones is None else program.milestones.epochs)
    found: list[Trained] = []
    try:
        work = Parallel(program.n_jobs, return_as="generator")
        for one in work(task(k, group) for k, group in enumerate(groups)):
            if one.interrupted:  # fewer members would be another model
                raise KeyboardInterrupt
            found.append(one)
            observer.progressed(one.train.shape[1], Trace(one.train, one.held))
    except BrokenExecutor as error:
        raise RuntimeError("a worker ended, often for lack of memory; use a smaller `n_jobs`.") from error
    result = _joined(found)
    observer.ended(result.reason)
    return result


def _worker() -> Callable[[bytes, bytes, list[np.ndarray]], Trained]:
    """Return a function without references to this package, whose import would start JAX."""

    def work(task: bytes, rows: bytes, arrays: Any) -> Any:
        import os
        import pickle
        import sys

        if "jax" not in sys.modules:
            os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
        function, given = pickle.loads(task)
        return function(*given, *pickle.loads(rows, buffers=arrays))

    return work


def _train_group(own: Any, program: Program, identity: Any, data: Any, weight: Any) -> Trained:
    params, state, members, hyper = own
    plan = program.plan._replace(layout=Layout.of(params, axes=1))
    blocks = replace(Blocks.of(RowBlock(members, data, weight)), identity=identity)
    deadline = None if program.deadline is None else time.perf_counter() + program.deadline
    return train(params, blocks, replace(program, plan=plan, hyper=hyper, deadline=deadline), state=state)


def _joined(found: list[Trained]) -> Trained:
    """Join members; histories end with NaN where others are longer."""
    passes = max(one.train.shape[1] for one in found)

    def padded(history: Any) -> Any:
        return np.pad(history, [(0, 0), (0, passes - history.shape[1])], constant_values=np.nan)

    def joined(*parts: Any) -> Any:
        return np.concatenate(parts)

    arrays = [(one.state, one.params, one.best_epoch, one.undone, one.failed) for one in found]
    state, params, best, undone, failed = jax.tree.map(joined, *arrays)
    return Trained(
        state=state, params=params, best_epoch=best, undone=undone, failed=failed,
        train=joined(*(padded(one.train) for one in found)),
        held=joined(*(padded(one.held) for one in found)),
        interrupted=any(one.interrupted for one in found),
        reason="; ".join(sorted({one.reason for one in found})),
    )  # fmt: skip
