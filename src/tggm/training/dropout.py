"""Inputs left out at random while training: no weight may rely on one of them alone."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from tggm.training.rows import GOLDEN, scatter


def thinned(X: Any, rows: Array, seed: Array, step: Array, rate: Array) -> Any:
    """Inputs of which a part `rate` is 0 and the others are larger, to make up for it.

    What is left out depends on seed, step, row of the table and column, not on the device that has the row.
    """
    start = scatter(seed ^ scatter(step.astype(jnp.uint32) + jnp.uint32(0x3C6EF372)))
    row = scatter(start ^ scatter(rows.astype(jnp.uint32)))

    def thin(values: Array) -> Array:
        if not jnp.issubdtype(values.dtype, jnp.floating):  # which columns a sparse row has
            return values
        column = jnp.arange(values.shape[1], dtype=jnp.uint32) * GOLDEN
        uniform = (scatter(row[:, None] + column[None, :]) >> 8).astype(values.dtype) * 2.0**-24
        return jnp.where(uniform < rate, 0.0, values / (1 - rate))

    return jax.tree.map(thin, X)
