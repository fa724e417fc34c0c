"""Which fit a checkpoint belongs to: a digest of settings, starting point and data.

An optimiser that is an object is told from others by what it does: its first updates for a few gradients.
Called twice, ``optax.sgd(0.1)`` gives two objects with one identity; ``optax.sgd(0.2)`` has another.
"""

import hashlib
import json
from collections.abc import Mapping
from numbers import Real
from typing import Any

import jax
import numpy as np

from tggm.arrays import Tree

_PROBES = 3  # updates that are looked at


def identity(settings: Mapping[str, Any], arrays: Any) -> str:
    """A digest of what a fit is: its settings and a pytree of all arrays it begins with."""
    words = json.dumps(settings, sort_keys=True, default=_word)
    return _digest(words, jax.tree.leaves(arrays))


def _word(value: Any) -> Any:
    return float(value) if isinstance(value, Real) else type(value).__qualname__


def _digest(words: str, arrays: Any) -> str:
    digest = hashlib.sha256(words.encode())
    for leaf in map(np.asarray, arrays):
        digest.update(f"{leaf.dtype}{leaf.shape}".encode())
        digest.update(np.ascontiguousarray(leaf).data)
    return digest.hexdigest()


def optimiser_identity(optimizer: Any, params: Tree, *, required: bool) -> str:
    """A name of this optimiser, or a digest of what an object does to such parameters.

    Parameters
    ----------
    optimizer : str or optax.GradientTransformation
    params : pytree of arrays
        With a leading axis of members.
    required : bool
        Whether an optimiser that cannot be tried is an error; else its type has to do.
    """
    if isinstance(optimizer, str):
        return optimizer
    try:
        return _digest("", _updates(optimizer, jax.tree.map(lambda a: a[0], params)))
    except Exception as error:  # whatever an optimiser of somebody else's may raise
        if not required:
            return type(optimizer).__qualname__
        raise ValueError(
            f"`checkpoint` cannot be used with optimizer={optimizer!r}: it cannot be told from one that "
            f"computes something else ({type(error).__name__}: {error}). Pass checkpoint=None, or a name, as "
            "optimizer='adam'."
        ) from error


def _updates(optimizer: Any, params: Tree) -> list[Any]:
    """What it makes of a few gradients."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # optax relies on both
        state, found = optimizer.init(params), []
        for k in range(_PROBES):
            gradient = jax.tree.map(lambda a, k=k: np.full_like(a, 0.5**k), params)
            update, state = optimizer.update(gradient, state, params)
            found += jax.tree.leaves(update)
    return found
