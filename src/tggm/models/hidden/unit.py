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
from jax import Array, lax

from tggm.formulas import Triple as Triple
from tggm.formulas import gauss_hermite as gauss_hermite
from tggm.formulas import unit_averages, unit_nodes, weighted_sum
from tggm.special.standard import moments as standard_moments

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


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def averages(n_nodes: int, alpha: Array, spread: Array) -> Triple:
    """c, κ and v, elementwise."""
    places, weights = gauss_hermite(n_nodes)
    if n_nodes > FEW:
        return _looped(places, weights, alpha, spread)
    return unit_averages(weights, unit_nodes(moments, places, alpha, spread))


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
    nodes = unit_nodes(moments, places, alpha, spread)
    centre, slope, var = unit_averages(weights, nodes)
    omega2s = [omega2 for _, _, omega2 in nodes]
    third = [_third(*node) for node in nodes]
    products = [2 * (g - centre) * omega2 for _, g, omega2 in nodes]

    def change(of: list[Array]) -> Array:
        return weighted_sum(weights, of) * d_alpha + weighted_sum(moved, of) * d_spread

    return (centre, slope, var), (change(omega2s), change(third), change(products))
