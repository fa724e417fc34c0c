"""Run programs that factorise matrices one at a time on a CPU.

Two batched factorisations of JAX that run at the same time may deadlock on the thread pool (jaxlib 0.10): in
two threads, or in one program with independent factorisations. The workaround:

- `blas_lock`: code that may run in several threads runs such a program, and waits for its result, inside it;
- `factorises`: detects such programs;
- `sequenced`: makes one part of a program wait for another.

Inside the lock LAPACK uses one thread: a batch has many small matrices, and starting the threads of OpenBLAS
for each of them costs several times what they save (from 32 rows on).
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

T = TypeVar("T")

_LOCK = threading.RLock()
# primitives that call LAPACK
_FACTORISATIONS = {"cholesky", "triangular_solve", "lu", "geqrf", "householder_product", "eigh", "eig", "svd"}


@cache
def _libraries() -> Any:
    """Return the BLAS libraries of this process."""
    from threadpoolctl import ThreadpoolController  # a dependency of scikit-learn

    return ThreadpoolController()


@contextmanager
def blas_lock(needed: bool = True) -> Iterator[None]:
    """Hold the lock, with one BLAS thread, if `needed` and on a CPU."""
    if not needed or jax.default_backend() != "cpu":
        yield
        return
    with _LOCK, _libraries().limit(limits=1, user_api="blas"):
        yield


def factorises(jaxpr: Any) -> bool:
    """Return whether a traced program contains a factorisation or a triangular solve, at any depth."""
    todo, seen = [jaxpr], set()
    while todo:
        eqns = getattr(todo.pop(), "eqns", ())
        for eqn in eqns:
            if eqn.primitive.name in _FACTORISATIONS:
                return True
            for inner in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda p: hasattr(p, "eqns")):
                if hasattr(inner, "eqns") and id(inner) not in seen:
                    seen.add(id(inner))
                    todo.append(inner)
    return False


def sequenced(tree: T, after: Array) -> T:
    """Make the floating arrays of a tree depend on `after`; gradients do not pass to `after`.

    Adds zero times the sum of `after`, which the compiler cannot remove because the sum might be infinite.
    """
    zero = 0.0 * jnp.nan_to_num(lax.stop_gradient(after)).sum()

    def wait(a: Array) -> Array:
        return a + zero.astype(a.dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a

    waiting: T = jax.tree.map(wait, tree)
    return waiting
