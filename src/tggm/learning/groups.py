"""Members dealt to the cores of a CPU.

A compiled training loop keeps little more than one core busy: its arrays are too small to be worth cutting.
Members of an ensemble need nothing from each other, so groups of them run the same program side by side, each
in a thread of its own. Accelerators take all members at once.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from tggm.learning.loop import Plan, State, Trace, run_chunk
from tggm.learning.objectives import Objective


def n_groups(n_members: int, cores: int) -> int:
    """Groups of equal size, at most one a core: equal, so that one program serves all."""
    return max(k for k in range(1, max(1, min(n_members, cores)) + 1) if n_members % k == 0)


def _cores() -> int:
    if jax.default_backend() != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Crew:
    """Runs chunks of epochs, the members in as many groups as there are workers."""

    def __init__(self, pool: ThreadPoolExecutor | None, size: int) -> None:
        self._pool = pool
        self._size = size
        self._compiled = False
        self._double = bool(jax.config.read("jax_enable_x64"))  # a setting of the thread that asks

    def run(
        self, plan: Plan, objective: Objective, state: State, each: Any, shared: Any, *counts: Any
    ) -> tuple[State, Trace]:
        """As `run_chunk`: `each` is (members, context, hyper), `shared` (data, weight), `counts` the rest."""

        def one(k: int, *counts: Any) -> Any:
            mine = jax.tree.map(lambda a: np.asarray(a)[k * self._size : (k + 1) * self._size], (state, each))
            # accelerators would round the factors to 10 bits
            with jax.enable_x64(self._double), jax.default_matmul_precision("highest"):
                out = run_chunk(plan, objective, mine[0], *mine[1], *shared, *counts)
                return jax.block_until_ready(out)

        if self._pool is None:
            with jax.default_matmul_precision("highest"):
                whole: tuple[State, Trace] = run_chunk(plan, objective, state, *each, *shared, *counts)
            return whole
        if not self._compiled:  # threads that meet a new program would each trace it
            one(0, np.int32(0), counts[1])
            self._compiled = True
        numbers = range(len(state.seed) // self._size)
        groups = list(self._pool.map(lambda k: one(k, *counts), numbers))
        joined: tuple[State, Trace] = jax.tree.map(lambda *parts: np.concatenate(parts), *groups)
        return joined


@contextmanager
def crew(n_members: int) -> Iterator[Crew]:
    """The workers for so many members; their threads end with the block."""
    groups = n_groups(n_members, _cores())
    if groups == 1:
        yield Crew(None, n_members)
        return
    pool = ThreadPoolExecutor(groups, thread_name_prefix="tggm-train")
    try:
        yield Crew(pool, n_members // groups)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interrupted chunk ends by itself
