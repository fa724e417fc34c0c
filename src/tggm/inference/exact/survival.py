r"""Tail probabilities of a sum of truncated normals that can be differentiated: the likelihood of a limit.

With the contour and the letters of `tggm.inference.exact.fourier`, for the tail on the side of λ,

    T = ±(1/π) e^{K(λ) − λy} ∫₀^∞ Re F(t)/s dt,

and its derivatives are integrals of the same sweep: F/s · (g(z_k) − g(α_k)) for α_k, F · g(z_k) for c_k,
−F for y and ½ F s for s1.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.inference.exact.fourier import by_chunks, clear_of_zero, log_tails, sweep, vertical
from tggm.inference.exact.saddle import Sum, digits
from tggm.special import standard_moments
from tggm.special.characteristic import mass, numerator_moments, times


@jax.custom_jvp
def log_tail(sums: Sum, y: Array, side: Array) -> Array:
    """Log P(Y ≥ y) where side > 0, log P(Y ≤ y) elsewhere, for each row.

    The smaller tail has relative accuracy. Differentiable (first order) in everything but `side`.
    """
    low, high = log_tails(sums, y)
    return jnp.where(side > 0, high, low)


@log_tail.defjvp
def _log_tail_jvp(
    primals: tuple[Sum, Array, Array], tangents: tuple[Sum, Array, Array]
) -> tuple[Array, Array]:
    sums, y, side = primals
    d_sums, d_y, _ = tangents
    upper, log_T, by_alpha, by_coef, by_y, by_noise = by_chunks(_slopes, sums, y)
    slope = (by_alpha * d_sums.alpha + by_coef * d_sums.coef).sum(1) + by_y * d_y + by_noise * d_sums.noise
    log_T = jnp.minimum(log_T, -float(np.finfo(log_T.dtype).tiny))
    same = upper == (side > 0)
    # log(1 − T) has slope −T/(1 − T) times that of log T
    other = jnp.where(log_T > -0.7, jnp.log(-jnp.expm1(log_T)), jnp.log1p(-jnp.exp(log_T)))
    value = jnp.where(same, log_T, other)
    return value, jnp.where(same, slope, -jnp.exp(log_T - other) * slope)


def _slopes(sums: Sum, y: Array) -> tuple[Array, ...]:
    """Which tail was computed, its logarithm, and the derivatives of that."""
    lam = clear_of_zero(sums, y)
    contour = vertical(sums, y, lam, (digits(y.dtype) + 2) / jnp.abs(lam))
    alpha, coef = contour.tilted.alpha, contour.tilted.coef
    scale, centre = 1 / mass(alpha), standard_moments(alpha)[0]

    def factors(t: Array) -> tuple[Array, ...]:
        N, g, _ = jax.lax.optimization_barrier(
            numerator_moments(alpha[:, :, None], coef[:, :, None] * t[:, None, :], centre[:, :, None])
        )
        return jnp.prod(times(scale[:, :, None], N), 1), g

    def gather(s: Array, F: Array, g: Array) -> tuple[Array, ...]:
        over = F / s
        rows = over.real.sum(1), F.real.sum(1), (F * s).real.sum(1)
        return (*rows, (over[:, None, :] * g).real.sum(2), (F[:, None, :] * g).real.sum(2))

    row, variable = jnp.zeros_like(y), jnp.zeros_like(alpha)
    T, f, fs, mean, f_mean = sweep(contour, factors, (row, row, row, variable, variable), gather)
    sign = jnp.sign(lam)
    T = jnp.maximum(sign * T, float(np.finfo(T.dtype).tiny))
    log_T = contour.log_scale + jnp.log(T * contour.step / jnp.pi)
    unit, prior = (sign / T)[:, None], standard_moments(sums.alpha)[0]
    by_alpha = unit * mean - prior
    return lam > 0, log_T, by_alpha, unit * f_mean, -sign * f / T, 0.5 * sign * fs / T
