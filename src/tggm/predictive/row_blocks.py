"""Many rows, predicted in blocks on all cores.

A block's arrays stay in a core's cache, and in memory that the process keeps: larger ones are mapped anew for
every block, which takes as long as the arithmetic. One core works on a block; several blocks share the cores.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import jax
import numpy as np

from tggm.models import Model
from tggm.training.parallel.crew import n_cores

NUMBERS = 2**18  # of the widest array of all members in a block of rows
LEAST, MOST = 64, 2048  # rows of a block
ON_DEVICE = 16  # times as many of both where an accelerator computes: it has no cache to fit, but calls cost

T = TypeVar("T")


def block_size(members: Model) -> int:
    """Rows that are predicted at once."""
    shapes = {name: np.shape(a) for name, a in members.arrays().items()}
    K, n, m = shapes["likelihood.output.W1"]
    units = [shape[1] for name, shape in shapes.items() if name.startswith("hidden.W")]
    psi = shapes["hidden.W0"][2] if jax.tree.leaves(members.features) else 1  # inputs are shared by members
    widest = max(psi, n * m // 4, *units)  # of n × m a few, of the others a dozen are needed at a time
    times = 1 if jax.default_backend() == "cpu" else ON_DEVICE
    fitting = max(1, times * NUMBERS // (K * widest))
    return int(np.clip(2 ** int(np.log2(fitting)), LEAST, times * MOST))


def over_blocks(function: Callable[[slice], T], rows: int, size: int, *, alone: bool) -> list[T]:
    """What a function gives for each block of rows, in order; in the thread that asks if `alone`.

    Threads have the precision of the caller.
    """
    double = bool(jax.config.read("jax_enable_x64"))

    def one(begin: int) -> T:
        with jax.enable_x64(double):
            return function(slice(begin, begin + size))

    places = range(0, max(rows, 1), size)
    threads = 1 if alone else min(n_cores(), len(places))
    if threads == 1:
        return [one(begin) for begin in places]
    first = one(places[0])  # compiles, once for all
    with ThreadPoolExecutor(threads, thread_name_prefix="tggm-predict") as pool:
        return [first, *pool.map(one, places[1:])]
