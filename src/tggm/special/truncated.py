r"""Moments, entropy and log-partition function of a normal truncated to h >= 0 or to a box.

Everywhere h ~ N(mu, sigma²) given lower <= h <= upper, by default h >= 0, and alpha = mu / sigma. A limit may
be infinite; boxes may be as narrow and as far from mu as the dtype allows. All functions are elementwise,
broadcast, keep the dtype of floating arguments, have closed-form derivatives, and return NaN for NaN, for a
scale that is not positive and for limits in the wrong order.

For h >= 0 the relative error of values and first derivatives is below 5e-15 (float64) or 1e-6 (float32) for
every alpha (`tests/special/test_reference.py`), and derivatives of every order exist. Boxes have first
derivatives in every argument and take four to five times as long.

Entropy and log-partition function are a logarithm of the normalising integral plus terms of order alpha²,
which cancel on the left. There, with the hazard r and the mean g of :mod:`tggm.special.kernels`, 1/r(alpha)
already contains the difference:

    log ∫ exp(−½ p h² + θ h) dh  =  −log(√p r(alpha)),         alpha = θ / √p < 0,
    entropy                      =  −log(r(alpha) / σ) + ½ (1 − alpha g(alpha)),    alpha = μ / σ < 0.

Each is one logarithm of one product, so that near its zero the error stays of the order of the rounding unit.

With the mean M of a box, its central moments V, T and fourth cumulant F, and its densities p_l and p_u at the
limits, the derivatives are

    ∂/∂μ:  M → V/σ²,                V → T/σ²
    ∂/∂l:  M → p_l (M − l),         V → p_l (V − (M − l)²)
    ∂/∂u:  M → p_u (u − M),         V → p_u ((u − M)² − V)
    ∂/∂σ:  Cov[·, (h − μ)²] / σ³,   as (μ, σ) ↦ (μ/σ², 1/σ²) are natural parameters of h and h².
"""

import math
from collections.abc import Callable
from typing import TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from tggm.special import kernels
from tggm.special.box_kernels import box_moments, high_cumulants

Pair = tuple[Array, Array]
Three = tuple[Array, Array, Array]
Four = tuple[Array, Array, Array, Array]
T = TypeVar("T")
SQRT_2PIE = 4.1327313541224929
SQRT_E = 1.6487212707001282


def evaluate(function: Callable[..., T], **arguments: ArrayLike) -> T:
    """Apply an elementwise function to arguments brought to one floating dtype and one shape.

    Integers and booleans take the dtype of the floating arguments, or the default float; 16-bit floats are
    computed in float32 and rounded back.
    """
    values = [np.asarray(x) if isinstance(x, list | tuple) else x for x in arguments.values()]
    for name, x in zip(arguments, values, strict=True):
        if jnp.issubdtype(dtype := jnp.result_type(x), jnp.complexfloating):
            raise TypeError(f"`{name}` must be real, got dtype {dtype}; pass its real part.")
    floats = [x for x in values if jnp.issubdtype(jnp.result_type(x), jnp.floating)]
    dtype = jnp.result_type(*floats) if floats else jnp.result_type(float)
    work = dtype if dtype.itemsize >= 4 else np.dtype("float32")
    arrays = jnp.broadcast_arrays(*(jnp.asarray(x, work) for x in values))
    return jax.tree.map(lambda y: y.astype(dtype), function(*arrays))


def compile_jit(function: Callable[..., T]) -> Callable[..., T]:
    """Compile a function, inlined into programs that call it."""
    return cast(Callable[..., T], jax.jit(function, inline=True))


def positive_or_nan(x: Array) -> Array:
    """Return x where it is positive, NaN elsewhere."""
    return jnp.where(x > 0, x, jnp.nan)


def above_or_nan(lower: Array, upper: Array) -> Array:
    """Return the upper limit where it is above the lower one, NaN elsewhere."""
    return jnp.where(upper > lower, upper, jnp.nan)


