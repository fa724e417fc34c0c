"""Programs that factorise matrices run one at a time on a CPU.

Two of JAX's batched factorisations that run at the same time in two threads may each wait for the other's
share of the thread pool for ever (jaxlib 0.10). Whoever runs one, and may be called from several threads,
runs it inside `alone` and waits for its result there.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import jax

_LOCK = threading.RLock()


@contextmanager
def alone(needed: bool = True) -> Iterator[None]:
    """Nobody else is in here, if that is needed."""
    if not needed or jax.default_backend() != "cpu":
        yield
        return
    with _LOCK:
        yield
