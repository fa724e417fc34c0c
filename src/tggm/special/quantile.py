"""Inverse tail functions of the normal, in logs, so that nothing under- or overflows.

`survival_quantile` inverts log(1 − Φ); `truncated_excess` is the quantile of a truncated normal, however far
out in the tail it is cut, without ever forming the tail probability.
"""

import math

import jax.numpy as jnp
from jax import Array, lax

from tggm.special.truncated import hazard, log_ndtr

_LOG_2 = math.log(2)
_LOG_2PI = math.log(2 * math.pi)
_W0 = math.sqrt(2 * _LOG_2)
_FAR = 650.0  # where the fit ends
_TAIL = 2.0  # where `truncated_excess` changes form

# tools/precompute/survival_quantile.py
_SCALE = 1.2956611733080820
_OFFSET = 11.885579166984898
_COEFFICIENTS = (
    -3.02966922524680626e-7,
    2.36157396731136914e-7,
    1.30587479698263336e-6,
    -8.10439454918174548e-7,
    -3.19488747293566999e-6,
    2.0747934316082526e-6,
    3.75241166896891438e-6,
    -1.67373615400398879e-6,
    -5.07838325725940216e-6,
    4.30462999638294105e-6,
    -1.79528083051241832e-6,
    5.92223225680323698e-6,
    -0.0000141041929736380489,
    0.0000235987195612353039,
    -0.0000422084429286962368,
    0.0000757974409121515283,
    -0.000141074363026672373,
    0.000256268760341248746,
    -0.000483015330323268591,
    0.000896822137383780407,
    -0.00173031730015874366,
    0.00330938523273969416,
    -0.0066735097520289186,
    0.013565850577986719,
    -0.0300792955516106556,
    0.067287041710231157,
    -0.183634045052144813,
    1.16743692520176274,
)


def survival_quantile(s: Array) -> Array:
    r"""The x that a standard normal exceeds with probability exp(−s), s > 0.

    Probabilities above one half are mirrored, s → −log(1 − e⁻ˢ). Then, with w = √(2s) and w₀ = √(2 log 2),
    x / (w − w₀) is a polynomial of degree 27 in 1 / (w + 4) as far as s = 650; beyond, X = x² solves

    .. math::
        X + \log X + 2/X - 5/X^2 + 74/(3 X^3) = y, \qquad y = 2 s - \log 2\pi,

    by one Newton step from y − log y. Relative error below 1e-14 for s > 1 (float64), absolute error below
    4e-15 elsewhere.
    """
    upper = s > _LOG_2
    y = 2 * jnp.maximum(s, _FAR) - _LOG_2PI
    # the two regions that need a logarithm do not meet, so one serves both
    log = jnp.log(jnp.where(upper, y, -jnp.expm1(-jnp.minimum(s, _LOG_2))))
    w = jnp.sqrt(2 * jnp.where(upper, s, -log))
    v = _SCALE - _OFFSET / (w + 4)
    near = jnp.full_like(v, _COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        near = near * v + coefficient
    near = near * (w - _W0)
    return jnp.where(upper, jnp.where(s < _FAR, near, _far_quantile(y, log)), -near)


def _far_quantile(y: Array, log_y: Array) -> Array:
    d = log_y / y  # at most 0.0056: log(1 − d) by its series
    inverse = 1 / (y - log_y)
    log_ratio = -d * (1 + d * (1 / 2 + d * (1 / 3 + d * (1 / 4 + d / 5))))
    F = log_ratio + inverse * (2 - inverse * (5 - inverse * (74 / 3)))
    return jnp.sqrt(y - log_y - F / (1 + inverse * (1 - 2 * inverse)))


def truncated_excess(alpha: Array, u: Array) -> Array:
    r"""Quantile of N(α, 1) truncated to [0, ∞): the h ≥ 0 exceeded with probability u in (0, 1).

    .. math::
        1 - \Phi(h - \alpha) = u\, \Phi(\alpha).

    For α > −2 by inverting Φ. Otherwise, with t = −α and the hazard r(x) = φ(x) / (1 − Φ(x)), by Newton steps
    on the convex, increasing

    .. math::
        F(h) = h (t + h/2) + \log\frac{r(t + h)}{r(t)} + \log u, \qquad F' = r(t + h),

    where neither the tail probability nor a difference t + h − t is formed: the error stays near rounding,
    relative to the standard deviation, for t of any size.
    """
    return truncated_excess_of_log(alpha, jnp.log(u))


def truncated_excess_of_log(alpha: Array, log_u: Array, *, loop: bool = False) -> Array:
    """`truncated_excess` of a probability given by its logarithm; a loop compiles sooner and runs slower."""
    bulk_alpha = jnp.maximum(alpha, -_TAIL)
    bulk = bulk_alpha + survival_quantile(-(log_u + log_ndtr(bulk_alpha)))
    t = jnp.maximum(-alpha, _TAIL)
    r_t = hazard(-t)
    h = -2 * log_u / (r_t + jnp.sqrt(r_t * r_t - 2 * log_u))  # were r(x) to grow as x

    def step(_: int, h: Array) -> Array:
        r = hazard(-(t + h))
        return h - (h * (t + h / 2) + jnp.log(r / r_t) + log_u) / r

    h = lax.fori_loop(0, 3, step, h) if loop else step(2, step(1, step(0, h)))
    return jnp.maximum(jnp.where(alpha > -_TAIL, bulk, h), 0)
