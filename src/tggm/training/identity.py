"""Which fit a checkpoint belongs to: a digest of settings, starting point and data.

An optimiser that is an object is told from others by what it computes: the text of its traced program, and
the constants in it. Called twice, ``optax.sgd(0.1)`` gives two objects with one identity; ``optax.sgd(0.2)``
has another.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

import jax
import numpy as np
from jax.extend import core

# a Python function, into which a traced program only calls
_OPAQUE = re.compile(r"callback\[|\b0x[0-9a-fA-FX]+")


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


def optimiser_identity(optimizer: Any, params: Any, *, required: bool) -> str:
    """A name of this optimiser, or a digest of what an object computes for such parameters.

    Parameters
    ----------
    optimizer : str or optax.GradientTransformation
    params : pytree of arrays
        With a leading axis of members.
    required : bool
        Whether an optimiser that cannot be looked into is an error; else its type has to do.
    """
    if isinstance(optimizer, str):
        return optimizer
    try:
        return _computed(optimizer, jax.tree.map(lambda a: a[0], params))
    except Exception as error:  # whatever an optimiser of somebody else's may raise
        if not required:
            return type(optimizer).__qualname__
        raise ValueError(
            f"`checkpoint` cannot be used with optimizer={optimizer!r}: it cannot be told from one that "
            f"computes something else ({type(error).__name__}: {error}). Pass checkpoint=None, or a name, as "
            "optimizer='adam'."
        ) from error


def _computed(optimizer: Any, params: Any) -> str:
    """A digest of the programs that make and update the optimiser's state."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # optax relies on both
        init, state = jax.make_jaxpr(optimizer.init, return_shape=True)(params)
        update = jax.make_jaxpr(optimizer.update)(params, state, params)
    text = f"{init}{update}"
    if _OPAQUE.search(text):
        raise ValueError("it calls a Python function")
    return _digest(text, [*_constants(init), *_constants(update)])


def _constants(program: Any) -> Iterator[Any]:
    """Arrays in a traced program and in the programs inside it, whose values its text does not show."""
    if isinstance(program, list | tuple):
        for part in program:
            yield from _constants(part)
    elif isinstance(program, core.ClosedJaxpr):
        yield from program.consts
        yield from _constants(program.jaxpr)
    elif isinstance(program, core.Jaxpr):
        for equation in program.eqns:
            yield from (v.val for v in equation.invars if isinstance(v, core.Literal))
            yield from _constants(list(equation.params.values()))
