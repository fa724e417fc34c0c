"""A new order of the rows for every epoch, inside a compiled program."""

import jax.numpy as jnp
import numpy as np
from jax import Array

GOLDEN = np.uint32(0x9E3779B9)  # an odd number whose multiples spread evenly


def scatter(h: Array) -> Array:
    """A bijection of the 32-bit integers that looks random (the finaliser of MurmurHash3)."""
    h = (h ^ (h >> 16)) * jnp.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * jnp.uint32(0xC2B2AE35)
    return h ^ (h >> 16)


def shuffled(rows: Array, count: Array, seed: Array, epoch: Array) -> Array:
    """The first `count` rows in an order that depends on seed and epoch, the padding behind them.

    Sorting hashes of positions compiles much faster than a general random generator, and mini-batches need
    no better one.
    """
    position = jnp.arange(rows.shape[0], dtype=jnp.uint32)
    start = scatter(seed ^ scatter(epoch.astype(jnp.uint32) + GOLDEN))
    noise = scatter(start + position * GOLDEN) >> 1
    return rows[jnp.argsort(jnp.where(position < count.astype(jnp.uint32), noise, jnp.uint32(2**31)))]
