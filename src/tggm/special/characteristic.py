r"""Characteristic function and moments of the truncated normal under an imaginary tilt.

For h ~ N(α, 1) truncated to h ≥ 0 and any complex s, with z = α + s,

    E[e^{sh}] = e^{L(z) − L(α)},  L(z) = z²/2 + log Φ(z),  L' = g = z + φ(z)/Φ(z),  L'' = ω² = 1 + z g − g².

On Re z ≤ 0 all quantities are quotients of Laplace transforms, x = −z/√2:

    J_n(x) = (2/√π) ∫₀^∞ vⁿ e^{−v² − 2xv} dv,    e^L ∝ J₀ = erfcx(x),    g = √2 J₁/J₀,    g² + ω² = 2 J₂/J₀,

and one polynomial gives all three (`tools/precompute/coefficients.py`). On Re z > 0 the reflection
Φ(z) = 1 − ½ e^{−z²/2} erfcx(z/√2) is used, scaled by e^{−iτα}, so that no phase is large.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.special import kernels
from tggm.special.coefficients import ERFCX

_L = 4.0
_C = 1 / math.sqrt(math.pi)
_ROOT_HALF = math.sqrt(0.5)


def laplace(x: Array, y: Array, order: int = 0) -> tuple[Array, ...]:
    """Return J₀(x + iy), …, J_order(x + iy) for x ≥ 0 and order ≤ 2; J₀ = erfcx.

    Relative errors in float64: 2e-15, 2e-14 and 5e-13. The polynomial has real coefficients, so Goertzel's
    recurrence needs only real arithmetic.
    """
    d = _L + x
    scale = 1 / (d * d + y * y)
    ur, ui = d * scale, -y * scale
    zr, zi = 2 * _L * ur - 1, 2 * _L * ui
    p, q = 2 * zr, zr * zr + zi * zi
    terms = ERFCX if x.dtype == np.float64 else ERFCX[:20]
    b1, b2 = jnp.full_like(p, terms[-1]), jnp.zeros_like(p)
    for a in terms[-2:0:-1]:
        b1, b2 = a + (p * b1 - q * b2), b1
    W = lax.complex(terms[0] + zr * b1 - q * b2, zi * b1)
    u = lax.complex(ur, ui)
    V = _C * (_L**3 - 1.5 * _L) + u * W
    J0 = u * (_C + u * (_C * _L + u * (_C * (_L**2 - 0.5) + u * V)))
    if order == 0:
        return (J0,)
    A = u * W - _C * _L  # V minus c L (L² − ½): no terms of J₁ cancel
    u2 = u * u
    J1 = u2 * (0.5 * _C - u * (A - _L * (u * V)))
    if order == 1:
        return J0, J1
    J2 = u2 * u * (W + 0.5 * _C * (_L**2 - 0.5) - _L * (V + A) + (0.5 + _L**2) * (u * V))
    return J0, J1, J2


def _cis(t: Array) -> Array:
    """Return e^{it}, faster than the library sine and cosine: a quarter of the angle, doubled twice."""
    turns = jnp.round(t * (0.5 / math.pi))
    x = (t - turns * 6.28125) - turns * 0.00193530717958647692  # 2π in two parts: the first product is exact
    x = jnp.clip(0.25 * x, -1, 1)  # beyond 1/eps no digit of the phase is right, but it must stay finite
    x2 = x * x
    s, c1 = jnp.zeros_like(x), jnp.zeros_like(x)  # sin x / x, and cos x − 1
    for k in range(8 if t.dtype == np.float64 else 5, 0, -1):
        s = 1 - x2 * s / (2 * k * (2 * k + 1))
        c1 = -(x2 + x2 * c1) / (2 * k * (2 * k - 1))
    s = x * s
    s, c1 = 2 * s * (1 + c1), -2 * s * s
    s, c1 = 2 * s * (1 + c1), -2 * s * s
    return lax.complex(1 + c1, s)


def multiply(factor: Array, z: Array) -> Array:
    """Multiply a complex array by a real one."""
    return lax.complex(factor * z.real, factor * z.imag)


def _line_weights(alpha: Array, tau: Array) -> tuple[Array, Array]:
    """Return the weights of the line, e^{−τ²/2}, and of its negative half, e^{−α²/2 − iατ}."""
    return jnp.exp(-0.5 * tau * tau), multiply(jnp.exp(-0.5 * jnp.maximum(alpha, 0) ** 2), _cis(-alpha * tau))


def numerator(alpha: Array, tau: Array) -> Array:
    """Return E[e^{iτ(h − max(α, 0))}] · `mass`(α).

    The shift by max(α, 0) keeps phases small; callers add its sum over variables once.
    """
    alpha, tau = jnp.broadcast_arrays(alpha, tau)
    positive = alpha > 0
    (J0,) = laplace(jnp.abs(alpha) * _ROOT_HALF, jnp.where(positive, tau, -tau) * _ROOT_HALF)
    line, turn = _line_weights(alpha, tau)
    half = -0.5 * (turn * J0)
    return jnp.where(positive, lax.complex(line + half.real, half.imag), J0)


def numerator_moments(alpha: Array, tau: Array, centre: Array) -> tuple[Array, Array, Array]:
    """Return `numerator`, and E[h] and E[(h − centre)²] under the tilt iτ.

    For α > 0 they are quotients of the moments of the whole line minus those of its negative half,

        N_n = e^{−τ²/2} (1,  z,  1 + (z − c)²) − e^{−α²/2 − iατ} (½J₀,  −J₁/√2,  J₂ + √2 c J₁ + ½ c² J₀).

    At a zero of N₀ the quotients have a pole; only numerator times quotient is used, so N₀ is kept away from
    zero. With `centre` near g(α) the second moment does not cancel.
    """
    alpha, tau, centre = jnp.broadcast_arrays(alpha, tau, centre)
    positive = alpha > 0
    J0, J1, J2 = laplace(jnp.abs(alpha) * _ROOT_HALF, jnp.where(positive, tau, -tau) * _ROOT_HALF, order=2)
    J1 = math.sqrt(2) * J1
    square, cross = 2 * J2 + multiply(centre * centre, J0), multiply(2 * centre, J1)
    line, turn = _line_weights(alpha, tau)
    half, line = 0.5 * turn, lax.complex(line, jnp.zeros_like(line))
    away = lax.complex(alpha - centre, tau)
    N = jnp.where(positive, line - half * J0, J0)
    N = jnp.where(N == 0, float(np.finfo(tau.dtype).tiny) ** 0.5, N)
    first = jnp.where(positive, line * lax.complex(alpha, tau) + half * J1, J1)
    second = jnp.where(positive, line * (1 + away * away) - half * (square + cross), square - cross)
    return N, first / N, second / N


def mass(alpha: Array) -> Array:
    """Return `numerator` at τ = 0: Φ(α) for α > 0, erfcx(−α/√2) = 2 e^{α²/2} Φ(α) otherwise."""
    R, upper = kernels.tails(alpha)
    return jnp.where(alpha > 0, 1 - upper, 2 / (kernels.SQRT_2PI * R))


def log_mass(alpha: Array) -> Array:
    """Return L(α) − max(α, 0)²/2: log Φ(α) for α > 0, log(½ erfcx(−α/√2)) otherwise."""
    R, upper = kernels.tails(alpha)
    return jnp.where(alpha > 0, kernels.log_complement(upper), -jnp.log(kernels.SQRT_2PI * R))