def _dispatch(
    half_line: Callable[..., T], box: Callable[..., T], lower: ArrayLike, upper: ArrayLike, **given: ArrayLike
) -> T:
    """Apply `half_line`, which is faster, if the limits are zero and infinity, otherwise `box`."""
    if isinstance(lower, int | float) and isinstance(upper, int | float) and (lower, upper) == (0, math.inf):
        return evaluate(half_line, **given)
    return evaluate(box, **given, lower=lower, upper=upper)


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


def log_ndtr_interval(a: ArrayLike, b: ArrayLike) -> Array:
    r"""Return the log probability that a standard normal is in [a, b], :math:`\log(\Phi(b) - \Phi(a))`.

    Finite for b > a, also where the probability underflows or both limits round to the same Φ.
    """
    return evaluate(_log_ndtr_interval, a=a, b=b)


def standard_moments(alpha: ArrayLike, lower: ArrayLike = 0.0, upper: ArrayLike = math.inf) -> Pair:
    r"""Return mean and variance of N(alpha, 1) truncated to [lower, upper], for inner loops of engines.

    .. math::
        g = \alpha + r(\alpha), \quad \omega^2 = 1 - r g,
        \qquad g' = \omega^2, \quad (\omega^2)' = r (g^2 - \omega^2) \qquad \text{for } h \ge 0.
    """
    return _dispatch(_standard_half_line, _standard_box, lower, upper, alpha=alpha)


def truncated_mean(
    mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike = 0.0, upper: ArrayLike = math.inf
) -> Array:
    r"""Return the mean of a truncated normal; for h >= 0 the model's activation function.

    .. math::
        E[h] = \mu + \sigma \frac{\phi(a) - \phi(b)}{\Phi(b) - \Phi(a)},
        \qquad a = \frac{l - \mu}{\sigma},\quad b = \frac{u - \mu}{\sigma},

    which for h >= 0 is :math:`\sigma\, g(\alpha) = \mu + \sigma\, \phi(\alpha) / \Phi(\alpha)`. Increasing in
    `mu` and both limits, between the limits, and ``clip(mu, lower, upper)`` for small `sigma`.
    """
    return _dispatch(_half_line_mean, _box_mean, lower, upper, mu=mu, sigma=sigma)


def truncated_var(
    mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike = 0.0, upper: ArrayLike = math.inf
) -> Array:
    r"""Return the variance of a truncated normal.

    .. math:: \sigma^2 \left(1 + \frac{a \phi(a) - b \phi(b)}{\Phi(b) - \Phi(a)} - \bar h^2\right),

    with :math:`\bar h` the standardised mean; for h >= 0 it is :math:`\sigma^2 (1 - r g)`. It is below
    ``sigma**2`` and below ``(upper - lower)**2 / 12``.
    """
    return _dispatch(_half_line_var, _box_var, lower, upper, mu=mu, sigma=sigma)


def truncated_log_z(
    theta: ArrayLike, precision: ArrayLike, lower: ArrayLike = 0.0, upper: ArrayLike = math.inf
) -> Array:
    r"""Return the log-partition function of one truncated variable in natural parameters.

    .. math:: \log Z(\theta, p) = \log \int_l^u e^{-p h^2 / 2 + \theta h}\, dh.

    Its derivatives are :math:`E[h]`, :math:`-\tfrac12 E[h^2]`, and the densities at the limits, with a minus
    sign at the lower one. For h >= 0 it is :math:`\tfrac12 \theta^2 / p + \tfrac12 \log(2 \pi / p) + \log
    \Phi(\theta / \sqrt p)`, and convex.
    """
    return _dispatch(_half_line_log_z, _box_log_z, lower, upper, theta=theta, precision=precision)


def truncated_entropy(mu: ArrayLike, sigma: ArrayLike) -> Array:
    r"""Return the differential entropy of a normal truncated to the nonnegative half-line, in nats.

    .. math::
        H = \log(\sigma \sqrt{2 \pi e}\, \Phi(\alpha)) - \tfrac12 \alpha\, r(\alpha),
        \qquad \alpha = \mu / \sigma.

    Increasing in `mu` and in `sigma`; for very negative `mu` near :math:`1 + \log(\sigma^2 / |\mu|)`, the
    entropy of an exponential.
    """
    return evaluate(_half_line_entropy, mu=mu, sigma=sigma)


