r"""Mass, mean and variance of the standard normal in a box: what inner loops ask for.

The three forms are those of `tggm.special.box_kernels`, and share what they can. With p and q = p e^{−δ} the
densities at the limits,

    tail     p = R_a R_b / (R_b − e^{−δ} R_a),                        mean − a = G_a − (q/R_b)(w + G_b − G_a)
    middle   p = E R_a R_b / (√(2π) R_a R_b − E (R_b + e^{−δ} R_a)),  mean = p − q
    narrow   p = (1 − V) / (mean − a + e^{−δ} (b − mean)),            mean and V are fitted

(in the middle R_a is taken at |a|, and E = e^{−a²/2}), and log(Φ(b) − Φ(a)) = log φ(a) − log p everywhere.
What several results share ends in a division or an exponential, because XLA computes those once, and repeats
cheaper operations for each result.
"""

import jax.numpy as jnp
from jax import Array, lax

from tggm.special import kernels
from tggm.special.box_kernels import START, STEEP, WIDE, Box, Cumulants, fall_below_one
from tggm.special.fits import FITS
from tggm.special.narrow_fits import NARROW

LOG_SQRT_2PI = 0.9189385332046727


def second_order(at: Box) -> Cumulants:
    """Everything up to the variance; higher cumulants are zeros."""
    a, b, w, middle, narrow = at.a, jnp.maximum(at.b, 0), at.w, at.middle, at.narrow
    t = jnp.where(middle, -a, jnp.maximum(a, -START))
    Gt, Gb = _excess(t), _excess(b)
    Rt, Rb = t + Gt, b + Gb
    E, fall = kernels.gaussian(t), jnp.exp(-at.delta)
    both, kappa, half = Rt * Rb, jnp.minimum(0.5 * at.delta, 0.5 * STEEP), 0.5 * jnp.minimum(w, WIDE)
    m, v = _narrow(kappa, half)
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
    """Mean of N(−t, 1) given h ≥ 0, ending in a division."""
    start, c, coefficients = FITS[str(t.dtype)]["mean"]
    u = 1 - 2 * (c + start) / (t + c)
    return _polynomial(coefficients, u) / (t + c)


def _narrow(kappa: Array, half: Array) -> tuple[Array, Array]:
    """Mean and variance on [−1, 1] of the density exp(−κu − εu²), ε = half²/2; both end in a division."""
    square = kappa * kappa
    x, y = square * (8 / STEEP**2) - 1, half * half * (8 / WIDE**2) - 1
    inverse, spread = (
        _polynomial([_polynomial(row, x) for row in rows], y) for rows in NARROW[str(kappa.dtype)].values()
    )
    slope = lax.optimization_barrier(1 / inverse)
    return -kappa * slope, slope / (1 + square * spread)


def _polynomial(coefficients: "tuple[float, ...] | list[Array]", u: Array) -> Array:
    """Sum of c_k u^k."""
    p = jnp.broadcast_to(coefficients[-1], u.shape).astype(u.dtype)
    for c in coefficients[-2::-1]:
        p = p * u + c
    return p
