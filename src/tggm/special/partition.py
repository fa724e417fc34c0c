r"""Entropy and log-partition function of a normal truncated to the nonnegative half-line.

Both are a logarithm of the normalising integral plus terms of order alpha², which cancel on the left. There,
with the hazard r and the mean g of :mod:`tggm.special.kernels`, 1/r(alpha) already holds the difference:

    log ∫ exp(−½ p h² + θ h) dh  =  −log(√p r(alpha)),         alpha = θ / √p < 0,
    entropy                      =  −log(r(alpha) / σ) + ½ (1 − alpha g(alpha)),    alpha = μ / σ < 0.

Each is one logarithm of one product, so that near its zero the error stays of the order of the rounding unit.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from tggm.special import kernels, standard
from tggm.special.arguments import evaluate, positive
from tggm.special.truncated import Pair, ratio

SQRT_2PIE = 4.1327313541224929
SQRT_E = 1.6487212707001282


def truncated_entropy(mu: ArrayLike, sigma: ArrayLike) -> Array:
    r"""Differential entropy of a normal truncated to the nonnegative half-line, in nats.

    .. math::
        H = \log(\sigma \sqrt{2 \pi e}\, \Phi(\alpha)) - \tfrac12 \alpha\, r(\alpha),
        \qquad \alpha = \mu / \sigma.

    Increasing in `mu` and in `sigma`; for very negative `mu` near :math:`1 + \log(\sigma^2 / |\mu|)`, the
    entropy of an exponential.
    """
    result: Array = evaluate(_truncated_entropy, mu=mu, sigma=sigma)
    return result


def truncated_log_z(theta: ArrayLike, precision: ArrayLike) -> Array:
    r"""Log-partition function of one truncated variable in natural parameters.

    .. math::
        \log Z(\theta, p) = \log \int_0^\infty e^{-p h^2 / 2 + \theta h}\, dh
            = \frac{\theta^2}{2 p} + \tfrac12 \log \frac{2 \pi}{p} + \log \Phi(\theta / \sqrt p).

    Convex; its derivatives are :math:`E[h]` and :math:`-\tfrac12 E[h^2]`.

    Parameters
    ----------
    theta : array_like
        Shift, the coefficient of h.
    precision : array_like
        Precision p, positive.
    """
    result: Array = evaluate(_truncated_log_z, theta=theta, precision=precision)
    return result


def _log_product(x: Array, y: Array) -> Array:
    """Log(x y), as one logarithm unless the product leaves the range of normal numbers."""
    product = x * y
    limits = np.finfo(product.dtype)
    inside = (product >= limits.tiny) & (product <= limits.max)
    return jnp.log(jnp.where(inside, product, x)) + jnp.where(inside, 0, jnp.log(y))


@jax.custom_jvp
def _entropy(mu: Array, sigma: Array) -> Array:
    alpha = mu / sigma
    near = kernels.near(alpha)
    R, upper = kernels.tails(alpha)
    integral = jnp.where(alpha < 0, SQRT_E / R, SQRT_2PIE * (1 - upper))
    energy = near * jnp.where(alpha < 0, kernels.moments(near)[0], kernels.hazard(near))
    return _log_product(sigma, integral) - 0.5 * energy


@_entropy.defjvp
def _(primals: Pair, tangents: Pair) -> Pair:
    (mu, sigma), (dmu, dsigma) = primals, tangents
    alpha, low = ratio(mu, sigma)
    near = kernels.near(alpha)
    slope = 0.5 * standard.spread(alpha, low)
    change = 1 - 0.5 * near * standard.spread(near, low)
    return _entropy(mu, sigma), slope / sigma * dmu + change / sigma * dsigma


@jax.custom_jvp
def _log_z(theta: Array, precision: Array) -> Array:
    root = jnp.sqrt(precision)
    alpha = theta / root
    left = -jnp.log(root * kernels.moments(alpha)[0] - theta)  # √p r(alpha), also where alpha overflows
    right = 0.5 * alpha * alpha + jnp.log(kernels.SQRT_2PI * (1 - kernels.tails(alpha).upper) / root)
    return jnp.where(alpha < 0, left, right)


@_log_z.defjvp
def _(primals: Pair, tangents: Pair) -> Pair:
    (theta, precision), (dtheta, dprecision) = primals, tangents
    root = jnp.sqrt(precision)
    alpha = theta / root
    first, second = standard.mean(alpha) / root, standard.second(alpha) / precision
    return _log_z(theta, precision), first * dtheta - 0.5 * second * dprecision


_truncated_entropy = jax.jit(lambda mu, sigma: _entropy(mu, positive(sigma)), inline=True)
_truncated_log_z = jax.jit(lambda theta, precision: _log_z(theta, positive(precision)), inline=True)
