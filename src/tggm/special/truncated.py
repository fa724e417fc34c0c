"""First, plain forms of the truncated-normal functions, to be replaced by accurate kernels."""

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import log_ndtr as _log_ndtr
from jax.typing import ArrayLike

_LOG_2PI = 1.8378770664093453


def log_ndtr(a: ArrayLike) -> Array:
    """Log Phi(a)."""
    return _log_ndtr(1.0 * jnp.asarray(a))


def hazard(a: ArrayLike) -> Array:
    """Phi'(a) / Phi(a)."""
    a = 1.0 * jnp.asarray(a)
    return jnp.exp(-0.5 * a * a - 0.5 * _LOG_2PI - _log_ndtr(a))


def standard_moments(alpha: ArrayLike) -> tuple[Array, Array]:
    """Mean and variance of N(alpha, 1) truncated to h >= 0."""
    alpha = 1.0 * jnp.asarray(alpha)
    r = hazard(alpha)
    g = jnp.maximum(alpha + r, 1e-30)
    return g, jnp.maximum(1 - r * g, 1e-30)


def truncated_mean(mu: ArrayLike, sigma: ArrayLike) -> Array:
    """Mean of N(mu, sigma^2) truncated to h >= 0."""
    return sigma * standard_moments(jnp.divide(mu, sigma))[0]


def truncated_var(mu: ArrayLike, sigma: ArrayLike) -> Array:
    """Variance of N(mu, sigma^2) truncated to h >= 0."""
    return jnp.square(sigma) * standard_moments(jnp.divide(mu, sigma))[1]


def truncated_third(mu: ArrayLike, sigma: ArrayLike) -> Array:
    """Third central moment of N(mu, sigma^2) truncated to h >= 0."""
    alpha = jnp.divide(mu, sigma)
    g, v = standard_moments(alpha)
    return jnp.power(sigma, 3) * hazard(alpha) * (g * g - v)


def truncated_entropy(mu: ArrayLike, sigma: ArrayLike) -> Array:
    """Entropy of N(mu, sigma^2) truncated to h >= 0."""
    alpha = jnp.divide(mu, sigma)
    return 0.5 * (1 + _LOG_2PI) + jnp.log(sigma) + log_ndtr(alpha) - 0.5 * alpha * hazard(alpha)


def truncated_log_z(theta: ArrayLike, precision: ArrayLike) -> Array:
    """Log of the integral of exp(-p h^2 / 2 + theta h) over h >= 0."""
    alpha = jnp.divide(theta, jnp.sqrt(precision))
    return 0.5 * alpha * alpha + 0.5 * _LOG_2PI - 0.5 * jnp.log(precision) + log_ndtr(alpha)
