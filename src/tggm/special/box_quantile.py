r"""Inverse distribution function of a normal truncated to a box.

On the box mirrored as in `tggm.special.box_kernels`, with q the probability below h and s = 1 − q above it:

* tail: h − a is exceeded with probability s + qρ by a normal beyond a
  (`tggm.special.quantile.truncated_excess`);
* middle: Φ(h) = Φ(a) + qZ or Φ(−h) = Φ(−b) + sZ, whichever is below one half;
* narrow: steps of fourth order, from the quantile of an exponential, towards the t = (h − a)/w with
  ∫₀ᵗ e^{−awv − w²v²/2} dv = q ∫₀¹, the integrals by Gauss-Legendre.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from tggm.special import kernels
from tggm.special.arguments import evaluate, positive
from tggm.special.box_kernels import START, STEEP, WIDE, Box, Cumulants
from tggm.special.box_standard import kernel, standard
from tggm.special.boxes import in_order
from tggm.special.quantile import survival_quantile, truncated_excess_of_log

_NODES = {"float32": 8, "float64": 14}
Five = tuple[Array, Array, Array, Array, Array]


def box_quantile(q: ArrayLike, mu: ArrayLike, sigma: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Array:
    r"""The h in [lower, upper] below which a truncated normal is with probability q.

    .. math:: \Phi\left(\frac{h - \mu}{\sigma}\right) = (1 - q)\,\Phi(a) + q\,\Phi(b).

    Errs by a few units in the last place of the standard deviation of h or of h itself, whichever is larger.
    Draws of h are ``box_quantile(uniform, ...)``.
    """
    result: Array = evaluate(_box_quantile, q=q, mu=mu, sigma=sigma, lower=lower, upper=upper)
    return result


@jax.custom_jvp
def _quantile(q: Array, mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    at, c = kernel(mu, sigma, lower, upper)
    below, above = jnp.where(at.flipped, 1 - q, q), jnp.where(at.flipped, q, 1 - q)
    middle = _middle(at, c, below, above)
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
    return truncated_excess_of_log(-a, log_u, loop=True)


def _middle(at: Box, c: Cumulants, below: Array, above: Array) -> Array:
    tails_a, tails_b = kernels.tails(at.a).upper, kernels.tails(at.b).upper
    Z = c.integral / kernels.SQRT_2PI
    low, high = tails_a + below * Z, tails_b + above * Z
    tiny = float(np.finfo(at.a.dtype).tiny)
    x = survival_quantile(-jnp.log(jnp.maximum(jnp.minimum(low, high), tiny)))
    return jnp.clip(jnp.where(low < high, -x, x), at.a, at.b)


def _narrow(at: Box, below: Array) -> Array:
    w = jnp.minimum(at.w, WIDE)
    slope = jnp.clip(at.a * w, -WIDE * WIDE, STEEP)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES[str(w.dtype)])

    bend = 0.5 * w * w

    def density(t: Array, slope: Array, bend: Array) -> Array:
        return jnp.exp(-t * (slope + bend * t))

    axis = (slice(None), *(None,) * w.ndim)
    place, share = (jnp.asarray(x[axis], w.dtype) for x in (0.5 * (1 + nodes), 0.5 * weights))

    def integral(t: Array) -> Array:
        return (share * density(t[None] * place, slope[None], bend[None])).sum(0) * t

    target = below * integral(jnp.ones_like(w))
    rate = slope + 0.5 * w * w
    safe = jnp.where(jnp.abs(rate) < 1e-3, 1.0, rate)
    t = jnp.where(jnp.abs(rate) < 1e-3, below, -jnp.log1p(-below * -jnp.expm1(-safe)) / safe)

    def step(_: int, t: Array) -> Array:
        r = (integral(t) - target) / density(t, slope, bend)
        xi = slope + w * w * t
        return jnp.clip(t - r + 0.5 * xi * r * r - (2 * xi * xi + w * w) / 6 * r**3, 0, 1)

    # a loop, as in `truncated_excess_of_log`: programs that draw would take long to compile otherwise
    t = lax.fori_loop(0, 3 if w.dtype == jnp.float64 else 2, step, t)
    found: Array = t * at.w
    return found


@_quantile.defjvp
def _(primals: Five, tangents: Five) -> tuple[Array, Array]:
    q, mu, sigma, lower, upper = primals
    dq, dmu, dsigma, dlower, dupper = tangents
    h, s = _quantile(*primals), standard(mu, sigma, lower, upper)
    a, b = s.mean - s.low, s.mean + s.high
    x = jnp.clip((h - mu) / sigma, a, b)
    # densities at the limits, over that at h, times the probability beyond h on their other side
    low = jnp.where(s.at_lower > 0, (1 - q) * jnp.exp(0.5 * (x - a) * (x + a)), 0)
    high = jnp.where(s.at_upper > 0, q * jnp.exp(-0.5 * (b - x) * (b + x)), 0)
    # one over the density at h, from the limit with the larger density
    inverse = jnp.where(
        s.at_lower > s.at_upper,
        jnp.exp(0.5 * (x - a) * (x + a)) / s.at_lower,
        jnp.exp(-0.5 * (b - x) * (b + x)) / s.at_upper,
    )
    free = jnp.where((s.at_lower > 0) | (s.at_upper > 0), inverse, kernels.SQRT_2PI * jnp.exp(0.5 * x * x))
    change = sigma * free * dq + low * dlower + high * dupper
    return h, change + (1 - low - high) * dmu + (x - a * low - b * high) * dsigma


_box_quantile = jax.jit(
    lambda q, mu, sigma, lower, upper: _quantile(
        jnp.where((q >= 0) & (q <= 1), q, jnp.nan), mu, positive(sigma), lower, in_order(lower, upper)
    ),
    inline=True,
)
