r"""Moments of a unit, for training: at a given location, and averaged over a Gaussian one.

A unit of unit scale has the mean g(a) and the variance ω²(a), with g' = ω² and (ω²)' = κ3 = r (g² − ω²).
For u ~ N(alpha, spread²) its moments are made of

.. math:: c = E[g(u)], \qquad \kappa = E[\omega^2(u)], \qquad v = \mathrm{Var}[g(u)],

by Gauss–Hermite quadrature, and so are their derivatives, over the same nodes. Automatic differentiation
would compute these twice, for alpha and for the spread, and κ3 by a fit that costs as much as all the rest.
The product above loses digits far on the left, where κ3 itself is nothing: its error is that of rounding g.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.special.standard import moments as standard_moments

Triple = tuple[Array, Array, Array]
FEW = 3  # nodes that are written out, which trains faster; for more, compiling would take longer than running


@jax.custom_jvp
def moments(a: Array) -> tuple[Array, Array]:
    """Both g(a) and ω²(a), as exact as `tggm.special.standard.moments`; the derivative is as above."""
    return standard_moments(a)


@moments.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (a,), (da,) = primals, tangents
    g, omega2 = moments(a)
    return (g, omega2), (omega2 * da, _third(a, g, omega2) * da)


def _third(a: Array, g: Array, omega2: Array) -> Array:
    """κ3, with r = g − a."""
    return jnp.minimum(g - a, 1e8) * (g**2 - omega2)


def gauss_hermite(n_nodes: int) -> tuple[list[float], list[float]]:
    """Places z and weights w for the standard normal."""
    places, masses = np.polynomial.hermite_e.hermegauss(n_nodes)
    return places.tolist(), (masses / masses.sum()).tolist()


def _average(weights: list[float], values: list[Array]) -> Array:
    total = weights[0] * values[0]
    for weight, value in zip(weights[1:], values[1:], strict=True):
        total = total + weight * value
    return total


def _nodes(places: list[float], alpha: Array, spread: Array) -> list[Triple]:
    """Locations, means and variances, node by node: an axis of nodes takes a CPU three times as long."""
    return [(a, *moments(a)) for a in (alpha + spread * place for place in places)]


def _values(weights: list[float], nodes: list[Triple]) -> Triple:
    centre = _average(weights, [g for _, g, _ in nodes])
    slope = _average(weights, [omega2 for _, _, omega2 in nodes])
    return centre, slope, _average(weights, [(g - centre) ** 2 for _, g, _ in nodes])


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def averages(n_nodes: int, alpha: Array, spread: Array) -> Triple:
    """c, κ and v, elementwise."""
    places, weights = gauss_hermite(n_nodes)
    if n_nodes > FEW:
        return _looped(places, weights, alpha, spread)
    return _values(weights, _nodes(places, alpha, spread))


def _looped(places: list[float], weights: list[float], alpha: Array, spread: Array) -> Triple:
    """The same by a loop over nodes, a program that compiles in a fraction of the time, on a GPU above all.

    Deviations are from g(alpha), so that nothing large cancels in v.
    """
    z, w = jnp.asarray(places, alpha.dtype), jnp.asarray(weights, alpha.dtype)
    start, _ = moments(alpha)

    def add(k: Array, sums: Triple) -> Triple:
        g, omega2 = moments(alpha + spread * z[k])
        terms = g - start, omega2, (g - start) ** 2
        first, second, third = (total + w[k] * term for total, term in zip(sums, terms, strict=True))
        return first, second, third

    nothing = jnp.zeros_like(alpha)
    moved, slope, squares = lax.fori_loop(jnp.int32(0), jnp.int32(len(places)), add, (nothing,) * 3)
    return start + moved, slope, jnp.maximum(squares - moved**2, 0.0)


@averages.defjvp
def _(n_nodes: int, primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Triple, Triple]:
    (alpha, spread), (d_alpha, d_spread) = primals, tangents
    places, weights = gauss_hermite(n_nodes)
    moved = [weight * place for weight, place in zip(weights, places, strict=True)]
    nodes = _nodes(places, alpha, spread)
    centre, slope, var = _values(weights, nodes)
    omega2s = [omega2 for _, _, omega2 in nodes]
    third = [_third(*node) for node in nodes]
    products = [2 * (g - centre) * omega2 for _, g, omega2 in nodes]

    def change(of: list[Array]) -> Array:
        return _average(weights, of) * d_alpha + _average(moved, of) * d_spread

    return (centre, slope, var), (change(omega2s), change(third), change(products))
