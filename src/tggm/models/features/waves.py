"""cos 2πt by a polynomial that compilers vectorise: XLA calls a scalar function for every cosine on a CPU.

With u = |t − round(t)| − ¼, cos 2πt = −sin 2πu, and
|2πu| ≤ π/2, where a few terms of the series are as good as rounding.
"""

import math

import jax.numpy as jnp
from jax import Array

TERMS = {"float32": 6, "float64": 11}


def cos_turns(t: Array) -> Array:
    """Cos 2πt; like t itself it loses digits far out, and all of them where t has no fraction any more."""
    u = jnp.abs(t - jnp.round(t)) - 0.25
    square = u * u
    total = jnp.zeros_like(u)
    for n in reversed(range(TERMS[str(t.dtype)])):
        total = total * square + (-1) ** (n + 1) * (2 * math.pi) ** (2 * n + 1) / math.factorial(2 * n + 1)
    return total * u
