r"""The standard functions with closed-form derivatives: each is the derivative of the one before.

    (log Φ)' = r,   r' = −r g,   (r g)' = −κ3,   g' = ω²,   (ω²)' = κ3,   κ3' = κ4,   (r E[h²])' = −alpha κ3

with the letters of :mod:`tggm.special.kernels`. The rules use these same functions, so derivatives of every
order are correct. `low` is the part of the argument lost to rounding, :func:`tggm.special.kernels.residual`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from tggm.special import kernels

Argument = tuple[Array]


@jax.custom_jvp
def log_ndtr(a: Array) -> Array:
    """Return log Φ(a)."""
    return kernels.log_ndtr(a)


@jax.custom_jvp
def hazard(a: Array) -> Array:
    """Return r(a) = φ(a) / Φ(a)."""
    return kernels.hazard(a)


@jax.custom_jvp
def mean(a: Array) -> Array:
    """Return g(a)."""
    return kernels.moments(a)[0]


@jax.custom_jvp
def var(a: Array) -> Array:
    """Return ω²(a)."""
    return kernels.moments(a)[1]


@jax.custom_jvp
def third(a: Array, low: Array | None = None) -> Array:
    """Return κ3(a)."""
    return kernels.third(a, low)


@jax.custom_jvp
def decay(a: Array) -> Array:
    """Return r(a) g(a) = 1 − ω²(a)."""
    return kernels.decay(a)


@jax.custom_jvp
def spread(a: Array, low: Array | None = None) -> Array:
    """Return r(a) E[h²] = g − a ω²: the derivative of σ g(μ/σ) by σ, without cancellation."""
    return kernels.spread(a, low)


@jax.custom_jvp
def moments(a: Array) -> tuple[Array, Array]:
    """Return g(a) and ω²(a)."""
    return kernels.moments(a)


def _differentiate(function: Any, slope: Callable[..., Array]) -> None:
    """Set the derivative of a function by its first argument."""

    @function.defjvp  # type: ignore[untyped-decorator]
    def _(primals: Any, tangents: Any) -> tuple[Array, Array]:
        return function(*primals), slope(*primals) * tangents[0]


_differentiate(log_ndtr, hazard)
_differentiate(hazard, lambda a: -decay(a))
_differentiate(decay, lambda a: -third(a))
_differentiate(spread, lambda a, low: -kernels.near(a) * third(a, low))
_differentiate(mean, var)
_differentiate(var, third)
_differentiate(third, lambda a, _: kernels.fourth(a))


@moments.defjvp
def _(primals: Argument, tangents: Argument) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (a,), (da,) = primals, tangents
    g, v = moments(a)
    return (g, v), (v * da, third(a) * da)


def second(a: Array) -> Array:
    """Return the second raw moment E[h²] = ω² + g² = 1 + a g; each side sums positive terms."""
    g = mean(a)
    return jnp.where(a < 0, var(a) + g * g, 1 + a * g)
