r"""Several layers, each normalised given the one below, and how means and variances propagate through them.

    p(h | x) = Π_l N_T(h^l | u^l, s0 I),      u¹ = W0 ψ + b0,   u^{l+1} = W^l h^l + b^l

Given x the first layer is exact. Above it, the location u = W h + b of a unit is a sum over the layer below
and taken for a Gaussian with the mean and variance that follow from that layer, so that

.. math::
    E[h] = E_u[\sigma_0\, g(u/\sigma_0)], \qquad
    \mathrm{Var}[h] = E_u[s_0\, \omega^2(u/\sigma_0)] + \mathrm{Var}_u[\sigma_0\, g(u/\sigma_0)],

by Gauss–Hermite quadrature. Units of a layer above the first share the noise of the layers below. To first
order h = E[h] + κ (u − E[u]) + own noise, with κ = E[ω²] the mean slope (for a Gaussian u, κ Var[u] is the
exact covariance of h and u), so that the variance of an output is a sum over the units of all layers of

.. math::
    J_k^2 \cdot \text{variance of the unit's own noise}, \qquad
    J^{L} = W_1, \quad J^{l} = J^{l+1} \mathrm{diag}(\kappa^{l+1})\, W^l,

which is what back-propagating the output's weights gives. docs/deep.md shows the accuracy against sampling.

σ0² = s0 is the same for every layer and a gauge, as in one layer: scaling the variables of a layer, with the
weights into and out of it and its own variance, changes nothing. The noise of the output is kept apart. (§4.2
of Su et al. (2016); its supplement gives hidden layers and output one variance.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.formulas import LayerMoments as LayerMoments
from tggm.formulas import layer_above
from tggm.models.hidden.base import Hidden, Latent, LinearEngine
from tggm.models.hidden.shallow import Shallow
from tggm.models.hidden.unit import Triple, averages
from tggm.models.part import Zeros, part

N_NODES = 7  # that leave errors far below those of taking u for Gaussian


@dataclass(frozen=True, eq=False)
class Layers(Hidden):
    """Weights and biases of several hidden layers, directed or not, and where they start; abstract."""

    W0: Array  # (m_1, d)
    b0: Array  # (m_1,)
    W: tuple[Array, ...]  # W^l, (m_{l+1}, m_l)
    b: tuple[Array, ...]  # b^l, (m_{l+1},)
    s0: Array  # ()

    by_moments: ClassVar = True

    @property
    def gauge(self) -> Array:
        """s0."""
        return lax.stop_gradient(self.s0)

    @classmethod
    def draw(
        cls, rng: np.random.Generator, ends: Any, s0: float, layers: tuple[int, ...], **own: Any
    ) -> Self:
        """Weights between layers are N(0, 1/m): locations keep their size. "paper": all N(0, 0.01)."""
        W, b = [], []
        for below, above in pairwise(layers):
            paper = own["init"] == "paper"
            scale = 0.1 if paper else 1 / np.sqrt(below)
            W.append(scale * rng.standard_normal((above, below)))
            b.append(scale * rng.standard_normal(above) if paper else np.zeros(above))
        return cls(ends[0], ends[1], tuple(W), tuple(b), np.asarray(s0))  # type: ignore[arg-type]  # NumPy until training

    @classmethod
    def template(cls, zeros: Zeros, width: int, layers: tuple[int, ...], lateral: int) -> Self:
        """All layers."""
        between = [(zeros(above, below), zeros(above)) for below, above in pairwise(layers)]
        W, b = zip(*between, strict=True)
        return cls(zeros(layers[0], width), zeros(layers[0]), W, b, zeros())


def propagated(layers: Layers, psi: Any, n_nodes: int) -> list[LayerMoments]:
    """Moments of every hidden layer given x, the first exact."""
    first = Shallow(layers.W0, layers.b0, layers.s0).moments(psi)
    found = [LayerMoments(first.mean, first.var, jnp.ones_like(first.var), first.var)]
    for W, b in zip(layers.W, layers.b, strict=True):
        found.append(above(W, b, layers.gauge, found[-1], partial(averages, n_nodes)))
    return found


def above(
    W: Array, b: Array, s0: Array, below: LayerMoments, averaged: Callable[[Array, Array], Triple]
) -> LayerMoments:
    """Return the moments of the layer above `below`; `averaged` are those of a unit over its locations."""
    return layer_above(jnp, W, b, s0, below, averaged)


class Propagated(Latent):
    """Moments of all layers, and the weights between them."""

    def __init__(self, layers: list[LayerMoments], W: tuple[Array, ...]) -> None:
        self._layers, self._W = layers, W

    def covariance(self, W: Array) -> tuple[Array, Array]:
        """Own noise of all units, through their sensitivities."""
        if W.shape[0] == 1:  # a number a row: not a product of matrices for each
            mean, var = self.variances(W)
            return mean, var[:, :, None]
        parts = [(J * layer.own[:, None, :]) @ J.mT for J, layer in self._sensitivities(W)]
        return self._layers[-1].mean, sum(parts[1:], parts[0])

    def variances(self, W: Array) -> tuple[Array, Array]:
        """The diagonal alone."""
        if W.shape[0] == 1:  # sensitivities of one output are matrices, and products of them faster
            return self._layers[-1].mean, self._variance(W[0])[:, None]
        parts = [(J**2 * layer.own[:, None, :]).sum(-1) for J, layer in self._sensitivities(W)]
        return self._layers[-1].mean, sum(parts[1:], parts[0])

    def _variance(self, w: Array) -> Array:
        """Of w·h^L, (rows,)."""
        total = self._layers[-1].own @ w**2
        J = w[None, :]
        for level in reversed(range(len(self._W))):
            J = (J * self._layers[level + 1].slope) @ self._W[level]
            total = total + (J**2 * self._layers[level].own).sum(-1)
        return total

    def _sensitivities(self, W: Array) -> list[tuple[Array, LayerMoments]]:
        """J^l, (rows, n, m_l), of W h^L for every layer, the last first."""
        J = jnp.broadcast_to(W[None], (self._layers[-1].own.shape[0], *W.shape))
        found = [(J, self._layers[-1])]
        for level in reversed(range(len(self._W))):
            J = jnp.einsum("bik,km->bim", J * self._layers[level + 1].slope[:, None, :], self._W[level])
            found.append((J, self._layers[level]))
        return found


@part
class Directed(Layers):
    """Several hidden layers, each given the one below."""

    offers: ClassVar = frozenset({"moments", "mean"})

    def moments(self, psi: Any, engine: LinearEngine | None = None) -> Propagated:
        """By propagation."""
        return Propagated(propagated(self, psi, nodes_of(engine)), self.W)

    def mean(self, psi: Any, W: Array, engine: LinearEngine | None = None) -> Array:
        """W E[h^L | ψ]."""
        return propagated(self, psi, nodes_of(engine))[-1].mean @ W.T


def nodes_of(engine: LinearEngine | None) -> int:
    """Nodes of the quadrature that an engine asks for."""
    return N_NODES if engine is None else engine.nodes
