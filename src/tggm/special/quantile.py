r"""Inverse tail functions of the normal in logs, which cannot overflow, and quantiles of a box.

`survival_quantile` inverts log(1 − Φ); `truncated_excess` is the quantile of a normal truncated to the
half-line, computed without the tail probability; `truncated_quantile` that of a normal in a box. On the box
mirrored as in `tggm.special.box_kernels`, with q the probability below h and s = 1 − q above it:

* tail: h − a is exceeded with probability s + qρ by a normal beyond a (`truncated_excess`);
* middle: Φ(h) = Φ(a) + qZ or Φ(−h) = Φ(−b) + sZ, whichever is below one half;
* narrow: steps of fourth order, from the quantile of an exponential, towards the t = (h − a)/w with
  ∫₀ᵗ e^{−awv − w²v²/2} dv = q ∫₀¹, the integrals by Gauss-Legendre.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from tggm.special import kernels
from tggm.special.box_kernels import START, STEEP, WIDE, Box, box_moments
from tggm.special.coefficients import SURVIVAL_QUANTILE
from tggm.special.truncated import above_or_nan, compile_jit, evaluate, positive_or_nan

_LOG_2 = math.log(2)
_LOG_2PI = math.log(2 * math.pi)
_W0 = math.sqrt(2 * _LOG_2)
_FAR = 650.0  # where the fit ends
_TAIL = 2.0  # −α beyond which `truncated_excess` uses Newton steps

_NODES = {"float32": 8, "float64": 14}


def survival_quantile(s: Array) -> Array:
    r"""Return the x that a standard normal exceeds with probability exp(−s), s > 0.

    Probabilities above one half are mirrored, s → −log(1 − e⁻ˢ). Then, with w = √(2s) and w₀ = √(2 log 2),
    x / (w − w₀) is a polynomial of degree 27 in 1 / (w + 4) as far as s = 650; beyond, X = x² solves

    .. math::
        X + \log X + 2/X - 5/X^2 + 74/(3 X^3) = y, \qquad y = 2 s - \log 2\pi,

    by one Newton step from y − log y. Relative error below 1e-14 for s > 1 (float64), absolute error below
    4e-15 elsewhere.
    """
    upper = s > _LOG_2
    y = 2 * jnp.maximum(s, _FAR) - _LOG_2PI
    # the two regions that need a logarithm do not overlap, so one logarithm is enough
    log = jnp.log(jnp.where(upper, y, -jnp.expm1(-jnp.minimum(s, _LOG_2))))
    w = jnp.sqrt(2 * jnp.where(upper, s, -log))
    v = SURVIVAL_QUANTILE["scale"] - SURVIVAL_QUANTILE["offset"] / (w + 4)
    first, *rest = SURVIVAL_QUANTILE["coefficients"]
    near = jnp.full_like(v, first)
    for coefficient in rest:
        near = near * v + coefficient
    near = near * (w - _W0)
    return jnp.where(upper, jnp.where(s < _FAR, near, _far_quantile(y, log)), -near)


def _far_quantile(y: Array, log_y: Array) -> Array:
    d = log_y / y  # at most 0.0056: log(1 − d) by its series
    inverse = 1 / (y - log_y)
    log_ratio = -d * (1 + d * (1 / 2 + d * (1 / 3 + d * (1 / 4 + d / 5))))
    F = log_ratio + inverse * (2 - inverse * (5 - inverse * (74 / 3)))
    return jnp.sqrt(y - log_y - F / (1 + inverse * (1 - 2 * inverse)))


def truncated_excess(alpha: Array, log_u: Array) -> Array:
    r"""Return the h ≥ 0 that N(α, 1) truncated to [0, ∞) exceeds with probability u in (0, 1).

    .. math::
        1 - \Phi(h - \alpha) = u\, \Phi(\alpha).

    For α > −2 by inverting Φ. Otherwise, with t = −α and the hazard r(x) = φ(x) / (1 − Φ(x)), by Newton steps
    on the convex, increasing

    .. math::
        F(h) = h (t + h/2) + \log\frac{r(t + h)}{r(t)} + \log u, \qquad F' = r(t + h),

    where neither the tail probability nor a difference t + h − t is formed: the error relative to the
    standard deviation is near rounding for any t.
    """
    bulk_alpha = jnp.maximum(alpha, -_TAIL)
    bulk = bulk_alpha + survival_quantile(-(log_u + kernels.log_ndtr(bulk_alpha)))
    t = jnp.maximum(-alpha, _TAIL)
    r_t = kernels.hazard(-t)
    h = -2 * log_u / (r_t + jnp.sqrt(r_t * r_t - 2 * log_u))  # the solution if r(x) grew as x
    for _ in range(3):
        r = kernels.hazard(-(t + h))
        h = h - (h * (t + h / 2) + jnp.log(r / r_t) + log_u) / r
    return jnp.maximum(jnp.where(alpha > -_TAIL, bulk, h), 0)


def truncated_quantile(
    q: ArrayLike, mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike = 0.0, upper: ArrayLike = math.inf
) -> Array:
    r"""Return the h in [lower, upper] such that a truncated normal is below h with probability q.

    .. math:: \Phi\left(\frac{h - \mu}{\sigma}\right) = (1 - q)\,\Phi(a) + q\,\Phi(b).

    The error is a few units in the last place of the standard deviation of h or of h itself, whichever is
    larger. Draws of h are ``truncated_quantile(uniform, ...)``. Not differentiable.
    """
    return evaluate(_truncated_quantile, q=q, mu=mu, sigma=sigma, lower=lower, upper=upper)


@compile_jit
def _truncated_quantile(q: Array, mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    q = jnp.where((q >= 0) & (q <= 1), q, jnp.nan)
    sigma, upper = positive_or_nan(sigma), above_or_nan(lower, upper)
    at, s = box_moments(mu, sigma, lower, upper)
    below, above = jnp.where(at.flipped, 1 - q, q), jnp.where(at.flipped, q, 1 - q)
    middle = _middle(at, s.integral / kernels.SQRT_2PI, below, above)
    wall = jnp.where(at.narrow, _narrow(at, below), _tail(at, below, above))
    wall = jnp.clip(wall, 0, at.w)
    near = jnp.where(at.flipped, upper - sigma * wall, lower + sigma * wall)
    inside = mu + sigma * jnp.where(at.flipped, -middle, middle)
    return jnp.clip(jnp.where(at.middle, inside, near), lower, upper)


def _tail(at: Box, below: Array, above: Array) -> Array:
    a = jnp.maximum(at.a, -START)
    Ra, Rb = a + kernels.tail("mean", a), jnp.maximum(at.b, 0)
    rho = jnp.exp(-at.delta) * Ra / (Rb + kernels.tail("mean", Rb))
    small = below * (1 - rho)
    log_u = jnp.where(
        small < 0.5, kernels.log_complement(jnp.minimum(small, 0.5)), jnp.log(above + below * rho)
    )
    return truncated_excess(-a, log_u)


def _middle(at: Box, Z: Array, below: Array, above: Array) -> Array:
    low, high = kernels.tails(at.a)[1] + below * Z, kernels.tails(at.b)[1] + above * Z
    tiny = float(np.finfo(at.a.dtype).tiny)
    x = survival_quantile(-jnp.log(jnp.maximum(jnp.minimum(low, high), tiny)))
    return jnp.clip(jnp.where(low < high, -x, x), at.a, at.b)


def _narrow(at: Box, below: Array) -> Array:
    w = jnp.minimum(at.w, WIDE)
    slope = jnp.clip(at.a * w, -WIDE * WIDE, STEEP)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES[str(w.dtype)])

    curvature = 0.5 * w * w

    def density(t: Array, slope: Array, curvature: Array) -> Array:
        return jnp.exp(-t * (slope + curvature * t))

    axis = (slice(None), *(None,) * w.ndim)
    place, share = (jnp.asarray(x[axis], w.dtype) for x in (0.5 * (1 + nodes), 0.5 * weights))

    def integral(t: Array) -> Array:
        return (share * density(t[None] * place, slope[None], curvature[None])).sum(0) * t

    target = below * integral(jnp.ones_like(w))
    rate = slope + 0.5 * w * w
    safe = jnp.where(jnp.abs(rate) < 1e-3, 1.0, rate)
    t = jnp.where(jnp.abs(rate) < 1e-3, below, -jnp.log1p(-below * -jnp.expm1(-safe)) / safe)

    def step(_: int, t: Array) -> Array:
        r = (integral(t) - target) / density(t, slope, curvature)
        xi = slope + w * w * t
        return jnp.clip(t - r + 0.5 * xi * r * r - (2 * xi * xi + w * w) / 6 * r**3, 0, 1)

    # a loop compiles faster than unrolled steps
    t = lax.fori_loop(0, 3 if w.dtype == jnp.float64 else 2, step, t)
    return t * at.w
