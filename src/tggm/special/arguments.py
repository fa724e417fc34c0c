"""How the public functions read their arguments: one floating dtype, one shape."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike


def evaluate(function: Callable[..., Any], **arguments: ArrayLike) -> Any:
    """Apply an elementwise function to arguments brought to one floating dtype and one shape.

    Integers and booleans follow the floating arguments, or the default float where there are none; 16-bit
    floats are computed in float32 and rounded back.
    """
    values = {name: _read(name, value) for name, value in arguments.items()}
    floats = [x for x in values.values() if jnp.issubdtype(jnp.result_type(x), jnp.floating)]
    dtype = jnp.result_type(*floats) if floats else jnp.result_type(float)
    work = dtype if dtype.itemsize >= 4 else np.dtype("float32")
    arrays = jnp.broadcast_arrays(*(jnp.asarray(x, work) for x in values.values()))
    return jax.tree.map(lambda y: y.astype(dtype), function(*arrays))


def _read(name: str, value: Any) -> ArrayLike:
    value = np.asarray(value) if isinstance(value, list | tuple) else value
    dtype = jnp.result_type(value)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise TypeError(f"`{name}` must be real, got dtype {dtype}; pass its real part.")
    result: ArrayLike = value
    return result


def positive(x: Array) -> Array:
    """X where it is positive, NaN elsewhere."""
    return jnp.where(x > 0, x, jnp.nan)
