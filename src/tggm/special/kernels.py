r"""Functions of the standard normal truncated to h >= 0, each within a few units in the last place.

For h ~ N(alpha, 1) given h >= 0 the hazard r = φ/Φ, the mean g, the variance ω² and the higher cumulants obey

    g = alpha + r,   ω² = 1 − r g,   κ3 = r (g² − ω²),   κ4 = r (3 g ω² − g³ − κ3),

which cancel when alpha << 0. So the formulas change once, at or near alpha = 0:

* left of it, with t = −alpha, each cumulant is a polynomial in u = 1 − 2(c + start)/(t + c) over a power of
  t + c, fitted on the whole half-line by ``tools/precompute/coefficients.py``: nothing cancels;
* right of it, one exponential E = exp(−alpha²/2) and the fit at the mirrored point, R = r(−alpha), give
  r(alpha) = E / (√(2π) − E/R), and the formulas above are safe.

Both sides are evaluated and one is selected: no branches, so the same code is vectorised on a CPU and a GPU.
Functions compute shared subexpressions again; the compiler merges equal expressions. Each derivative is
another function of this file, so derivatives of every order are correct:

    (log Φ)' = r,   r' = −r g,   (r g)' = −κ3,   g' = ω²,   (ω²)' = κ3,   κ3' = κ4,   (r E[h²])' = −alpha κ3.

`low` is the part of the argument lost to rounding, see `residual`.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.special.coefficients import FITS

T = TypeVar("T")
SQRT_2PI = 2.5066282746310002
# Above this value all functions equal their limits in every dtype; its fourth power is finite in float32.
FAR = 1e8

_POWER = {"mean": 1, "var": 2, "third": 3, "fourth": 4}
# masks of the bits that hold the leading half of the digits
_HALF_LENGTH: dict[str, Any] = {"float32": np.uint32(0xFFFFF000), "float64": np.uint64(0xFFFFFFFFF8000000)}


def _differentiable(function: Callable[..., T]) -> "jax.custom_jvp[T]":
    """Trace the function once for each shape; the caller defines its derivative with `defjvp`."""
    return jax.custom_jvp(jax.jit(function))


def _slope(function: Any, slope: Callable[..., Array]) -> None:
    """Set the derivative of a function by its first argument."""

    def jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
        return function(*primals), slope(*primals) * tangents[0]

    function.defjvp(jvp)


def clip_far(a: Array) -> Array:
    """Clip the argument to finite values, for products whose other factor has reached its limit."""
    return jnp.clip(a, -1e30, FAR)


def tail(name: str, t: Array, *, times_t: bool = False) -> Array:
    """Return the fitted cumulant at alpha = -t, or t times it; t is not below the start of the fit."""
    start, c, coefficients = FITS[str(t.dtype)][name]
    w = 1 / (t + c)
    u = 1 - 2 * (c + start) * w
    rule = _horner if name in ("mean", "var") else _clenshaw
    scaled = rule(coefficients, u)
    if times_t:  # t w = 1 − c w stays finite at infinity
        return scaled * (1 - c * w) * w ** (_POWER[name] - 1)
    return scaled * w ** _POWER[name]


def _horner(coefficients: tuple[float, ...], u: Array) -> Array:
    """Return the sum of c_k u^k."""
    p = jnp.full_like(u, coefficients[-1])
    for c in coefficients[-2::-1]:
        p = p * u + c
    return p


def _clenshaw(coefficients: tuple[float, ...], u: Array) -> Array:
    """Return the sum of c_k T_k(u) at twice the cost, for fits in which the monomials would cancel."""
    b1, b2 = jnp.full_like(u, coefficients[-1]), jnp.zeros_like(u)
    for c in coefficients[-2:0:-1]:
        b1, b2 = 2 * u * b1 - b2 + c, b1
    return u * b1 - b2 + coefficients[0]


def half_length(x: Array) -> Array:
    """Return the leading half of the digits of x; products of two such numbers are exact."""
    mask = _HALF_LENGTH[str(x.dtype)]
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, mask.dtype) & mask, x.dtype)


def residual(numerator: Array, denominator: Array, quotient: Array) -> Array:
    """Return the rounding error of a quotient, numerator / denominator - quotient, to a few digits.

    It is zero outside 0 < quotient < 40, where it is not needed. All products are exact, so the compiler may
    fuse them.
    """
    n, d, q = numerator, denominator, quotient
    q1, d1 = half_length(q), half_length(d)
    q0, d0 = q - q1, d - d1
    rest = (((n - q1 * d1) - q1 * d0) - q0 * d1) - q0 * d0
    return jnp.where((q > 0) & (q < 40), rest / d, 0)


def gaussian(a: Array, low: Array | None = None, shift: Array | float = 0.0) -> Array:
    """Return exp(shift - (a + low)^2 / 2) for |a| <= FAR.

    The exponent is kept to twice the working precision: rounding a^2 alone would cost a^2 units in the last
    place. A shift is exact if it is 32 and a > 8, where the last digit of the square is coarse enough.
    """
    high = half_length(a)
    square = shift - 0.5 * high * high  # exact
    cross = -0.5 * (a - high) * (a + high)
    if low is not None:
        cross = cross - a * low
    exponent = square + cross
    return jnp.exp(exponent) * (1 + (cross - (exponent - square)))


def _fold(a: Array) -> Array:
    """Return the argument t of the fits: -a left of the change of form, a right of it."""
    return jnp.where(_left("mean", a), -a, a)


def _left(name: str, a: Array) -> Array:
    """Return whether the fitted form is used."""
    return a < -FITS[str(a.dtype)][name][0]


def _right(a: Array, low: Array | None = None) -> tuple[Array, Array, Array, Array]:
    """Return hazard / scale, the scale, mean and variance; undefined left of the change of form."""
    t = _fold(a)
    R = jnp.minimum(t + tail("mean", t), FAR)
    a = jnp.minimum(t, FAR)
    # scaled, so that products with powers of a are exact where the exponential itself is subnormal
    shift = jnp.where(a > 8, 32.0, 0.0).astype(a.dtype)
    scale = jnp.where(a > 8, math.exp(-32), 1.0).astype(a.dtype)
    E = gaussian(a, low, shift)
    r = E * R / (SQRT_2PI * R - E * scale)
    g = a + r * scale
    return r, scale, g, 1 - r * scale * g


def _mean_or_hazard(a: Array) -> Array:
    """Return the mean g left of the change of form, the hazard r right of it.

    It ends in a division because XLA computes a division once, but repeats cheaper operations, here the
    polynomial, for each use of the result. (The fit of the variance has its own c for the same reason: a
    shared 1 / (t + c) would need an array in memory.)
    """
    start, c, coefficients = FITS[str(a.dtype)]["mean"]
    t, left = _fold(a), _left("mean", a)
    w = 1 / (t + c)
    p = _horner(coefficients, 1 - 2 * (c + start) * w)
    R = jnp.minimum(t + p * w, FAR)
    E = gaussian(jnp.minimum(t, FAR))
    return jnp.where(left, p, E * R) / jnp.where(left, t + c, SQRT_2PI * R - E)


@_differentiable
def hazard(a: Array) -> Array:
    """Return φ(a) / Φ(a)."""
    q = _mean_or_hazard(a)
    return jnp.where(_left("mean", a), q - a, q)


@_differentiable
def moments(a: Array) -> tuple[Array, Array]:
    """Return the first two cumulants, g and ω²."""
    t, left = _fold(a), _left("mean", a)
    q = _mean_or_hazard(a)
    g = a + q
    return jnp.where(left, q, g), jnp.where(left, tail("var", t), 1 - q * jnp.minimum(g, FAR))


@_differentiable
def third(a: Array, low: Array | None = None) -> Array:
    """Return the third cumulant κ3."""
    r, scale, g, v = _right(a, low)
    return jnp.where(_left("third", a), _high_tail("third", a), r * (g * g - v) * scale)


@jax.jit
def fourth(a: Array) -> Array:
    """Return the fourth cumulant κ4."""
    r, scale, g, v = _right(a)
    textbook = r * (3 * g * v - g * g * g - r * scale * (g * g - v)) * scale
    return jnp.where(_left("fourth", a), _high_tail("fourth", a), textbook)


@_differentiable
def variance_loss(a: Array) -> Array:
    """Return r g = 1 − ω²: the product on the right, the difference on the left."""
    r, scale, g, _ = _right(a)
    return jnp.where(_left("var", a), 1 - tail("var", _fold(a)), r * g * scale)


@_differentiable
def spread(a: Array, low: Array | None = None) -> Array:
    """Return the derivative of σ g(μ/σ) by σ, g − a ω² = r (1 + a g), in the form that does not cancel."""
    t, (r, scale, g, _) = _fold(a), _right(a, low)
    left = tail("mean", t) + tail("var", t, times_t=True)
    return jnp.where(_left("var", a), left, r * (1 + jnp.minimum(a, FAR) * g) * scale)


def _high_tail(name: str, a: Array) -> Array:
    return tail(name, jnp.maximum(-a, FITS[str(a.dtype)][name][0]))


def tails(a: Array) -> tuple[Array, Array]:
    """Return r(-|a|) and Φ(-|a|), for functions that contain log Φ and change their form exactly at 0."""
    t = jnp.abs(a)
    R = t + tail("mean", t)
    return R, gaussian(jnp.minimum(t, FAR)) / (SQRT_2PI * R)


@_differentiable
def log_ndtr(a: Array) -> Array:
    """Return log Φ(a): −a²/2 − log(√(2π) r(a)) on the left, log(1 − Φ(−a)) on the right."""
    R, upper = tails(a)
    return jnp.where(a < 0, -0.5 * a * a - jnp.log(SQRT_2PI * R), log_complement(upper))


def log_ndtr_and_hazard(a: Array) -> tuple[Array, Array]:
    """Return log Φ(a) and φ(a) / Φ(a) in half of the time, with an error of a² units in the last place."""
    t, left = jnp.abs(a), a < 0
    root = SQRT_2PI * (t + tail("mean", t))
    E = jnp.exp(-0.5 * t * t)
    upper = E / root
    y = 1 - upper
    log = jnp.log(jnp.where(left, root, y))
    log_cdf = jnp.where(left, -0.5 * t * t - log, log - (upper - (1 - y)) / y)
    return log_cdf, jnp.where(left, root, E / y) / SQRT_2PI


def log_complement(x: Array) -> Array:
    """Return log(1 - x), 0 <= x <= 1/2; `jnp.log1p` has errors of 100 units in the last place in float64."""
    y = 1 - x
    return jnp.log(y) - (x - (1 - y)) / y


_slope(log_ndtr, hazard)
_slope(hazard, lambda a: -variance_loss(a))
_slope(variance_loss, lambda a: -third(a))
_slope(spread, lambda a, low: -clip_far(a) * third(a, low))
_slope(third, lambda a, _: fourth(a))


@moments.defjvp
def _(primals: Any, tangents: Any) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (a,), (da,) = primals, tangents
    g, v = moments(a)
    return (g, v), (v * da, third(a) * da)
