r"""Hidden layers: independent units given the layer below, and how their moments propagate.

    p(h | x) = Π_l N_T(h^l | u^l, s0 I),      u¹ = W0 ψ + b0,   u^{l+1} = W^l h^l + b^l

Given x the moments of the first layer are exact. Above it, the location u = W h + b of a unit is approximated
by a Gaussian with the mean and variance that follow from the layer below, so that

.. math::
    E[h] = E_u[\sigma_0\, g(u/\sigma_0)], \qquad
    \mathrm{Var}[h] = E_u[s_0\, \omega^2(u/\sigma_0)] + \mathrm{Var}_u[\sigma_0\, g(u/\sigma_0)],

by Gauss–Hermite quadrature. Units of a layer above the first share the noise of the layers below. To first
order h = E[h] + κ (u − E[u]) + own noise, with κ = E[ω²] the mean slope (for a Gaussian u, κ Var[u] is the
exact covariance of h and u), so that the variance of an output is a sum over the units of all layers of

.. math::
    J_k^2 \cdot \text{variance of the unit's own noise}, \qquad
    J^{L} = W_1, \quad J^{l} = J^{l+1} \mathrm{diag}(\kappa^{l+1})\, W^l,

which is back-propagation of the output's weights. docs/deep.md compares it with sampling.

σ0² = s0 is the same for every layer and a gauge: scaling the variables of a layer, with the weights into and
out of it and its own variance, leaves p(y | x) unchanged.

A unit of unit scale has the mean g(a) and the variance ω²(a), with g' = ω² and (ω²)' = κ3 = r (g² − ω²). For
u ~ N(alpha, spread²) its moments are made of c = E[g(u)], κ = E[ω²(u)] and v = Var[g(u)] over quadrature
nodes, and so are their derivatives: automatic differentiation would compute these twice.
"""

from abc import ABC, abstractmethod
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.formulas import (
    LayerMoments,
    Triple,
    gauss_hermite,
    layer_above,
    unit_averages,
    unit_nodes,
    weighted_sum,
)
from tggm.models._part import part
from tggm.special.standard import moments as standard_moments

N_NODES = 3  # of the quadrature over locations, in training and prediction
UNROLLED = 3  # numbers of nodes up to this are unrolled; more are looped over, which compiles faster


class Latent(ABC):
    """Moments of the units of the last layer, for each row."""

    @abstractmethod
    def covariance(self, W: Array) -> tuple[Array, Array]:
        """Return E[h], (rows, m), and Cov[W h], (rows, n, n)."""

    def variances(self, W: Array) -> tuple[Array, Array]:
        """Return E[h] and the variances of W h, (rows, n)."""
        h, cov = self.covariance(W)
        return h, jnp.diagonal(cov, axis1=1, axis2=2)

    def products(self, W: Array, w: Array) -> Array:
        """Return Cov[W h] w for weights w of each row, (rows, n)."""
        return jnp.einsum("bij,bj->bi", self.covariance(W)[1], w)


class Hidden(ABC):
    """p(h | ψ), h ≥ 0 or between limits. σ0² = s0 is a gauge: it sets a scale and is never learned."""

    W0: Array  # (m_1, d)
    b0: Array  # (m_1,)
    s0: Array  # ()

    @property
    def gauge(self) -> Array:
        """Return the variance s0 of a unit before truncation, not differentiated."""
        return lax.stop_gradient(self.s0)

    @abstractmethod
    def moments(self, psi: Any) -> Latent:
        """Return the moments of the units of the last layer."""

    @classmethod
    @abstractmethod
    def draw(cls, rng: np.random.Generator, W0: Any, b0: Any, s0: float, units: tuple[int, ...]) -> "Hidden":
        """Draw the initial parameters of layers with so many units; W0 and b0 are drawn already."""


@part
class Independent(Latent):
    """Means and variances of independent units, (rows, m) each."""

    mean: Array
    var: Array

    def covariance(self, W: Array) -> tuple[Array, Array]:
        """Return the means and W diag(v) Wᵀ."""
        if W.shape[0] == 1:
            return self.mean, (self.var @ (W**2).T)[:, :, None]
        return self.mean, jnp.einsum("ik,bk,jk->bij", W, self.var, W)

    def variances(self, W: Array) -> tuple[Array, Array]:
        """Return the means and the sums of w² v."""
        return self.mean, self.var @ (W**2).T

    def products(self, W: Array, w: Array) -> Array:
        """Return W diag(v) Wᵀ w without the matrix."""
        return (self.var * (w @ W)) @ W.T


@part
class Shallow(Hidden):
    """One hidden layer of m units."""

    W0: Array  # (m, d)
    b0: Array  # (m,)
    s0: Array  # ()

    def moments(self, psi: Any) -> Independent:
        """Return E[h | ψ] = σ0 g(α) and Var[h | ψ] = s0 ω²(α), exact."""
        located = psi @ self.W0.T + self.b0[None, :]
        g, omega2 = unit_moments(located / jnp.sqrt(self.gauge))
        return Independent(jnp.sqrt(self.gauge) * g, self.gauge * omega2)

    @classmethod
    def draw(cls, rng: np.random.Generator, W0: Any, b0: Any, s0: float, units: tuple[int, ...]) -> "Shallow":
        """Return the layer of W0 and b0."""
        return cls(W0, b0, np.asarray(s0))  # type: ignore[arg-type]  # NumPy until training


