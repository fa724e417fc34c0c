r"""What every function of a truncated normal on [l, u] rests on, with derivatives in all four arguments.

With h ~ N(μ, σ²) given l ≤ h ≤ u, its mean M, central moments V, T and fourth cumulant F, and its densities
p_l and p_u at the limits, the derivatives close on one another:

    ∂/∂μ:  M → V/σ²,                V → T/σ²,                 T → F/σ²
    ∂/∂l:  M → p_l (M − l),         V → p_l (V − (M − l)²),   T → p_l (T + (M − l)³ − 3 V (M − l))
    ∂/∂u:  M → p_u (u − M),         V → p_u ((u − M)² − V),   T → p_u ((u − M)³ − T − 3 V (u − M))
    ∂/∂σ:  Cov[·, (h − μ)²] / σ³,   as (μ, σ) ↦ (μ/σ², 1/σ²) are natural parameters of h and h².

All in units of σ here: limits a = (l − μ)/σ and b = (u − μ)/σ. M − l is `low`, u − M is `high`.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tggm.special import box_kernels
from tggm.special.box_cumulants import second_order

Four = tuple[Array, Array, Array, Array]


class Standard(NamedTuple):
    """Moments of (h − μ)/σ, with signs and sides as they are."""

    log_mass: Array
    mean: Array
    low: Array  # mean − a
    high: Array  # b − mean
    var: Array
    third: Array
    fourth: Array
    at_lower: Array  # density at a
    at_upper: Array  # density at b
    lower_gap: Array  # density at a, less a: what its logarithm grows by with a
    upper_gap: Array  # density at b, plus b


def kernel(
    mu: Array, sigma: Array, lower: Array, upper: Array, order: int = 2
) -> tuple[box_kernels.Box, box_kernels.Cumulants]:
    """The mirrored box and its cumulants; the width keeps all its digits."""
    at = box_kernels.box((lower - mu) / sigma, (upper - mu) / sigma, (upper - lower) / sigma)
    return at, second_order(at) if order == 2 else box_kernels.cumulants(at, order)


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def standard(mu: Array, sigma: Array, lower: Array, upper: Array, order: int = 2) -> Standard:
    """Moments up to an order, 2 to 4; a compiler drops what is not asked for."""
    at, c = kernel(mu, sigma, lower, upper, order)
    other = c.density_high + at.b  # what `gap` is at the limit farther from zero
    flip = at.flipped

    def side(x: Array, y: Array) -> Array:
        return jnp.where(flip, y, x)

    return Standard(
        c.log_mass, side(c.mean, -c.mean), side(c.low, c.high), side(c.high, c.low), c.var,
        side(c.third, -c.third), c.fourth, side(c.density_low, c.density_high),
        side(c.density_high, c.density_low), side(c.gap, other), side(other, c.gap),
    )  # fmt: skip


@standard.defjvp
def _(order: int, primals: Four, tangents: Four) -> tuple[Standard, Standard]:
    _, sigma, lower, upper = primals
    dmu, dsigma, dlower, dupper = (d / sigma for d in tangents)
    s = standard(*primals, 4)
    x, y, V, T, F = s.low, s.high, s.var, s.third, s.fourth
    pa, pb = s.at_lower, s.at_upper
    # moves of the limits with the box held at μ = 0, σ = 1; those of unlimited sides do not matter
    da, db = _finite(lower, dlower), _finite(upper, dupper)
    by_low, by_high = pa * da, pb * db
    a, b = s.mean - x, s.mean + y

    def central(value: Array, k: int, by_mu: Array, by_sigma: Array, low: Array, high: Array) -> Array:
        """Change of a cumulant of h of order k over σᵏ: σ itself changes the unit."""
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
    out = Standard(
        log_mass,
        mean,
        low,
        high,
        var,
        third,
        fourth,
        d_at_lower,
        d_at_upper,
        d_at_lower - d_a,
        d_at_upper + d_b,
    )
    return s, out


def _finite(limit: Array, change: Array) -> Array:
    return jnp.where(jnp.isfinite(limit), change, 0)


def edge_moments(alpha: Array, lower: Array, upper: Array) -> Standard:
    """Moments of N(alpha, 1) between limits, less alpha, and its densities at the limits."""
    return standard(alpha, jnp.ones_like(alpha), lower, upper)
