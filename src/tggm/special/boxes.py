r"""The normal truncated to a box [lower, upper], either limit possibly infinite.

Everywhere h ~ N(mu, sigma²) given lower <= h <= upper. All functions are elementwise, broadcast, keep the
dtype of floating arguments, have closed-form derivatives in every argument, and return NaN for NaN, for a
scale that is not positive and for limits in the wrong order. Boxes may be as narrow as the dtype can tell two
limits apart, and as far from mu as it can say. ``python tools/precompute/box_accuracy.py`` prints how far off
they are; for the half-line [0, ∞) the functions of `tggm.special.truncated` are faster.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from tggm.special.arguments import evaluate, positive
from tggm.special.box_standard import Four, kernel, standard
from tggm.special.truncated import Pair

Three = tuple[Array, Array, Array]


def log_ndtr_interval(a: ArrayLike, b: ArrayLike) -> Array:
    r"""Logarithm of the probability that a standard normal is in [a, b], :math:`\log(\Phi(b) - \Phi(a))`.

    Finite wherever b > a, also where the probability underflows or both limits round to the same Φ.
    """
    result: Array = evaluate(_log_ndtr_interval, a=a, b=b)
    return result


def box_moments(alpha: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Pair:
    """Mean and variance of N(alpha, 1) truncated to [lower, upper], together: for inner loops of engines."""
    result: Pair = evaluate(_box_moments, alpha=alpha, lower=lower, upper=upper)
    return result


def box_mean(mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    r"""Mean of a normal truncated to a box.

    .. math::
        E[h] = \mu + \sigma \frac{\phi(a) - \phi(b)}{\Phi(b) - \Phi(a)},
        \qquad a = \frac{l - \mu}{\sigma},\quad b = \frac{u - \mu}{\sigma}.

    Increasing in `mu` and in both limits, and between them; for small `sigma` it is ``clip(mu, lower,
    upper)``.
    """
    result: Array = evaluate(_box_mean, mu=mu, sigma=sigma, lower=lower, upper=upper)
    return result


def box_var(mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    r"""Variance of a normal truncated to a box.

    .. math:: \sigma^2 \left(1 + \frac{a \phi(a) - b \phi(b)}{\Phi(b) - \Phi(a)} - \bar h^2\right),

    with :math:`\bar h` the standardised mean. Below ``sigma**2`` and below ``(upper - lower)**2 / 12``.
    """
    result: Array = evaluate(_box_var, mu=mu, sigma=sigma, lower=lower, upper=upper)
    return result


def box_third(mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    """Third central moment of a normal truncated to a box: zero when mu is in its middle."""
    result: Array = evaluate(_box_third, mu=mu, sigma=sigma, lower=lower, upper=upper)
    return result


def box_entropy(mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    r"""Differential entropy of a normal truncated to a box, in nats.

    .. math:: H = \log\left(\sigma \sqrt{2\pi e}\, (\Phi(b) - \Phi(a))\right)
        + \frac{a \phi(a) - b \phi(b)}{2 (\Phi(b) - \Phi(a))}.
    """
    result: Array = evaluate(_box_entropy, mu=mu, sigma=sigma, lower=lower, upper=upper)
    return result


def box_log_z(theta: ArrayLike, precision: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    r"""Log-partition function of one variable in a box, in natural parameters.

    .. math:: \log Z(\theta, p) = \log \int_l^u e^{-p h^2 / 2 + \theta h}\, dh.

    Its derivatives are :math:`E[h]`, :math:`-\tfrac12 E[h^2]`, and the densities at the limits, with a minus
    sign at the lower one.
    """
    result: Array = evaluate(_box_log_z, theta=theta, precision=precision, lower=lower, upper=upper)
    return result


@jax.custom_jvp
def _mean(mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    at, c = kernel(mu, sigma, lower, upper)
    inside = mu + sigma * jnp.where(at.flipped, -c.mean, c.mean)
    wall = jnp.where(at.flipped, upper - sigma * c.low, lower + sigma * c.low)
    return jnp.where(at.a < 0, inside, wall)


@_mean.defjvp
def _(primals: Four, tangents: Four) -> Pair:
    dmu, dsigma, dlower, dupper = tangents
    s = standard(*primals, 3)
    by_sigma = s.third + 2 * s.mean * s.var
    low, high = s.at_lower * s.low, s.at_upper * s.high
    return _mean(*primals), s.var * dmu + by_sigma * dsigma + low * dlower + high * dupper


def _var(mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    return sigma * standard(mu, sigma, lower, upper).var * sigma


def _third(mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    return sigma * (sigma * standard(mu, sigma, lower, upper, 3).third) * sigma


@jax.custom_jvp
def _entropy(mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    c = kernel(mu, sigma, lower, upper)[1]
    return jnp.log(sigma * c.integral) + c.energy


@_entropy.defjvp
def _(primals: Four, tangents: Four) -> Pair:
    dmu, dsigma, dlower, dupper = (d / primals[1] for d in tangents)
    s = standard(*primals, 4)
    m, V, T = s.mean, s.var, s.third
    by_mu = 0.5 * T + m * V
    by_sigma = 0.5 * s.fourth + V * V + 2 * m * (T + m * V)
    low = s.at_lower * (0.5 * (V + s.low * (2 * m - s.low)) - 1)
    high = s.at_upper * (1 - 0.5 * (V - s.high * (2 * m + s.high)))
    return _entropy(*primals), by_mu * dmu + by_sigma * dsigma + low * dlower + high * dupper


@jax.custom_jvp
def _log_z(theta: Array, precision: Array, lower: Array, upper: Array) -> Array:
    root = jnp.sqrt(precision)
    at, c = kernel(theta / precision, 1 / root, lower, upper)
    wall = jnp.where(at.flipped, upper, lower)
    r = jnp.where(at.narrow, 0.5 * (lower + upper), wall)
    energy = jnp.where(at.middle, 0.5 * theta * (theta / precision), (theta - 0.5 * precision * r) * r)
    return jnp.log(c.integral / root) + energy


@_log_z.defjvp
def _(primals: Four, tangents: Four) -> Pair:
    theta, precision, lower, upper = primals
    dtheta, dprecision, dlower, dupper = tangents
    mu, sigma = theta / precision, 1 / jnp.sqrt(precision)
    s, m = standard(mu, sigma, lower, upper), _mean(mu, sigma, lower, upper)
    second = m * m + s.var / precision
    change = m * dtheta - 0.5 * second * dprecision
    return _log_z(*primals), change + (s.at_upper * dupper - s.at_lower * dlower) / sigma


def in_order(lower: Array, upper: Array) -> Array:
    """The upper limit where it is above the lower one, NaN elsewhere."""
    return jnp.where(upper > lower, upper, jnp.nan)


def _checked(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function with NaN for a scale that is not positive and limits in the wrong order."""

    def call(mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
        return function(mu, positive(sigma), lower, in_order(lower, upper))

    checked: Callable[..., Array] = jax.jit(call, inline=True)
    return checked


@jax.custom_jvp
def _both(alpha: Array, lower: Array, upper: Array) -> Pair:
    s = standard(alpha, jnp.ones_like(alpha), lower, upper)
    outside = jnp.where(alpha <= lower, lower + s.low, upper - s.high)
    return jnp.where((lower < alpha) & (alpha < upper), alpha + s.mean, outside), s.var


@_both.defjvp
def _(primals: Three, tangents: Three) -> tuple[Pair, Pair]:
    alpha, lower, upper = primals
    change, dlower, dupper = tangents
    s = standard(alpha, jnp.ones_like(alpha), lower, upper, 3)
    # a side without a limit is infinitely far, and its density 0
    x, y = jnp.where(lower > -jnp.inf, s.low, 0), jnp.where(upper < jnp.inf, s.high, 0)
    V, low, high = s.var, s.at_lower * dlower, s.at_upper * dupper
    var = s.third * change + low * (V - x * x) + high * (y * y - V)
    return _both(*primals), (V * change + low * x + high * y, var)


_log_ndtr_interval = jax.jit(
    lambda a, b: standard(jnp.zeros_like(a), jnp.ones_like(a), a, in_order(a, b)).log_mass, inline=True
)
_box_moments = jax.jit(lambda alpha, low, high: _both(alpha, low, in_order(low, high)), inline=True)
_box_mean, _box_var, _box_third = _checked(_mean), _checked(_var), _checked(_third)
_box_entropy, _box_log_z = _checked(_entropy), _checked(_log_z)
