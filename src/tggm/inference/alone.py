"""Programs that factorise matrices run one at a time on a CPU.

Two of JAX's batched factorisations that run at the same time in two threads may each wait for the other's
share of the thread pool for ever (jaxlib 0.10). Whoever runs one, and may be called from several threads,
runs it inside `alone` and waits for its result there.

Inside, LAPACK uses one thread: a batch is many small matrices, and waking the threads of OpenBLAS for each of
them costs several times what they save (from 32 rows on).
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax

_LOCK = threading.RLock()


@cache
def _libraries() -> Any:
    """The BLAS that this process has loaded, to which JAX hands factorisations."""
    from threadpoolctl import ThreadpoolController  # scikit-learn brings it

    return ThreadpoolController()


@contextmanager
def alone(needed: bool = True) -> Iterator[None]:
    """Nobody else is in here, if that is needed."""
    if not needed or jax.default_backend() != "cpu":
        yield
        return
    with _LOCK, _libraries().limit(limits=1, user_api="blas"):
        yield
