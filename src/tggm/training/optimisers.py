"""Optimisers and learning-rate schedules by name.

An optimiser turns a gradient into a direction; the step is −learning_rate · schedule(progress), which are
arguments of the compiled program. Its state is a few vectors of the parameters' size, zero at first. An
object with optax's methods `init` and `update` can be passed instead of a name.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from tggm.training.layout import Layout

Vectors = tuple[Array, ...]
_LOG_BETA = (math.log(0.9), math.log(0.999))


class Optimiser(NamedTuple):
    """A rule (gradient, state vectors, step number from 1, layout) -> (direction, state vectors)."""

    n_vectors: int
    rule: Callable[[Array, Vectors, Array, Layout], tuple[Array, Vectors]]


def _adam(grad: Array, kept: Vectors, step: Array, layout: Layout) -> tuple[Array, Vectors]:
    """Apply Adam (Kingma and Ba, 2015, Algorithm 1) with β = 0.9, 0.999 and ε = 1e-8."""
    first = 0.9 * kept[0] + 0.1 * grad
    second = 0.999 * kept[1] + 0.001 * grad**2
    # 1 − βᵗ without cancellation
    unbiased_first = first / -jnp.expm1(step * _LOG_BETA[0])
    unbiased_second = second / -jnp.expm1(step * _LOG_BETA[1])
    return unbiased_first / (jnp.sqrt(unbiased_second) + 1e-8), (first, second)


ORTHOGONAL = 0.25  # root mean square of the entries of Muon's steps; Adam's first steps have 1
ROUNDS = 4
QUINTIC = (3.4445, -4.775, 2.0315)


def orthogonalised(matrix: Array) -> Array:
    """Return approximately the nearest matrix with equal singular values and a mean square entry of 1.

    Newton–Schulz iterations X ← aX + b(XXᵀ)X + c(XXᵀ)²X with the coefficients of Jordan et al. (2024) bring
    singular values between about 0.02 and 1 of the largest to 0.7–1.2. They need matrix products only.
    """
    X = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    X = X / jnp.maximum(jnp.sqrt((X**2).sum()), 1e-30)
    a, b, c = QUINTIC
    for k in range(ROUNDS):
        A = X @ X.T
        if k == 0:  # no singular value is above the root of this norm
            norm = jnp.maximum(jnp.sqrt((A**2).sum()), 1e-30)
            X, A = X / jnp.sqrt(norm), A / norm
        X = a * X + (b * A + c * (A @ A)) @ X
    X = X * math.sqrt(X.shape[1])
    return X if matrix.shape[0] <= matrix.shape[1] else X.T


def _muon(grad: Array, kept: Vectors, step: Array, layout: Layout) -> tuple[Array, Vectors]:
    """Apply Muon (Jordan et al., 2024) to the weights of hidden units, Adam to everything else."""
    direction, kept = _adam(grad, kept, step, layout)
    ahead = 0.9 * kept[0] + 0.1 * grad
    return layout.with_hidden_weights(direction, lambda W: ORTHOGONAL * orthogonalised(W), ahead), kept


def _rmsprop(grad: Array, kept: Vectors, step: Array, layout: Layout) -> tuple[Array, Vectors]:
    """Divide the gradient by the root of its running mean square with decay 0.95, as the paper does."""
    second = 0.95 * kept[0] + 0.05 * grad**2
    return grad / jnp.sqrt(second + 1e-8), (second,)


def _sgd(grad: Array, kept: Vectors, step: Array, layout: Layout) -> tuple[Array, Vectors]:
    """Return the gradient itself."""
    return grad, kept


OPTIMISERS: dict[str, Optimiser] = {
    "muon": Optimiser(2, _muon),
    "adam": Optimiser(2, _adam),
    "rmsprop": Optimiser(1, _rmsprop),
    "sgd": Optimiser(0, _sgd),
}


def _cosine(progress: Array) -> Array:
    """Return ½(1 + cos π p)."""
    return 0.5 * (1 + jnp.cos(jnp.pi * progress))


def _linear(progress: Array) -> Array:
    """Return 1 − p."""
    return 1 - progress


def _constant(progress: Array) -> Array:
    """Return 1."""
    return jnp.ones_like(progress)


CYCLES = 4
LONGER = 3  # ratio of the lengths of successive cycles
WHOLE = (LONGER**CYCLES - 1) // (LONGER - 1)  # length of all cycles in units of the first


def cycle_ends(first: int) -> tuple[int, ...]:
    """Return the ends of the cycles if the first has this length."""
    return tuple(first * (LONGER**k - 1) // (LONGER - 1) for k in range(1, CYCLES + 1))


def _restarts(progress: Array) -> Array:
    """Return a cosine for each cycle; training may end after each, see `Milestones`."""
    place = WHOLE * jnp.minimum(progress, 1 - 1e-6)
    start, length = jnp.zeros_like(place), jnp.ones_like(place)
    for k, end in enumerate(cycle_ends(1)[:-1]):
        over = place >= end
        start, length = jnp.where(over, end, start), jnp.where(over, LONGER ** (k + 1), length)
    return _cosine((place - start) / length)


SCHEDULES: dict[str, Callable[[Array], Array]] = {
    "cosine": _cosine,
    "linear": _linear,
    "constant": _constant,
    "restarts": _restarts,
}
