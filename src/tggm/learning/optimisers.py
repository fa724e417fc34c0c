"""Optimisers and learning-rate schedules by name, each a table.

A named optimiser only gives directions; the step along them is −learning_rate · schedule(progress), both of
which are arguments of the compiled program and never recompile it.
"""

from collections.abc import Callable

import jax.numpy as jnp
import optax
from jax import Array

OPTIMISERS: dict[str, optax.GradientTransformation] = {
    "adam": optax.scale_by_adam(),
    "rmsprop": optax.scale_by_rms(decay=0.95),  # the paper's
    "sgd": optax.identity(),
}


def _cosine(progress: Array) -> Array:
    """½(1 + cos π p): from 1 down to 0."""
    return 0.5 * (1 + jnp.cos(jnp.pi * progress))


def _linear(progress: Array) -> Array:
    """1 − p."""
    return 1 - progress


def _constant(progress: Array) -> Array:
    """1 throughout."""
    return jnp.ones_like(progress)


SCHEDULES: dict[str, Callable[[Array], Array]] = {"cosine": _cosine, "linear": _linear, "constant": _constant}
