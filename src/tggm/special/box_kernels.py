r"""Values of the normal truncated to a box [lower, upper], each within a few units in the last place.

No single formula is accurate everywhere. Three are evaluated, and one is selected without branches. The
limits, in units of σ from μ, are mirrored, if necessary, so that a is the one nearer to zero. With width w,
centre c, δ = w c, R(t) = φ(t)/Φ(−t), G_t = R(t) − t, and p and q = p e^{−δ} the densities at the limits:

* **tail**, a ≥ −¼ and δ > 3. The half-line beyond a is a mixture of the box and of the half-line beyond b,
  with weight ρ = e^{−δ} R_a/R_b: the cumulants of the box follow from those of the half-lines, which are
  fitted (`tggm.special.kernels`). As b grows, ρ vanishes and the half-line remains.
* **middle**, a < −¼ and w > 2.5. Textbook formulas: mean p − q, variance 1 + a p − b q − mean², and so on.
* **narrow**, the rest: w ≤ 2.5 and δ ≤ 3. With h = c + uw/2 the density is proportional to exp(−κu − εu²) on
  [−1, 1], κ = δ/2 and ε = w²/8. Its mean and variance V are fitted; its third and fourth cumulant use
  Gauss-Legendre nodes in pairs ±u, so that terms odd in c do not cancel.

    tail     p = R_a R_b / (R_b − e^{−δ} R_a),                        mean − a = G_a − (q/R_b)(w + G_b − G_a)
    middle   p = E R_a R_b / (√(2π) R_a R_b − E (R_b + e^{−δ} R_a)),  mean = p − q
    narrow   p = (1 − V) / (mean − a + e^{−δ} (b − mean))

(in the middle R_a is taken at |a|, and E = e^{−a²/2}), and log(Φ(b) − Φ(a)) = log φ(a) − log p everywhere.
Shared subexpressions end in a division or an exponential, because XLA computes those once and repeats cheaper
operations for each result.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.special import kernels
from tggm.special.coefficients import FITS, NARROW

FAR = 1e8  # a limit this far from zero counts as infinite; its fourth power is finite in float32
WIDE = 2.5  # w at which the formulas change
STEEP = 3.0  # δ at which they change; a box with a larger δ and a smaller w has a ≥ 0
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
    narrow: Array  # whether to use the narrow formula
    middle: Array  # whether to use the middle formula; if neither, the tail


class BoxMoments(NamedTuple):
    """Moments of (h − μ)/σ; those of the mirrored box exchange and negate some of them."""

    log_mass: Array  # log(Φ(b) − Φ(a))
    integral: Array  # of exp((r² − h²)/2) over the box, r being a (tail), 0 (middle) or c (narrow)
    mean: Array
    low: Array  # mean − a
    high: Array  # b − mean
    var: Array
    at_lower: Array  # density at a
    at_upper: Array  # density at b


@jax.custom_jvp
def box(mu: Array, sigma: Array, lower: Array, upper: Array) -> Box:
    """Return the mirrored box; its width is computed from the limits, without cancellation."""
    a, b, width = (lower - mu) / sigma, (upper - mu) / sigma, (upper - lower) / sigma
    flipped = -a > b  # also where both round to the same number
    low, high = jnp.where(flipped, -b, a), jnp.where(flipped, -a, b)
    low = jnp.maximum(low, -FAR)
    w = jnp.minimum(width, 2 * FAR)
    high = jnp.where(low < 0, jnp.minimum(high, FAR), low + w)
    centre = jnp.maximum(jnp.where(low < 0, 0.5 * (low + high), low + 0.5 * w), 0)
    delta = w * centre
    narrow = (w <= WIDE) & (delta <= STEEP)
    return Box(low, high, w, flipped, delta, narrow, (low < -START) & ~narrow)


@box.defjvp
def _(primals: object, tangents: object) -> NoReturn:
    raise NotImplementedError("functions of a box have first derivatives only, and its quantile has none.")


def box_moments(mu: Array, sigma: Array, lower: Array, upper: Array) -> tuple[Box, BoxMoments]:
    """Return the mirrored box, and moments that are not mirrored."""
    at = box(mu, sigma, lower, upper)
    c, flip = mirrored_moments(at), at.flipped

    def side(x: Array, y: Array) -> Array:
        return jnp.where(flip, y, x)

    return at, c._replace(
        mean=side(c.mean, -c.mean), low=side(c.low, c.high), high=side(c.high, c.low),
        at_lower=side(c.at_lower, c.at_upper), at_upper=side(c.at_upper, c.at_lower),
    )  # fmt: skip


def high_cumulants(mu: Array, sigma: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return the third and fourth cumulant of (h − μ)/σ."""
    at = box(mu, sigma, lower, upper)
    c = mirrored_moments(at)
    third, fourth = (
        jnp.where(at.narrow, n, jnp.where(at.middle, m, t))
        for t, m, n in zip(_tail(at, c), _middle(at, c), _narrow(at), strict=True)
    )
    return jnp.where(at.flipped, -third, third), fourth


