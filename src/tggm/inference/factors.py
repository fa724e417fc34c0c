"""Univariate pieces shared by the engines: one coordinate with precision p and natural parameter θ.

A truncated coordinate is N_T(θ/p, 1/p); a free one is N(θ/p, 1/p). With α = θ/√p,

    mean g(α)/√p,   variance ω²(α)/p,   A(θ) = log ∫ exp(−½ p h² + θ h) dh,

the integral over h ≥ 0 or over the whole line.
"""

import math

import jax.numpy as jnp
from jax import Array

from tggm.special import standard_moments, truncated_log_z


def standardised(alpha: Array, truncated: Array) -> tuple[Array, Array]:
    """Mean g and variance ω² of N(α, 1), truncated where the mask says so."""
    g, omega2 = standard_moments(alpha)
    return jnp.where(truncated, g, alpha), jnp.where(truncated, omega2, 1)


def gaussian_log_z(theta: Array, p: Array) -> Array:
    """A(θ) of a free coordinate."""
    return 0.5 * (math.log(2 * math.pi) - jnp.log(p)) + theta**2 / (2 * p)


def log_normaliser(theta: Array, p: Array, truncated: Array) -> Array:
    """A(θ), finite for every finite θ."""
    return jnp.where(truncated, truncated_log_z(theta, p), gaussian_log_z(theta, p))