def ratio(mu: Array, sigma: Array) -> Pair:
    """Return alpha and its rounding error, which changes φ(alpha) by alpha² units in the last place."""
    alpha = mu / sigma
    return alpha, jax.lax.stop_gradient(kernels.residual(mu, sigma, alpha))


@jax.custom_jvp
def _moments(mu: Array, sigma: Array) -> Pair:
    alpha = mu / sigma
    g, omega2 = kernels.moments(alpha)
    mean = jnp.where(alpha < 0, sigma * g, mu + sigma * kernels.hazard(alpha))
    return mean, sigma * omega2 * sigma


@_moments.defjvp
def _(primals: Pair, tangents: Pair) -> tuple[Pair, Pair]:
    (mu, sigma), (dmu, dsigma) = primals, tangents
    alpha, low = ratio(mu, sigma)
    v, third = kernels.moments(alpha)[1], kernels.third(alpha, low)
    d_mean = v * dmu + kernels.spread(alpha, low) * dsigma
    d_var = sigma * third * dmu + sigma * (2 * v - kernels.clip_far(alpha) * third) * dsigma
    return _moments(mu, sigma), (d_mean, d_var)


def _log_product(x: Array, y: Array) -> Array:
    """Return log(x y), as one logarithm unless the product is not a normal number."""
    product = x * y
    limits = np.finfo(product.dtype)
    inside = (product >= limits.tiny) & (product <= limits.max)
    return jnp.log(jnp.where(inside, product, x)) + jnp.where(inside, 0, jnp.log(y))


@jax.custom_jvp
def _entropy(mu: Array, sigma: Array) -> Array:
    alpha = mu / sigma
    near = kernels.clip_far(alpha)
    R, upper = kernels.tails(alpha)
    integral = jnp.where(alpha < 0, SQRT_E / R, SQRT_2PIE * (1 - upper))
    energy = near * jnp.where(alpha < 0, kernels.moments(near)[0], kernels.hazard(near))
    return _log_product(sigma, integral) - 0.5 * energy


@_entropy.defjvp
def _(primals: Pair, tangents: Pair) -> Pair:
    (mu, sigma), (dmu, dsigma) = primals, tangents
    alpha, low = ratio(mu, sigma)
    near = kernels.clip_far(alpha)
    slope = 0.5 * kernels.spread(alpha, low)
    change = 1 - 0.5 * near * kernels.spread(near, low)
    return _entropy(mu, sigma), slope / sigma * dmu + change / sigma * dsigma


@jax.custom_jvp
def _log_z(theta: Array, precision: Array) -> Array:
    root = jnp.sqrt(precision)
    alpha = theta / root
    left = -jnp.log(root * kernels.moments(alpha)[0] - theta)  # √p r(alpha), also where alpha overflows
    right = 0.5 * alpha * alpha + jnp.log(kernels.SQRT_2PI * (1 - kernels.tails(alpha)[1]) / root)
    return jnp.where(alpha < 0, left, right)


@_log_z.defjvp
def _(primals: Pair, tangents: Pair) -> Pair:
    (theta, precision), (dtheta, dprecision) = primals, tangents
    root = jnp.sqrt(precision)
    alpha = theta / root
    g, omega2 = kernels.moments(alpha)
    second = jnp.where(alpha < 0, omega2 + g * g, 1 + alpha * g)  # E[h²] p; each side sums positive terms
    return _log_z(theta, precision), g / root * dtheta - 0.5 * second / precision * dprecision


@jax.custom_jvp
def _box(mu: Array, sigma: Array, lower: Array, upper: Array) -> Pair:
    at, s = box_moments(mu, sigma, lower, upper)
    wall = jnp.where(at.flipped, upper - sigma * s.high, lower + sigma * s.low)
    return jnp.where(at.a < 0, mu + sigma * s.mean, wall), sigma * s.var * sigma


