"""Univariate pieces shared by the engines: one coordinate with precision p and natural parameter θ.

A truncated coordinate is N_T(θ/p, 1/p); a free one is N(θ/p, 1/p). With α = θ/√p,

    mean g(α)/√p,   variance ω²(α)/p,   A(θ) = log ∫ exp(−½ p h² + θ h) dh,

the integral over h ≥ 0, over a box, or over the whole line. Walls are a mask of what is kept nonnegative, or
`Limits`.
"""

import math

import jax.numpy as jnp
from jax import Array

from tggm.gaussian import Limits, TruncatedGaussian, Walls
from tggm.special import box_log_z, box_moments, standard_moments, truncated_log_z


def scaled(walls: Walls, root: Array) -> Walls:
    """Walls in units of 1/root: zero stays where it is."""
    return walls.map(lambda a: a * root) if isinstance(walls, Limits) else walls


def standardised(alpha: Array, walls: Walls) -> tuple[Array, Array]:
    """Mean g and variance ω² of N(α, 1) between walls, which are in the same units."""
    if isinstance(walls, Limits):
        g, omega2 = box_moments(alpha, *walls)
        return g, jnp.minimum(omega2, 1)
    g, omega2 = standard_moments(alpha)
    return jnp.where(walls, g, alpha), jnp.where(walls, omega2, 1)


def gaussian_log_z(theta: Array, p: Array) -> Array:
    """A(θ) of a free coordinate."""
    return 0.5 * (math.log(2 * math.pi) - jnp.log(p)) + theta**2 / (2 * p)


def log_normaliser(theta: Array, p: Array, walls: Walls) -> Array:
    """A(θ), finite for every finite θ."""
    if isinstance(walls, Limits):
        return box_log_z(theta, p, *walls)
    return jnp.where(walls, truncated_log_z(theta, p), gaussian_log_z(theta, p))


def require_half_line(tg: TruncatedGaussian, who: str, remedy: str) -> None:
    """Raise where there are limits other than zero."""
    if tg.limits is not None:
        raise ValueError(
            f"`{who}` takes limits of zero and infinity only; got a box (`lower`, `upper`). {remedy}"
        )
