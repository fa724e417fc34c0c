r"""The normal truncated to a box [lower, upper], either limit possibly infinite.

Everywhere h ~ N(mu, sigma²) given lower <= h <= upper. All functions are elementwise, broadcast, keep the
dtype of floating arguments, have closed-form derivatives in every argument, and return NaN for NaN, for a
scale that is not positive and for limits in the wrong order. Boxes may be as narrow and as far from mu as the
dtype allows. ``python tools/precompute/box_accuracy.py`` prints the errors; for the half-line [0, ∞) the
functions of `tggm.special.truncated` are faster.

All rest on `box_standard`. With the mean M of h, its central moments V, T and fourth cumulant F, and its
densities p_l and p_u at the limits, the derivatives are

    ∂/∂μ:  M → V/σ²,                V → T/σ²,                 T → F/σ²
    ∂/∂l:  M → p_l (M − l),         V → p_l (V − (M − l)²),   T → p_l (T + (M − l)³ − 3 V (M − l))
    ∂/∂u:  M → p_u (u − M),         V → p_u ((u − M)² − V),   T → p_u ((u − M)³ − T − 3 V (u − M))
    ∂/∂σ:  Cov[·, (h − μ)²] / σ³,   as (μ, σ) ↦ (μ/σ², 1/σ²) are natural parameters of h and h²,

all in units of σ: limits a = (l − μ)/σ and b = (u − μ)/σ. M − l is `low`, u − M is `high`.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from tggm.special.box_kernels import Box, Cumulants, box, cumulants, second_order
from tggm.special.truncated import Pair, compiled, evaluate, positive

Three = tuple[Array, Array, Array]
Four = tuple[Array, Array, Array, Array]


class Standard(NamedTuple):
    """Moments of (h − μ)/σ, not mirrored."""

    log_mass: Array
    mean: Array
    low: Array  # mean − a
    high: Array  # b − mean
    var: Array
    third: Array
    fourth: Array
    at_lower: Array  # density at a
    at_upper: Array  # density at b
    lower_gap: Array  # density at a, less a: the derivative of its logarithm by a
    upper_gap: Array  # density at b, plus b


def kernel(mu: Array, sigma: Array, lower: Array, upper: Array, order: int = 2) -> tuple[Box, Cumulants]:
    """Return the mirrored box and its cumulants; the width keeps all its digits."""
    at = box((lower - mu) / sigma, (upper - mu) / sigma, (upper - lower) / sigma)
    return at, second_order(at) if order == 2 else cumulants(at, order)


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def box_standard(mu: Array, sigma: Array, lower: Array, upper: Array, order: int = 2) -> Standard:
    """Return moments up to `order`, 2 to 4; the compiler removes unused ones."""
    at, c = kernel(mu, sigma, lower, upper, order)
    other = c.density_high + at.b  # `gap` at the limit farther from zero
    flip = at.flipped

    def side(x: Array, y: Array) -> Array:
        return jnp.where(flip, y, x)

    return Standard(
        c.log_mass, side(c.mean, -c.mean), side(c.low, c.high), side(c.high, c.low), c.var,
        side(c.third, -c.third), c.fourth, side(c.density_low, c.density_high),
        side(c.density_high, c.density_low), side(c.gap, other), side(other, c.gap),
    )  # fmt: skip


@box_standard.defjvp
def _(order: int, primals: Four, tangents: Four) -> tuple[Standard, Standard]:
    _, sigma, lower, upper = primals
    dmu, dsigma, dlower, dupper = (d / sigma for d in tangents)
    s = box_standard(*primals, 4)
    x, y, V, T, F = s.low, s.high, s.var, s.third, s.fourth
    pa, pb = s.at_lower, s.at_upper
    # changes of the limits at μ = 0, σ = 1; zero for infinite limits
    da, db = _finite(lower, dlower), _finite(upper, dupper)
    by_low, by_high = pa * da, pb * db
    a, b = s.mean - x, s.mean + y

    def central(value: Array, k: int, by_mu: Array, by_sigma: Array, low: Array, high: Array) -> Array:
        """Return the change of a cumulant of h of order k over σᵏ; σ also changes the unit."""
        return by_mu * dmu + (by_sigma - k * value) * dsigma + by_low * low + by_high * high

    mean_h = central(jnp.zeros_like(V), 1, V, T + 2 * s.mean * V, x, y)  # of E[h]/σ, less E[h] dσ/σ²
    var = central(V, 2, T, F + 2 * V * V + 2 * s.mean * T, V - x * x, y * y - V)
    third_low, third_high = T + x**3 - 3 * V * x, y**3 - T - 3 * V * y
    M4 = F + 3 * V * V
    fourth_low = M4 - x**4 - 4 * T * x - 6 * V * (V - x * x)
    fourth_high = y**4 - M4 - 4 * T * y - 6 * V * (y * y - V)
    fifth = -(pa * fourth_low + pb * fourth_high)
    third = central(T, 3, F, fifth + 6 * V * T + 2 * s.mean * F, third_low, third_high)
    fourth = central(F, 4, fifth, 4 * F - a * pa * fourth_low - b * pb * fourth_high, fourth_low, fourth_high)
    # E[(h − μ)²]/σ² − 1, without cancellation where μ is inside
    excess = jnp.where((a < 0) & (b > 0), a * pa - b * pb, s.mean**2 + V - 1)
    log_mass = s.mean * dmu + excess * dsigma - by_low + by_high
    # the density at a limit in units of 1/σ
    d_at_lower = pa * (-x * dmu - (x * (s.mean + a) + V - 1) * dsigma + s.lower_gap * da - by_high)
    d_at_upper = pb * (y * dmu + (y * (s.mean + b) - V + 1) * dsigma - s.upper_gap * db + by_low)
    d_a, d_b = da - dmu - a * dsigma, db - dmu - b * dsigma
    mean = mean_h - dmu - s.mean * dsigma
    low, high = mean_h - da - x * dsigma, db - mean_h - y * dsigma
    gaps = d_at_lower - d_a, d_at_upper + d_b
    return s, Standard(log_mass, mean, low, high, var, third, fourth, d_at_lower, d_at_upper, *gaps)


def _finite(limit: Array, change: Array) -> Array:
    return jnp.where(jnp.isfinite(limit), change, 0)


def edge_moments(alpha: Array, lower: Array, upper: Array) -> Standard:
    """Return moments of N(alpha, 1) between limits, less alpha, and its densities at the limits."""
    return box_standard(alpha, jnp.ones_like(alpha), lower, upper)


def log_ndtr_interval(a: ArrayLike, b: ArrayLike) -> Array:
    r"""Return the log probability that a standard normal is in [a, b], :math:`\log(\Phi(b) - \Phi(a))`.

    Finite for b > a, also where the probability underflows or both limits round to the same Φ.
    """
    return evaluate(_log_ndtr_interval, a=a, b=b)


def box_moments(alpha: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Pair:
    """Return mean and variance of N(alpha, 1) truncated to [lower, upper], for inner loops of engines."""
    return evaluate(_box_moments, alpha=alpha, lower=lower, upper=upper)


def box_mean(mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    r"""Return the mean of a normal truncated to a box.

    .. math::
        E[h] = \mu + \sigma \frac{\phi(a) - \phi(b)}{\Phi(b) - \Phi(a)},
        \qquad a = \frac{l - \mu}{\sigma},\quad b = \frac{u - \mu}{\sigma}.

    Increasing in `mu` and in both limits, and between them; for small `sigma` it is ``clip(mu, lower,
    upper)``.
    """
    return evaluate(_box_mean, mu=mu, sigma=sigma, lower=lower, upper=upper)


def box_var(mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    r"""Return the variance of a normal truncated to a box.

    .. math:: \sigma^2 \left(1 + \frac{a \phi(a) - b \phi(b)}{\Phi(b) - \Phi(a)} - \bar h^2\right),

    with :math:`\bar h` the standardised mean. Below ``sigma**2`` and below ``(upper - lower)**2 / 12``.
    """
    return evaluate(_box_var, mu=mu, sigma=sigma, lower=lower, upper=upper)


def box_third(mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    """Return the third central moment of a normal truncated to a box; zero when mu is in its middle."""
    return evaluate(_box_third, mu=mu, sigma=sigma, lower=lower, upper=upper)


def box_entropy(mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    r"""Return the differential entropy of a normal truncated to a box, in nats.

    .. math:: H = \log\left(\sigma \sqrt{2\pi e}\, (\Phi(b) - \Phi(a))\right)
        + \frac{a \phi(a) - b \phi(b)}{2 (\Phi(b) - \Phi(a))}.
    """
    return evaluate(_box_entropy, mu=mu, sigma=sigma, lower=lower, upper=upper)


def box_log_z(theta: ArrayLike, precision: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    r"""Return the log-partition function of one variable in a box, in natural parameters.

    .. math:: \log Z(\theta, p) = \log \int_l^u e^{-p h^2 / 2 + \theta h}\, dh.

    Its derivatives are :math:`E[h]`, :math:`-\tfrac12 E[h^2]`, and the densities at the limits, with a minus
    sign at the lower one.
    """
    return evaluate(_box_log_z, theta=theta, precision=precision, lower=lower, upper=upper)


@jax.custom_jvp
def _mean(mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    at, c = kernel(mu, sigma, lower, upper)
    inside = mu + sigma * jnp.where(at.flipped, -c.mean, c.mean)
    wall = jnp.where(at.flipped, upper - sigma * c.low, lower + sigma * c.low)
    return jnp.where(at.a < 0, inside, wall)


@_mean.defjvp
def _(primals: Four, tangents: Four) -> Pair:
    dmu, dsigma, dlower, dupper = tangents
    s = box_standard(*primals, 3)
    by_sigma = s.third + 2 * s.mean * s.var
    low, high = s.at_lower * s.low, s.at_upper * s.high
    return _mean(*primals), s.var * dmu + by_sigma * dsigma + low * dlower + high * dupper


def _var(mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    return sigma * box_standard(mu, sigma, lower, upper).var * sigma


def _third(mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    return sigma * (sigma * box_standard(mu, sigma, lower, upper, 3).third) * sigma


@jax.custom_jvp
def _entropy(mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    c = kernel(mu, sigma, lower, upper)[1]
    return jnp.log(sigma * c.integral) + c.energy


@_entropy.defjvp
def _(primals: Four, tangents: Four) -> Pair:
    dmu, dsigma, dlower, dupper = (d / primals[1] for d in tangents)
    s = box_standard(*primals, 4)
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
    s, m = box_standard(mu, sigma, lower, upper), _mean(mu, sigma, lower, upper)
    second = m * m + s.var / precision
    change = m * dtheta - 0.5 * second * dprecision
    return _log_z(*primals), change + (s.at_upper * dupper - s.at_lower * dlower) / sigma


def in_order(lower: Array, upper: Array) -> Array:
    """Return the upper limit where it is above the lower one, NaN elsewhere."""
    return jnp.where(upper > lower, upper, jnp.nan)


def _checked(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function: NaN for a scale that is not positive or limits in the wrong order."""

    def call(mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
        return function(mu, positive(sigma), lower, in_order(lower, upper))

    return compiled(call)


@jax.custom_jvp
def _both(alpha: Array, lower: Array, upper: Array) -> Pair:
    s = box_standard(alpha, jnp.ones_like(alpha), lower, upper)
    outside = jnp.where(alpha <= lower, lower + s.low, upper - s.high)
    return jnp.where((lower < alpha) & (alpha < upper), alpha + s.mean, outside), s.var


@_both.defjvp
def _(primals: Three, tangents: Three) -> tuple[Pair, Pair]:
    alpha, lower, upper = primals
    change, dlower, dupper = tangents
    s = box_standard(alpha, jnp.ones_like(alpha), lower, upper, 3)
    # an infinite limit has density 0
    x, y = jnp.where(lower > -jnp.inf, s.low, 0), jnp.where(upper < jnp.inf, s.high, 0)
    V, low, high = s.var, s.at_lower * dlower, s.at_upper * dupper
    var = s.third * change + low * (V - x * x) + high * (y * y - V)
    return _both(*primals), (V * change + low * x + high * y, var)


_log_ndtr_interval = compiled(
    lambda a, b: box_standard(jnp.zeros_like(a), jnp.ones_like(a), a, in_order(a, b)).log_mass
)
_box_moments = compiled(lambda alpha, low, high: _both(alpha, low, in_order(low, high)))
_box_mean, _box_var, _box_third = _checked(_mean), _checked(_var), _checked(_third)
_box_entropy, _box_log_z = _checked(_entropy), _checked(_log_z)
