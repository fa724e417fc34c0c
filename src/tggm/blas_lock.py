"""Programs that factorise matrices run one at a time on a CPU.

Two of JAX's batched factorisations that run at the same time may each wait for the other's share of the
thread pool for ever (jaxlib 0.10): in two threads, or in one program where neither needs the other's result.
This module is all that the package knows of it:

- `blas_lock`: whoever runs such a program, and may be called from several threads, does so inside it and
  waits for the result there;
- `factorises`: whether a program is of that kind;
- `sequenced`: makes one part of a program wait for another.

Inside the lock LAPACK uses one thread: a batch is many small matrices, and waking the threads of OpenBLAS for
each of them costs several times what they save (from 32 rows on).
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
# what JAX hands to LAPACK
_FACTORISATIONS = {"cholesky", "triangular_solve", "lu", "geqrf", "householder_product", "eigh", "eig", "svd"}


@cache
def _libraries() -> Any:
    """The BLAS that this process has loaded, to which JAX hands factorisations."""
    from threadpoolctl import ThreadpoolController  # scikit-learn brings it

    return ThreadpoolController()


@contextmanager
def blas_lock(needed: bool = True) -> Iterator[None]:
    """Nobody else is in here, if that is needed."""
    if not needed or jax.default_backend() != "cpu":
        yield
        return
    with _LOCK, _libraries().limit(limits=1, user_api="blas"):
        yield


def factorises(jaxpr: Any) -> bool:
    """Whether a traced program contains a factorisation or a triangular solve, at any depth."""
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
    """The same floating arrays, computed with once `after` is known; gradients do not pass to `after`.

    Adds zero times the sum of `after`, which no compiler takes for nothing: the sum might be infinite.
    """
    zero = 0.0 * jnp.nan_to_num(lax.stop_gradient(after)).sum()

    def wait(a: Array) -> Array:
        return a + zero.astype(a.dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a

    waiting: T = jax.tree.map(wait, tree)
    return waiting
