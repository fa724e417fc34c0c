r"""Moments of a unit between two limits, for training: at a given location, and averaged over a Gaussian one.

With x and y the distances of the mean from the lower and the upper limit, V the variance, and p, q the
densities at the limits, all in units of σ0, every derivative is made of these five:

.. math::
    \partial_a g = V, \qquad \partial_l g = p x, \qquad \partial_u g = q y, \\
    \partial_a V = p (x^2 - V) - q (y^2 - V), \quad \partial_l V = p (V - x^2), \quad
    \partial_u V = q (y^2 - V).

`tggm.models.hidden.unit` is the same for the half-line, and faster.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.models.hidden.unit import FEW, Triple, gauss_hermite
from tggm.special.boxes import edge_moments

MeanVariance = tuple[Array, Array]


def moments(a: Array, lower: Array | float, upper: Array | float) -> MeanVariance:
    """Mean g and variance ω² of N(a, 1) between limits, which are broadcast to the shape of a."""
    low, high = (jnp.broadcast_to(jnp.asarray(limit, a.dtype), a.shape) for limit in (lower, upper))
    return _moments(a, low, high)


@jax.custom_jvp
def _moments(a: Array, lower: Array, upper: Array) -> MeanVariance:
    s = edge_moments(a, lower, upper)
    return lower + s.low, s.var


@_moments.defjvp
def _(primals: Triple, tangents: Triple) -> tuple[MeanVariance, MeanVariance]:
    (a, lower, upper), (da, dl, du) = primals, tangents
    s = edge_moments(a, lower, upper)
    x, y, V, p, q = s.low, s.high, s.var, s.at_lower, s.at_upper
    by_lower, by_upper = p * (x * x - V), q * (y * y - V)
    d_mean = V * da + p * x * dl + q * y * du
    d_var = (by_lower - by_upper) * da - by_lower * dl + by_upper * du
    return (lower + x, V), (d_mean, d_var)


def averages(n_nodes: int, alpha: Array, spread: Array, lower: Array | float, upper: Array | float) -> Triple:
    """E[g(u)], E[ω²(u)] and Var[g(u)] for u ~ N(alpha, spread²), by Gauss–Hermite quadrature."""
    start, _ = moments(alpha, lower, upper)

    def add(sums: Triple, node: tuple[Array | float, Array | float]) -> tuple[Triple, None]:
        place, weight = node
        g, omega2 = moments(alpha + spread * place, lower, upper)
        away = g - start  # so that nothing large cancels in the variance
        terms = away, omega2, away * away
        first, second, third = (total + weight * term for total, term in zip(sums, terms, strict=True))
        return (first, second, third), None

    places, weights = gauss_hermite(n_nodes)
    sums = (jnp.zeros_like(alpha),) * 3
    if n_nodes <= FEW:
        for node in zip(places, weights, strict=True):
            sums, _ = add(sums, node)
    else:
        sums, _ = lax.scan(add, sums, (jnp.asarray(places, alpha.dtype), jnp.asarray(weights, alpha.dtype)))
    moved, slope, squares = sums
    return start + moved, slope, jnp.maximum(squares - moved * moved, 0.0)