@part
class Directed(Hidden):
    """Several hidden layers, each given the one below."""

    W0: Array  # (m_1, d)
    b0: Array  # (m_1,)
    W: tuple[Array, ...]  # W^l, (m_{l+1}, m_l)
    b: tuple[Array, ...]  # b^l, (m_{l+1},)
    s0: Array  # ()

    def moments(self, psi: Any) -> "Propagated":
        """Return the moments by propagation."""
        return Propagated(propagate(self, psi, N_NODES), self.W)

    @classmethod
    def draw(cls, rng: np.random.Generator, W0: Any, b0: Any, s0: float, units: tuple[int, ...]) -> Hidden:
        """Draw weights N(0, 1/m) between layers, which keeps the size of locations."""
        if len(units) == 1:
            return Shallow.draw(rng, W0, b0, s0, units)
        W, b = draw_between(rng, units)
        return cls(W0, b0, W, b, np.asarray(s0))  # type: ignore[arg-type]  # NumPy until training


def draw_between(rng: np.random.Generator, units: tuple[int, ...]) -> tuple[Any, Any]:
    """Draw weights N(0, 1/m) from each layer to the next, and biases of zero."""
    W = tuple(1 / np.sqrt(m) * rng.standard_normal((above, m)) for m, above in pairwise(units))
    return W, tuple(np.zeros(above) for above in units[1:])


def propagate(layers: Directed, psi: Any, n_nodes: int) -> list[LayerMoments]:
    """Return the moments of every hidden layer given x; the first are exact."""
    first = Shallow(layers.W0, layers.b0, layers.s0).moments(psi)
    found = [first_layer(first)]
    for W, b in zip(layers.W, layers.b, strict=True):
        found.append(layer_above(jnp, W, b, layers.gauge, found[-1], partial(averages, n_nodes)))
    return found


def first_layer(units: Independent) -> LayerMoments:
    """Return the moments of a layer without another below."""
    return LayerMoments(units.mean, units.var, jnp.ones_like(units.var), units.var)


class Propagated(Latent):
    """Moments of all layers, and the weights between them."""

    def __init__(self, layers: list[LayerMoments], W: tuple[Array, ...]) -> None:
        self._layers, self._W = layers, W

    def covariance(self, W: Array) -> tuple[Array, Array]:
        """Sum the own noise of all units, multiplied by their sensitivities."""
        if W.shape[0] == 1:  # one number per row: no batch of matrix products
            mean, var = self.variances(W)
            return mean, var[:, :, None]
        parts = [(J * layer.own[:, None, :]) @ J.mT for J, layer in self._sensitivities(W)]
        return self._layers[-1].mean, sum(parts[1:], parts[0])

    def variances(self, W: Array) -> tuple[Array, Array]:
        """Return the diagonal alone."""
        if W.shape[0] == 1:  # sensitivities of one output are matrices, whose products are faster
            return self._layers[-1].mean, self._variance(W[0])[:, None]
        parts = [(J**2 * layer.own[:, None, :]).sum(-1) for J, layer in self._sensitivities(W)]
        return self._layers[-1].mean, sum(parts[1:], parts[0])

    def _variance(self, w: Array) -> Array:
        """Return the variance of w·h^L, (rows,)."""
        total = self._layers[-1].own @ w**2
        J = w[None, :]
        for level in reversed(range(len(self._W))):
            J = (J * self._layers[level + 1].slope) @ self._W[level]
            total = total + (J**2 * self._layers[level].own).sum(-1)
        return total

    def _sensitivities(self, W: Array) -> list[tuple[Array, LayerMoments]]:
        """Return J^l, (rows, n, m_l), of W h^L for every layer, the last first."""
        J = jnp.broadcast_to(W[None], (self._layers[-1].own.shape[0], *W.shape))
        found = [(J, self._layers[-1])]
        for level in reversed(range(len(self._W))):
            J = jnp.einsum("bik,km->bim", J * self._layers[level + 1].slope[:, None, :], self._W[level])
            found.append((J, self._layers[level]))
        return found


@jax.custom_jvp
def unit_moments(a: Array) -> tuple[Array, Array]:
    """Return g(a) and ω²(a), as exact as `tggm.special.standard.moments`, with closed derivatives."""
    return standard_moments(a)


@unit_moments.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (a,), (da,) = primals, tangents
    g, omega2 = unit_moments(a)
    return (g, omega2), (omega2 * da, _third(a, g, omega2) * da)


def _third(a: Array, g: Array, omega2: Array) -> Array:
    """Return κ3, with r = g − a; it loses digits far on the left, where κ3 is negligible."""
    return jnp.minimum(g - a, 1e8) * (g**2 - omega2)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def averages(n_nodes: int, alpha: Array, spread: Array) -> Triple:
    """Return c, κ and v, elementwise."""
    places, weights = gauss_hermite(n_nodes)
    if n_nodes > UNROLLED:
        return _looped(places, weights, alpha, spread)
    return unit_averages(weights, unit_nodes(unit_moments, places, alpha, spread))


def _looped(places: list[float], weights: list[float], alpha: Array, spread: Array) -> Triple:
    """Compute the same by a loop over nodes; deviations are from g(alpha), so that v does not cancel."""
    z, w = jnp.asarray(places, alpha.dtype), jnp.asarray(weights, alpha.dtype)
    start, _ = unit_moments(alpha)

    def add(k: Array, sums: Triple) -> Triple:
        g, omega2 = unit_moments(alpha + spread * z[k])
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
    nodes = unit_nodes(unit_moments, places, alpha, spread)
    centre, slope, var = unit_averages(weights, nodes)
    omega2s = [omega2 for _, _, omega2 in nodes]
    third = [_third(*node) for node in nodes]
    products = [2 * (g - centre) * omega2 for _, g, omega2 in nodes]

    def change(of: list[Array]) -> Array:
        return weighted_sum(weights, of) * d_alpha + weighted_sum(moved, of) * d_spread

    return (centre, slope, var), (change(omega2s), change(third), change(products))
