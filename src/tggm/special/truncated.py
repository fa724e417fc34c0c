r"""Moments of a normal truncated to the nonnegative half-line, and the functions of the normal they rest on.

Everywhere h ~ N(mu, sigma²) given h >= 0, and alpha = mu / sigma. All functions are elementwise, broadcast,
keep the dtype of floating arguments, and return NaN for NaN or for a scale that is not positive. Values and
first derivatives are within 5e-15 (float64) or 1e-6 (float32) of the truth, relatively, for every alpha:
``python tools/precompute/accuracy.py`` prints the table.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from tggm.special import kernels, standard
from tggm.special.arguments import evaluate, positive

Pair = tuple[Array, Array]


def log_ndtr(a: ArrayLike) -> Array:
    r"""Logarithm of the normal distribution function, :math:`\log \Phi(a)`.

    Increasing, concave and negative; its derivative is :func:`hazard`.
    """
    result: Array = evaluate(_log_ndtr, a=a)
    return result


def hazard(a: ArrayLike) -> Array:
    r"""Ratio of density to distribution function, :math:`r(a) = \phi(a) / \Phi(a)`.

    Decreasing and above ``max(0, -a)``; :math:`r' = -r\,(a + r)`. It is the inverse Mills ratio at ``-a``.
    """
    result: Array = evaluate(_hazard, a=a)
    return result


def standard_moments(alpha: ArrayLike) -> Pair:
    r"""Mean and variance of N(alpha, 1) truncated to h >= 0, together.

    .. math::
        g = \alpha + r(\alpha), \quad \omega^2 = 1 - r g,
        \qquad g' = \omega^2, \quad (\omega^2)' = r (g^2 - \omega^2).

    The pair costs one exponential and two divisions: this is what the inner loops of inference engines call.
    """
    result: Pair = evaluate(_moments, alpha=alpha)
    return result


def truncated_mean(mu: ArrayLike, sigma: ArrayLike) -> Array:
    r"""Mean of a normal truncated to the nonnegative half-line, the activation function of the model.

    .. math::
        E[h] = \sigma\, g(\alpha) = \mu + \sigma\, \phi(\alpha) / \Phi(\alpha), \qquad \alpha = \mu / \sigma.

    Increasing and convex in `mu`, above ``max(0, mu)``, which is its limit for small `sigma`.

    Parameters
    ----------
    mu : array_like
        Location before truncation.
    sigma : array_like
        Scale before truncation, positive.
    """
    result: Array = evaluate(_truncated_mean, mu=mu, sigma=sigma)
    return result


def truncated_var(mu: ArrayLike, sigma: ArrayLike) -> Array:
    r"""Variance of a normal truncated to the nonnegative half-line.

    .. math:: \mathrm{Var}[h] = \sigma^2 \omega^2(\alpha), \qquad \omega^2 = 1 - r g.

    Increasing in `mu`, below ``sigma**2``, and near :math:`(\sigma^2/\mu)^2` for very negative `mu`.
    """
    result: Array = evaluate(_truncated_var, mu=mu, sigma=sigma)
    return result


def truncated_third(mu: ArrayLike, sigma: ArrayLike) -> Array:
    r"""Third central moment of a normal truncated to the nonnegative half-line.

    .. math:: E[(h - E h)^3] = \sigma^3 r (g^2 - \omega^2).

    Positive: truncation on the left skews to the right.
    """
    result: Array = evaluate(_truncated_third, mu=mu, sigma=sigma)
    return result


_log_ndtr = jax.jit(standard.log_ndtr, inline=True)
_hazard = jax.jit(standard.hazard, inline=True)
_moments = jax.jit(standard.moments, inline=True)


def ratio(mu: Array, sigma: Array) -> Pair:
    """Alpha, and what its rounding lost: where φ(alpha) matters, that is alpha² units in the last place."""
    alpha = mu / sigma
    return alpha, jax.lax.stop_gradient(kernels.residual(mu, sigma, alpha))


@jax.custom_jvp
def _mean(mu: Array, sigma: Array) -> Array:
    alpha = mu / sigma
    return jnp.where(alpha < 0, sigma * standard.mean(alpha), mu + sigma * standard.hazard(alpha))


@_mean.defjvp
def _(primals: Pair, tangents: Pair) -> Pair:
    (mu, sigma), (dmu, dsigma) = primals, tangents
    alpha, low = ratio(mu, sigma)
    return _mean(mu, sigma), standard.var(alpha) * dmu + standard.spread(alpha, low) * dsigma


@jax.custom_jvp
def _var(mu: Array, sigma: Array) -> Array:
    return sigma * standard.var(mu / sigma) * sigma


@_var.defjvp
def _(primals: Pair, tangents: Pair) -> Pair:
    (mu, sigma), (dmu, dsigma) = primals, tangents
    alpha, low = ratio(mu, sigma)
    v, third = standard.var(alpha), standard.third(alpha, low)
    slope = 2 * v - kernels.near(alpha) * third
    return _var(mu, sigma), sigma * third * dmu + sigma * slope * dsigma


@jax.custom_jvp
def _third(mu: Array, sigma: Array) -> Array:
    return sigma * (sigma * standard.third(*ratio(mu, sigma))) * sigma


@_third.defjvp
def _(primals: Pair, tangents: Pair) -> Pair:
    (mu, sigma), (dmu, dsigma) = primals, tangents
    alpha = mu / sigma
    fourth, slope = kernels.fourth(alpha), kernels.third_spread(alpha)
    return _third(mu, sigma), sigma * (sigma * fourth) * dmu + sigma * (sigma * slope) * dsigma


_truncated_mean = jax.jit(lambda mu, sigma: _mean(mu, positive(sigma)), inline=True)
_truncated_var = jax.jit(lambda mu, sigma: _var(mu, positive(sigma)), inline=True)
_truncated_third = jax.jit(lambda mu, sigma: _third(mu, positive(sigma)), inline=True)
