r"""Moments, entropy and log-partition function of a normal truncated to the nonnegative half-line.

Everywhere h ~ N(mu, sigma²) given h >= 0, and alpha = mu / sigma. All functions are elementwise, broadcast,
keep the dtype of floating arguments, and return NaN for NaN or for a scale that is not positive. The relative
error of values and first derivatives is below 5e-15 (float64) or 1e-6 (float32) for every alpha: ``python
tools/precompute/accuracy.py`` prints the table.

Entropy and log-partition function are a logarithm of the normalising integral plus terms of order alpha²,
which cancel on the left. There, with the hazard r and the mean g of :mod:`tggm.special.kernels`, 1/r(alpha)
already contains the difference:

    log ∫ exp(−½ p h² + θ h) dh  =  −log(√p r(alpha)),         alpha = θ / √p < 0,
    entropy                      =  −log(r(alpha) / σ) + ½ (1 − alpha g(alpha)),    alpha = μ / σ < 0.

Each is one logarithm of one product, so that near its zero the error stays of the order of the rounding unit.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from tggm.special import kernels, standard

Pair = tuple[Array, Array]
T = TypeVar("T")
SQRT_2PIE = 4.1327313541224929
SQRT_E = 1.6487212707001282


def evaluate(function: Callable[..., T], **arguments: ArrayLike) -> T:
    """Apply an elementwise function to arguments brought to one floating dtype and one shape.

    Integers and booleans take the dtype of the floating arguments, or the default float; 16-bit floats are
    computed in float32 and rounded back.
    """
    values = {name: _read(name, value) for name, value in arguments.items()}
    floats = [x for x in values.values() if jnp.issubdtype(jnp.result_type(x), jnp.floating)]
    dtype = jnp.result_type(*floats) if floats else jnp.result_type(float)
    work = dtype if dtype.itemsize >= 4 else np.dtype("float32")
    arrays = jnp.broadcast_arrays(*(jnp.asarray(x, work) for x in values.values()))
    result: T = jax.tree.map(lambda y: y.astype(dtype), function(*arrays))
    return result


def compiled(function: Callable[..., T]) -> Callable[..., T]:
    """Compile a function, inlined into programs that call it."""
    return cast(Callable[..., T], jax.jit(function, inline=True))


def _read(name: str, value: Any) -> ArrayLike:
    value = np.asarray(value) if isinstance(value, list | tuple) else value
    dtype = jnp.result_type(value)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise TypeError(f"`{name}` must be real, got dtype {dtype}; pass its real part.")
    result: ArrayLike = value
    return result


def positive(x: Array) -> Array:
    """Return x where it is positive, NaN elsewhere."""
    return jnp.where(x > 0, x, jnp.nan)


def log_ndtr(a: ArrayLike) -> Array:
    r"""Return the logarithm of the normal distribution function, :math:`\log \Phi(a)`.

    Increasing, concave and negative; its derivative is :func:`hazard`.
    """
    return evaluate(_log_ndtr, a=a)


def hazard(a: ArrayLike) -> Array:
    r"""Return the ratio of density to distribution function, :math:`r(a) = \phi(a) / \Phi(a)`.

    Decreasing and above ``max(0, -a)``; :math:`r' = -r\,(a + r)`. It is the inverse Mills ratio at ``-a``.
    """
    return evaluate(_hazard, a=a)


def standard_moments(alpha: ArrayLike) -> Pair:
    r"""Return mean and variance of N(alpha, 1) truncated to h >= 0.

    .. math::
        g = \alpha + r(\alpha), \quad \omega^2 = 1 - r g,
        \qquad g' = \omega^2, \quad (\omega^2)' = r (g^2 - \omega^2).

    The pair costs one exponential and two divisions; the inner loops of inference engines call it.
    """
    return evaluate(_moments, alpha=alpha)


def truncated_mean(mu: ArrayLike, sigma: ArrayLike) -> Array:
    r"""Return the mean of a normal truncated to the nonnegative half-line: the model's activation function.

    .. math::
        E[h] = \sigma\, g(\alpha) = \mu + \sigma\, \phi(\alpha) / \Phi(\alpha), \qquad \alpha = \mu / \sigma.

    Increasing and convex in `mu`, above ``max(0, mu)``, which is its limit for small `sigma`.
    """
    return evaluate(_truncated_mean, mu=mu, sigma=sigma)


def truncated_var(mu: ArrayLike, sigma: ArrayLike) -> Array:
    r"""Return the variance of a normal truncated to the nonnegative half-line.

    .. math:: \mathrm{Var}[h] = \sigma^2 \omega^2(\alpha), \qquad \omega^2 = 1 - r g.

    Increasing in `mu`, below ``sigma**2``, and near :math:`(\sigma^2/\mu)^2` for very negative `mu`.
    """
    return evaluate(_truncated_var, mu=mu, sigma=sigma)


def truncated_third(mu: ArrayLike, sigma: ArrayLike) -> Array:
    r"""Return the third central moment of a normal truncated to the nonnegative half-line.

    .. math:: E[(h - E h)^3] = \sigma^3 r (g^2 - \omega^2).

    Positive: truncation on the left skews to the right.
    """
    return evaluate(_truncated_third, mu=mu, sigma=sigma)


_log_ndtr = compiled(standard.log_ndtr)
_hazard = compiled(standard.hazard)
_moments = compiled(standard.moments)


def ratio(mu: Array, sigma: Array) -> Pair:
    """Return alpha and its rounding error, which changes φ(alpha) by alpha² units in the last place."""
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


_truncated_mean = compiled(lambda mu, sigma: _mean(mu, positive(sigma)))
_truncated_var = compiled(lambda mu, sigma: _var(mu, positive(sigma)))
_truncated_third = compiled(lambda mu, sigma: _third(mu, positive(sigma)))


def truncated_entropy(mu: ArrayLike, sigma: ArrayLike) -> Array:
    r"""Return the differential entropy of a normal truncated to the nonnegative half-line, in nats.

    .. math::
        H = \log(\sigma \sqrt{2 \pi e}\, \Phi(\alpha)) - \tfrac12 \alpha\, r(\alpha),
        \qquad \alpha = \mu / \sigma.

    Increasing in `mu` and in `sigma`; for very negative `mu` near :math:`1 + \log(\sigma^2 / |\mu|)`, the
    entropy of an exponential.
    """
    return evaluate(_truncated_entropy, mu=mu, sigma=sigma)


def truncated_log_z(theta: ArrayLike, precision: ArrayLike) -> Array:
    r"""Return the log-partition function of one truncated variable in natural parameters.

    .. math::
        \log Z(\theta, p) = \log \int_0^\infty e^{-p h^2 / 2 + \theta h}\, dh
            = \frac{\theta^2}{2 p} + \tfrac12 \log \frac{2 \pi}{p} + \log \Phi(\theta / \sqrt p).

    Convex; its derivatives are :math:`E[h]` and :math:`-\tfrac12 E[h^2]`.
    """
    return evaluate(_truncated_log_z, theta=theta, precision=precision)


def _log_product(x: Array, y: Array) -> Array:
    """Return log(x y), as one logarithm unless the product is not a normal number."""
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


_truncated_entropy = compiled(lambda mu, sigma: _entropy(mu, positive(sigma)))
_truncated_log_z = compiled(lambda theta, precision: _log_z(theta, positive(precision)))
