"""Members dealt to the cores of a CPU.

A compiled training loop keeps little more than one core busy: its arrays are too small to be worth cutting.
Members of an ensemble need nothing from each other, so groups of them run the same program side by side, each
in a thread of its own. Accelerators take all members at once; so do several devices, which cut the
mini-batches instead (`devices`).

So does a CPU where the program factorises matrices: two of JAX's batched factorisations that run at the same
time may each wait for the other's share of the thread pool for ever (jaxlib 0.10). For the same reason one
process then uses only one of several virtual devices of a CPU.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from tggm.inference.blas_lock import blas_lock, factorises
from tggm.training.loop import run_chunk
from tggm.training.parallel.devices import Mates, devices_for, one_each
from tggm.training.state import Objective, Plan, State, Trace


def n_groups(n_members: int, cores: int) -> int:
    """Groups of equal size, at most one a core: equal, so that one program serves all."""
    return max(k for k in range(1, max(1, min(n_members, cores)) + 1) if n_members % k == 0)


def _cores() -> int:
    if jax.default_backend() != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Crew:
    """Runs chunks of epochs, the members in as many groups as there are workers, or on several devices."""

    def __init__(self, pool: ThreadPoolExecutor | None, size: int, mates: Mates | None = None) -> None:
        self._pool, self._size, self._mates = pool, size, mates
        self._ready = self._factorises = False
        self._double = bool(jax.config.read("jax_enable_x64"))  # a setting of the thread that asks

    def place(self, tree: Any) -> Any:
        """Arrays that several chunks need, where those run."""
        return jax.device_put(tree) if self._mates is None else self._mates.place(tree)

    def run(
        self, plan: Plan, objective: Objective, state: State, each: Any, shared: Any, *counts: Any
    ) -> tuple[State, Trace]:
        """As `run_chunk`: `each` is (members, view, hyper), `shared` (data, weight), `counts` the rest."""
        if not self._ready:
            self._prepare(plan, objective, self._part(0, state, each), shared, counts)
        if self._pool is None:
            whole: tuple[State, Trace]
            call = run_chunk if self._mates is None else self._mates.run
            with blas_lock(self._factorises):
                whole = self._run(call, plan, objective, (state, *each), shared, counts)
            return whole

        def one(k: int) -> Any:
            return self._run(run_chunk, plan, objective, self._part(k, state, each), shared, counts)

        groups = list(self._pool.map(one, range(len(state.seed) // self._size)))
        joined: tuple[State, Trace] = jax.tree.map(lambda *parts: np.concatenate(parts), *groups)
        return joined

    def _part(self, k: int, state: State, each: Any) -> Any:
        share = slice(k * self._size, (k + 1) * self._size)
        return jax.tree.map(lambda a: np.asarray(a)[share], (state, *each))

    def _run(self, call: Any, plan: Plan, objective: Objective, part: Any, shared: Any, counts: Any) -> Any:
        # accelerators would round the factors of a product to 10 bits
        with jax.enable_x64(self._double), jax.default_matmul_precision("highest"):
            return jax.block_until_ready(call(plan, objective, *part, *shared, *counts))

    def _prepare(self, plan: Plan, objective: Objective, part: Any, shared: Any, counts: Any) -> None:
        """See whether threads may run the program; compile it before they do: each of them would."""
        self._ready = True
        if self._mates is not None and not self._mates.threads():
            return
        traced = self._run(run_chunk.trace, plan, objective, part, shared, counts)
        self._factorises = factorises(traced.jaxpr.jaxpr)
        if self._factorises and self._mates is not None:
            self._mates.use(one_each(self._mates.devices))
        elif self._factorises:
            self._pool = None
        elif self._pool is not None:
            self._run(run_chunk, plan, objective, part, shared, (np.int32(0), counts[1]))


@contextmanager
def crew(n_members: int, batch_size: int) -> Iterator[Crew]:
    """The workers for so many members and rows in a mini-batch; their threads end with the block."""
    devices = devices_for(n_members * batch_size)
    groups = 1 if devices else n_groups(n_members, _cores())
    if groups == 1:
        yield Crew(None, n_members, Mates(devices) if devices else None)
        return
    pool = ThreadPoolExecutor(groups, thread_name_prefix="tggm-train")
    try:
        yield Crew(pool, n_members // groups)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interrupted chunk ends by itself