def _tail(at: Box, c: BoxMoments) -> tuple[Array, Array]:
    a, b = jnp.maximum(at.a, -START), jnp.maximum(at.b, 0)
    Ga, Gb, Va, Vb, Ta, Tb, Fa, Fb = (
        kernels.tail(name, t) for name in ("mean", "var", "third", "fourth") for t in (a, b)
    )
    rho = jnp.exp(-at.delta) * (a + Ga) / (b + Gb)
    rest = 1 - rho
    odds = rho / rest
    D = (at.w + Gb - Ga) / rest  # distance between the means of the box and of what lies beyond it
    third = Ta + odds * (Ta - Tb) - rho * D * (3 * (Vb - c.var) + (1 - 2 * rho) * D * D)
    # fourth central moments about the mean of the half-line
    far, near = rest * D, -rho * D
    beyond = Fb + 3 * Vb * Vb + 4 * Tb * far + 6 * Vb * far**2 + far**4
    all_ = Fa + 3 * Va * Va
    about = all_ + odds * (all_ - beyond)
    return third, about - 4 * third * near - 6 * c.var * near**2 - near**4 - 3 * c.var * c.var


def _middle(at: Box, c: BoxMoments) -> tuple[Array, Array]:
    a, b, p, q, mean = jnp.minimum(at.a, 0), jnp.maximum(at.b, 0), c.at_lower, c.at_upper, c.mean
    first = a * p - b * q
    third = p * (a * a - 1) - q * (b * b - 1) - mean * (3 * first - 2 * mean * mean)
    M3, M2 = 2 * mean + a * a * p - b * b * q, 1 + first
    M4 = 3 * M2 + a * a * (a * p) - b * b * (b * q)
    return third, M4 - 4 * mean * M3 + 6 * mean**2 * M2 - 3 * mean**4 - 3 * c.var * c.var


def _narrow(at: Box) -> tuple[Array, Array]:
    w = jnp.minimum(at.w, WIDE)
    kappa, eps = jnp.minimum(0.5 * at.delta, 0.5 * STEEP), w * w / 8
    name = str(w.dtype)
    nodes, weights = np.polynomial.legendre.leggauss(2 * _PAIRS[name])
    even = [jnp.zeros_like(w) for _ in range(3)]  # averages of u^0, u^2, u^4
    odd = [jnp.zeros_like(w) for _ in range(2)]  # of −u, −u^3
    for u, weight in zip(nodes[_PAIRS[name] :], weights[_PAIRS[name] :], strict=True):
        height = float(weight) * jnp.exp(-eps * float(u * u))
        sinh = _sinh(kappa * float(u), _SINH_TERMS[name])
        cosh = height * jnp.sqrt(1 + sinh * sinh)
        even = [s + cosh * float(u ** (2 * k)) for k, s in enumerate(even)]
        odd = [s + height * sinh * float(u ** (2 * k + 1)) for k, s in enumerate(odd)]
    m, m2, m3, m4 = (x / even[0] for x in (-odd[0], even[1], -odd[1], even[2]))
    var = m2 - m * m
    third = m3 - m * (3 * m2 - 2 * m * m)
    fourth = m4 - 4 * m * m3 + m * m * (6 * m2 - 3 * m * m) - 3 * var * var
    return (0.5 * w) ** 3 * third, (0.5 * w) ** 4 * fourth


def _one_minus_exp(delta: Array) -> Array:
    """Return 1 − e^{−δ}; `jnp.expm1` has errors of 100 units in the last place in float32."""
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


def mirrored_moments(at: Box) -> BoxMoments:
    """Return the moments of the mirrored box."""
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
    first, mean_m = a * p - b * q, p * _one_minus_exp(at.delta)
    Va, Vb = kernels.tail("var", t), kernels.tail("var", b)
    tail_var = Va + odds * (Va - Vb - d * d * (1 + odds))
    tail_low = Gt - odds * d

    def select(tail: Array, middle_: Array, narrow_: Array) -> Array:
        return jnp.where(narrow, narrow_, jnp.where(middle, middle_, tail))

    low, var = select(tail_low, mean_m - a, low_n), select(tail_var, 1 + first - mean_m * mean_m, var_n)
    inside = 1 - outside
    log = jnp.log(jnp.where(middle, inside, p))
    return BoxMoments(
        jnp.where(middle, log - (outside - (1 - inside)) / inside, -0.5 * a * a - LOG_SQRT_2PI - log),
        select(1 / p, kernels.SQRT_2PI * inside, jnp.exp(kappa - 0.5 * half * half) / p),
        select(a + low, mean_m, 0.5 * (a + at.b) + half * m),
        low, jnp.where(narrow, half * (1 - m), jnp.where(middle, b - mean_m, w - low)), var, p, q,
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
