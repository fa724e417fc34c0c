"""Optimisers and learning-rate schedules by name, each a table.

A named optimiser turns a gradient into a direction; the step along it is −learning_rate · schedule(progress),
both of which are arguments of the compiled program and never recompile it. It keeps a few vectors like the
parameters, zero at first. Any optax optimiser can be passed instead of a name.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

Vectors = tuple[Array, ...]
_LOG_BETA = (math.log(0.9), math.log(0.999))


class Optimiser(NamedTuple):
    """A rule (gradient, kept vectors, step number from 1) -> (direction, kept vectors)."""

    n_vectors: int
    rule: Callable[[Array, Vectors, Array], tuple[Array, Vectors]]


def _adam(grad: Array, kept: Vectors, step: Array) -> tuple[Array, Vectors]:
    """Kingma and Ba (2015), Algorithm 1, with β = 0.9, 0.999 and ε = 1e-8."""
    first = 0.9 * kept[0] + 0.1 * grad
    second = 0.999 * kept[1] + 0.001 * grad**2
    # 1 − βᵗ without cancellation
    unbiased_first = first / -jnp.expm1(step * _LOG_BETA[0])
    unbiased_second = second / -jnp.expm1(step * _LOG_BETA[1])
    return unbiased_first / (jnp.sqrt(unbiased_second) + 1e-8), (first, second)


def _rmsprop(grad: Array, kept: Vectors, step: Array) -> tuple[Array, Vectors]:
    """The paper's: gradient over the root of its running mean square, of decay 0.95."""
    second = 0.95 * kept[0] + 0.05 * grad**2
    return grad / jnp.sqrt(second + 1e-8), (second,)


def _sgd(grad: Array, kept: Vectors, step: Array) -> tuple[Array, Vectors]:
    """The gradient itself."""
    return grad, kept


OPTIMISERS: dict[str, Optimiser] = {
    "adam": Optimiser(2, _adam),
    "rmsprop": Optimiser(1, _rmsprop),
    "sgd": Optimiser(0, _sgd),
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


CYCLES = 5  # each twice as long as the one before
WHOLE = 2**CYCLES - 1  # the length of all, that of the first being 1


def _restarts(progress: Array) -> Array:
    """A cosine for each cycle: training may end after any of them, see `Milestones`."""
    place = 1 + WHOLE * jnp.minimum(progress, 1 - 1e-6)
    return _cosine(place / jnp.exp2(jnp.floor(jnp.log2(place))) - 1)


SCHEDULES: dict[str, Callable[[Array], Array]] = {
    "cosine": _cosine,
    "linear": _linear,
    "constant": _constant,
    "restarts": _restarts,
}
