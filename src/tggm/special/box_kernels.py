r"""Values of the standard normal truncated to [a, b], each within a few units in the last place.

No formula is safe everywhere, so there are three, and one is selected without branches. The box is first
mirrored, if necessary, so that a is the limit nearer to zero. With its width w, its centre c and δ = w c:

* **tail**, a ≥ −¼ and δ > 3. The half-line beyond a is a mixture of the box and of the half-line beyond b,
  with weight ρ = e^{−δ} R(a)/R(b) (R(t) = φ(t)/Φ(−t)): the cumulants of the box follow from those of the
  half-lines, which are fitted (`tggm.special.kernels`). As b grows ρ vanishes, which leaves the half-line.
* **middle**, a < −¼ and w > 2.5. Textbook formulas with the densities at the limits, p_a = φ(a)/Z and p_b =
  φ(b)/Z, Z = 1 − Φ(a) − Φ(−b): mean p_a − p_b, variance 1 + a p_a − b p_b − mean², and so on.
* **narrow**, the rest: w ≤ 2.5 and δ ≤ 3. With h = c + uw/2 the density is proportional to exp(−κu − εu²) on
  [−1, 1], κ = δ/2 and ε = w²/8: Gauss-Legendre nodes in pairs ±u, so that terms odd in c do not cancel.

`second_order` computes mass, mean and variance only, for inner loops. With p and q = p e^{−δ} the densities
at the limits,

    tail     p = R_a R_b / (R_b − e^{−δ} R_a),                        mean − a = G_a − (q/R_b)(w + G_b − G_a)
    middle   p = E R_a R_b / (√(2π) R_a R_b − E (R_b + e^{−δ} R_a)),  mean = p − q
    narrow   p = (1 − V) / (mean − a + e^{−δ} (b − mean)),            mean and V are fitted

(in the middle R_a is taken at |a|, and E = e^{−a²/2}), and log(Φ(b) − Φ(a)) = log φ(a) − log p everywhere.
Shared subexpressions end in a division or an exponential, because XLA computes those once and repeats cheaper
operations for each result.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.special import kernels
from tggm.special.coefficients import FITS, NARROW

FAR = 1e8  # a limit this far from zero counts as infinite; its fourth power is finite in float32
WIDE = 2.5  # where the formulas change, in w
STEEP = 3.0  # and in δ; a steeper and narrower box has a ≥ 0
START = 0.25  # the fits start this far left of zero
LOG_SQRT_2PI = 0.9189385332046727
_PAIRS = {"float32": 4, "float64": 7}
_SINH_TERMS = {"float32": 6, "float64": 10}


class Box(NamedTuple):
    """Limits of a standard normal, mirrored so that a is the one nearer to zero."""

    a: Array
    b: Array
    w: Array  # width
    flipped: Array  # whether it was mirrored
    delta: Array  # (b² − a²) / 2, not negative
    narrow: Array  # whether to use the narrow formula,
    middle: Array  # the middle one, or else the tail


class Cumulants(NamedTuple):
    """Cumulants of the mirrored box."""

    log_mass: Array  # log(Φ(b) − Φ(a))
    integral: Array  # of exp((r² − h²)/2) over the box, r being a (tail), 0 (middle) or c (narrow)
    energy: Array  # ½ (E[h²] − r²)
    mean: Array
    low: Array  # mean − a
    high: Array  # b − mean
    var: Array
    third: Array
    fourth: Array
    density_low: Array  # at a
    density_high: Array  # at b
    gap: Array  # density_low − a


def box(a: Array, b: Array, width: Array) -> Box:
    """Return the mirrored box; `width` is b − a with all its digits."""
    flipped = -a > b  # also where both round to the same number
    low, high = jnp.where(flipped, -b, a), jnp.where(flipped, -a, b)
    low = jnp.maximum(low, -FAR)
    w = jnp.minimum(width, 2 * FAR)
    high = jnp.where(low < 0, jnp.minimum(high, FAR), low + w)
    centre = jnp.maximum(jnp.where(low < 0, 0.5 * (low + high), low + 0.5 * w), 0)
    delta = w * centre
    narrow = (w <= WIDE) & (delta <= STEEP)
    return Box(low, high, w, flipped, delta, narrow, (low < -START) & ~narrow)


def cumulants(at: Box, order: int) -> Cumulants:
    """Return cumulants up to `order`, 2 to 4; higher ones are undefined."""
    a, b = jnp.where(at.middle, -at.a, jnp.maximum(at.a, -START)), jnp.maximum(at.b, 0)
    means = kernels.tail("mean", a), kernels.tail("mean", b)
    tail, middle, narrow = _tail(at, means, order), _middle(at, means), _narrow(at)
    parts = (
        jnp.where(at.narrow, n, jnp.where(at.middle, m, t))
        for t, m, n in zip(tail, middle, narrow, strict=True)
    )
    return Cumulants(*parts)


def _tail(at: Box, means: tuple[Array, Array], order: int) -> Cumulants:
    a, b, w = jnp.maximum(at.a, -START), jnp.maximum(at.b, 0), at.w
    Ga, Gb = means
    zero = jnp.zeros_like(a)
    Va, Vb, Ta, Tb, Fa, Fb = (
        kernels.tail(name, t) if k <= order else zero
        for k, name in ((2, "var"), (3, "third"), (4, "fourth"))
        for t in (a, b)
    )
    Ra = a + Ga
    fall = jnp.exp(-at.delta)
    rho = fall * Ra / (b + Gb)
    rest = 1 - rho
    odds = rho / rest
    d = w + Gb - Ga
    D = d / rest  # distance between the means of the box and of what lies beyond it
    low = Ga - odds * d
    var = Va + odds * (Va - Vb - d * D)
    third = Ta + odds * (Ta - Tb) - rho * D * (3 * (Vb - var) + (1 - 2 * rho) * D * D)
    # fourth central moments about the mean of the half-line
    far, near = rest * D, -rho * D
    beyond = Fb + 3 * Vb * Vb + 4 * Tb * far + 6 * Vb * far**2 + far**4
    all_ = Fa + 3 * Va * Va
    about = all_ + odds * (all_ - beyond)
    fourth = about - 4 * third * near - 6 * var * near**2 - near**4 - 3 * var * var
    integral = rest / Ra
    # −a² / 2 − log(√(2π) R) is the logarithm of Φ(−a)
    log_mass = -0.5 * a * a - jnp.log(kernels.SQRT_2PI * Ra) + kernels.log_complement(rho)
    density = Ra / rest
    return Cumulants(
        log_mass, integral, low * (a + 0.5 * low) + 0.5 * var, a + low, low, w - low, var, third, fourth,
        density, density * fall, (Ga + rho * a) / rest,
    )  # fmt: skip


def _middle(at: Box, means: tuple[Array, Array]) -> Cumulants:
    a, b = jnp.minimum(at.a, 0), jnp.maximum(at.b, 0)
    Ea, Eb = kernels.gaussian(-a), kernels.gaussian(b)
    outside = (Ea / (means[0] - a) + Eb / (b + means[1])) / kernels.SQRT_2PI
    integral = kernels.SQRT_2PI * (1 - outside)
    pa, pb = Ea / integral, Eb / integral
    mean = pa * fall_below_one(at.delta)
    first = a * pa - b * pb
    var = 1 + first - mean * mean
    third = pa * (a * a - 1) - pb * (b * b - 1) - mean * (3 * first - 2 * mean * mean)
    M3, M2 = 2 * mean + a * a * pa - b * b * pb, 1 + first
    M4 = 3 * M2 + a * a * (a * pa) - b * b * (b * pb)
    fourth = M4 - 4 * mean * M3 + 6 * mean**2 * M2 - 3 * mean**4 - 3 * var * var
    return Cumulants(
        kernels.log_complement(outside), integral, 0.5 * M2, mean, mean - a, b - mean, var, third, fourth,
        pa, pb, pa - a,
    )  # fmt: skip


def _narrow(at: Box) -> Cumulants:
    w = jnp.minimum(at.w, WIDE)
    kappa, eps = jnp.minimum(0.5 * at.delta, 0.5 * STEEP), w * w / 8
    centre = 0.5 * (at.a + at.b)
    name = str(w.dtype)
    nodes, weights = np.polynomial.legendre.leggauss(2 * _PAIRS[name])
    even = [jnp.zeros_like(w) for _ in range(3)]  # averages of u^0, u^2, u^4
    odd = [jnp.zeros_like(w) for _ in range(2)]  # of −u, −u^3
    for u, weight in zip(nodes[_PAIRS[name] :], weights[_PAIRS[name] :], strict=True):
        height = float(weight) * jnp.exp(-eps * float(u * u))
        sinh = _sinh(kappa * float(u), _SINH_TERMS[name])
        cosh = height * jnp.sqrt(1 + sinh * sinh)
        sinh = height * sinh
        even = [s + cosh * float(u ** (2 * k)) for k, s in enumerate(even)]
        odd = [s + sinh * float(u ** (2 * k + 1)) for k, s in enumerate(odd)]
    total = even[0]
    m, m2, m3, m4 = -odd[0] / total, even[1] / total, -odd[1] / total, even[2] / total
    var = m2 - m * m
    third = m3 - m * (3 * m2 - 2 * m * m)
    fourth = m4 - 4 * m * m3 + m * m * (6 * m2 - 3 * m * m) - 3 * var * var
    half = 0.5 * w
    integral = w * total
    log_mass = jnp.log(w) + jnp.log(total / kernels.SQRT_2PI) - 0.5 * centre * centre
    base = 1 / integral
    low_edge = jnp.exp(kappa - eps) * base
    return Cumulants(
        log_mass, integral, kappa * m + eps * m2, centre + half * m, half * (1 + m), half * (1 - m),
        half**2 * var, half**3 * third, half**4 * fourth,
        low_edge, jnp.exp(-kappa - eps) * base, low_edge - at.a,
    )  # fmt: skip


def fall_below_one(delta: Array) -> Array:
    """Return 1 − e^{−δ}; `jnp.expm1` errs by 100 units in the last place in float32."""
    half = 0.5 * jnp.minimum(delta, STEEP)
    small = 2 * _sinh(half, _SINH_TERMS[str(delta.dtype)]) * jnp.exp(-half)
    return jnp.where(delta < 1, small, 1 - jnp.exp(-delta))


def _sinh(x: Array, terms: int) -> Array:
    """Return the hyperbolic sine of |x| ≤ 1.5 by its series."""
    square = x * x
    p = jnp.full_like(x, 1 / math.factorial(2 * terms - 1))
    for k in range(terms - 2, -1, -1):
        p = p * square + 1 / math.factorial(2 * k + 1)
    return p * x


def second_order(at: Box) -> Cumulants:
    """Return everything up to the variance; higher cumulants are zeros."""
    a, b, w, middle, narrow = at.a, jnp.maximum(at.b, 0), at.w, at.middle, at.narrow
    t = jnp.where(middle, -a, jnp.maximum(a, -START))
    Gt, Gb = _excess(t), _excess(b)
    Rt, Rb = t + Gt, b + Gb
    E, fall = kernels.gaussian(t), jnp.exp(-at.delta)
    both, kappa, half = Rt * Rb, jnp.minimum(0.5 * at.delta, 0.5 * STEEP), 0.5 * jnp.minimum(w, WIDE)
    m, v = _fitted_narrow(kappa, half)
    low_n, var_n = half * (1 + m), half * half * v
    outside = E * (Rb + fall * Rt) / (kernels.SQRT_2PI * both)

    over = jnp.where(narrow, 1 - var_n, jnp.where(middle, E * both, both))
    under = jnp.where(middle, kernels.SQRT_2PI * both * (1 - outside), Rb - fall * Rt)
    p = over / jnp.where(narrow, low_n + fall * half * (1 - m), under)
    q = p * fall

    odds, d = q / Rb, w + Gb - Gt
    first, mean_m = a * p - b * q, p * fall_below_one(at.delta)
    Va, Vb = kernels.tail("var", t), kernels.tail("var", b)
    tail_var = Va + odds * (Va - Vb - d * d * (1 + odds))
    tail_low = Gt - odds * d

    def chosen(tail: Array, middle_: Array, narrow_: Array) -> Array:
        return jnp.where(narrow, narrow_, jnp.where(middle, middle_, tail))

    low, var = chosen(tail_low, mean_m - a, low_n), chosen(tail_var, 1 + first - mean_m * mean_m, var_n)
    eps, zero = 0.5 * half * half, jnp.zeros_like(p)
    inside = 1 - outside
    log = jnp.log(jnp.where(middle, inside, p))
    return Cumulants(
        jnp.where(middle, log - (outside - (1 - inside)) / inside, -0.5 * a * a - LOG_SQRT_2PI - log),
        chosen(1 / p, kernels.SQRT_2PI * inside, jnp.exp(kappa - eps) / p),
        chosen(low * (a + 0.5 * low) + 0.5 * var, 0.5 * (1 + first), kappa * m + eps * (v + m * m)),
        chosen(a + low, mean_m, 0.5 * (a + at.b) + half * m),
        low, jnp.where(narrow, half * (1 - m), jnp.where(middle, b - mean_m, w - low)), var, zero, zero,
        p, q, chosen(Gt + odds * (Gt + a), p - a, p - a),
    )  # fmt: skip


def _excess(t: Array) -> Array:
    """Return the mean of N(−t, 1) given h ≥ 0, ending in a division."""
    start, c, coefficients = FITS[str(t.dtype)]["mean"]
    u = 1 - 2 * (c + start) / (t + c)
    return _polynomial(coefficients, u) / (t + c)


def _fitted_narrow(kappa: Array, half: Array) -> tuple[Array, Array]:
    """Return mean and variance of the density exp(−κu − εu²) on [−1, 1], ε = half²/2, ending in divisions."""
    square = kappa * kappa
    x, y = square * (8 / STEEP**2) - 1, half * half * (8 / WIDE**2) - 1
    inverse, spread = (
        _polynomial([_polynomial(row, x) for row in rows], y) for rows in NARROW[str(kappa.dtype)].values()
    )
    slope = lax.optimization_barrier(1 / inverse)
    return -kappa * slope, slope / (1 + square * spread)


def _polynomial(coefficients: Sequence[float | Array], u: Array) -> Array:
    """Return the sum of c_k u^k."""
    p = jnp.broadcast_to(coefficients[-1], u.shape).astype(u.dtype)
    for c in coefficients[-2::-1]:
        p = p * u + c
    return p
