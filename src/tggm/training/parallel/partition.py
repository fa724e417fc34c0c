"""Rows of a mini-batch cut over devices: each takes its share, and sums over rows are added up over all.

Inside a program that `jax.shard_map` runs on every device (see `devices`), a device knows its number along
`AXIS`. The parameters are the same on all of them, and stay so: all add the same sums. With one share nothing
here adds anything to a program.
"""

import jax.numpy as jnp
from jax import Array, lax

AXIS = "rows"


def share(size: int, shares: int) -> Array:
    """Places of a device's own rows among `size`; from `size` on they are padding."""
    if shares == 1:
        return jnp.arange(size, dtype=jnp.int32)
    length = -(-size // shares)
    first: Array = lax.axis_index(AXIS) * length
    return first.astype(jnp.int32) + jnp.arange(length, dtype=jnp.int32)


def added_up(shares: int, *sums: Array) -> tuple[Array, ...]:
    """Scalars and vectors added up over all devices, in one exchange."""
    if shares == 1:
        return sums
    cuts = [0]
    for part in sums:
        cuts.append(cuts[-1] + part.size)
    whole = lax.psum(jnp.concatenate([part.reshape(-1) for part in sums]), AXIS)
    ends = zip(cuts, cuts[1:], sums, strict=False)
    return tuple(whole[start:stop].reshape(part.shape) for start, stop, part in ends)