@_box.defjvp
def _(primals: Four, tangents: Four) -> tuple[Pair, Pair]:
    sigma, (dmu, dsigma, dlower, dupper) = primals[1], tangents
    _, s = box_moments(*primals)
    third, fourth = high_cumulants(*primals)
    m, V, x, y = s.mean, s.var, s.low, s.high
    low, high = s.at_lower * dlower, s.at_upper * dupper
    d_mean = V * dmu + (third + 2 * m * V) * dsigma + low * x + high * y
    d_var = third * dmu + (fourth + 2 * V * V + 2 * m * third) * dsigma
    return _box(*primals), (d_mean, sigma * (d_var + low * (V - x * x) + high * (y * y - V)))


@jax.custom_jvp
def _log_z_of_box(theta: Array, precision: Array, lower: Array, upper: Array) -> Array:
    root = jnp.sqrt(precision)
    at, s = box_moments(theta / precision, 1 / root, lower, upper)
    wall = jnp.where(at.flipped, upper, lower)
    r = jnp.where(at.narrow, 0.5 * (lower + upper), wall)
    energy = jnp.where(at.middle, 0.5 * theta * (theta / precision), (theta - 0.5 * precision * r) * r)
    return jnp.log(s.integral / root) + energy


@_log_z_of_box.defjvp
def _(primals: Four, tangents: Four) -> Pair:
    theta, precision, lower, upper = primals
    dtheta, dprecision, dlower, dupper = tangents
    given = theta / precision, 1 / jnp.sqrt(precision), lower, upper
    (mean, var), s = _box(*given), box_moments(*given)[1]
    change = mean * dtheta - 0.5 * (mean * mean + var) * dprecision
    return _log_z_of_box(*primals), change + (s.at_upper * dupper - s.at_lower * dlower) / given[1]


@jax.custom_jvp
def log_mass(mu: Array, a: Array, b: Array) -> Array:
    """Return the log probability that N(mu, 1) is in [a, b]; a difference of limits is not rounded."""
    return box_moments(mu, jnp.ones_like(mu), a, b)[1].log_mass


@log_mass.defjvp
def _(primals: Three, tangents: Three) -> Pair:
    dmu, da, db = tangents
    _, s = box_moments(primals[0], jnp.ones_like(primals[0]), *primals[1:])
    return log_mass(*primals), s.mean * dmu + s.at_upper * db - s.at_lower * da


_log_ndtr = compile_jit(kernels.log_ndtr)
_hazard = compile_jit(kernels.hazard)
_log_ndtr_interval = compile_jit(lambda a, b: log_mass(jnp.zeros_like(a), a, above_or_nan(a, b)))
_standard_half_line = compile_jit(kernels.moments)
_standard_box = compile_jit(
    lambda alpha, lower, upper: _box(alpha, jnp.ones_like(alpha), lower, above_or_nan(lower, upper))
)
_half_line_mean = compile_jit(lambda mu, sigma: _moments(mu, positive_or_nan(sigma))[0])
_half_line_var = compile_jit(lambda mu, sigma: _moments(mu, positive_or_nan(sigma))[1])
_half_line_entropy = compile_jit(lambda mu, sigma: _entropy(mu, positive_or_nan(sigma)))
_half_line_log_z = compile_jit(lambda theta, precision: _log_z(theta, positive_or_nan(precision)))


def _compile_box(function: Callable[..., T]) -> Callable[..., T]:
    """Compile a function of a box: NaN for a scale that is not positive or limits in the wrong order."""

    def call(mu: Array, sigma: Array, lower: Array, upper: Array) -> T:
        return function(mu, positive_or_nan(sigma), lower, above_or_nan(lower, upper))

    return compile_jit(call)


_box_mean, _box_var = _compile_box(lambda *box: _box(*box)[0]), _compile_box(lambda *box: _box(*box)[1])
_box_log_z = _compile_box(_log_z_of_box)
