r"""Several layers as one joint truncated Gaussian, the paper's deep model.

With u¹ = W0 ψ + b0 and u^{l+1} = W^l h^l + b^l the energy Σ_l ‖h^l − u^l‖² / 2 s0 is a quadratic form whose
precision is block tridiagonal,

.. math::
    A_l = (I + W^{lT} W^l) / s_0 \;\; (A_L = I / s_0), \qquad B_l = -W^l / s_0, \qquad
    \gamma^l = (b^{l-1} - W^{lT} b^l) / s_0 \;\; (b^{0} = W_0 \psi + b_0,\; \gamma^L = b^{L-1} / s_0),

and y adds UᵀU to A_L and Uᵀ(y − b1)/σ1 to γ^L, U = W1/σ1. (Supplement, Eqs. for Q, β, P_i, γ_i: those scale
the output's blocks by 1/σ0² too.) It differs from the directed model by the factors Φ(u^l / σ0), l > 1, that
the directed one divides by.
"""

from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.models.hidden.base import Inferred, LinearEngine, require_connections, require_locations
from tggm.models.hidden.directed import N_NODES, Layers, propagated
from tggm.models.part import part
from tggm.precision import Layered
from tggm.products import full_precision


@part
class Undirected(Layers):
    """Several hidden layers at once."""

    offers: ClassVar = frozenset({"gaussian", "mean"})

    @full_precision
    def gaussian(self, psi: Any, U: Array | None = None, pull: Array | None = None) -> TruncatedGaussian:
        """The Gaussian of all hidden layers given x, and given what an output says of the last."""
        shift = self._shift(psi)
        if pull is not None:
            shift = shift + jnp.pad(pull, [(0, 0), (shift.shape[1] - pull.shape[1], 0)])
        return TruncatedGaussian(self._precision(U), shift)

    def start(self, psi: Any) -> Array:
        """Means as a directed model propagates them."""
        fixed: Undirected = lax.stop_gradient(self)
        return jnp.concatenate([layer.mean for layer in propagated(fixed, psi, N_NODES)], axis=1)

    def moments(self, psi: Any, engine: LinearEngine) -> Inferred:
        """By an engine: the prior needs inference too."""
        return Inferred(self.gaussian(psi), engine, self.start(psi))

    def mean(self, psi: Any, W: Array, engine: LinearEngine) -> Array:
        """By an engine."""
        return engine.linear_mean(self.gaussian(psi), W, self.start(psi))

    def check(self, narrow: str, psi: float) -> None:
        """Engines must find numbers."""
        require_locations(self.W0, self.b0, self.s0, psi, narrow)
        for W, b in zip(self.W, self.b, strict=True):
            require_connections("weights between layers", W, narrow)
            require_locations(W, b, self.s0, 1.0, narrow)

    def _precision(self, U: Array | None) -> Layered:
        blocks = []
        for i, m in enumerate([len(self.b0), *map(len, self.b)]):
            A = jnp.eye(m, dtype=self.W0.dtype)
            if i < len(self.W):
                A = A + self.W[i].T @ self.W[i]
            blocks.append(A / self.gauge)
        if U is not None:
            blocks[-1] = blocks[-1] + U.T @ U
        return Layered(tuple(blocks), tuple(-W / self.gauge for W in self.W))

    def _shift(self, psi: Any) -> Array:
        """γ of the prior, (rows, m_1 + … + m_L)."""
        biases = [psi @ self.W0.T + self.b0[None, :], *(b[None, :] for b in self.b)]
        parts = []
        for i, bias in enumerate(biases):
            pull = self.b[i] @ self.W[i] if i < len(self.W) else jnp.zeros_like(bias[0])
            part_ = (bias - pull[None, :]) / self.gauge
            parts.append(jnp.broadcast_to(part_, (biases[0].shape[0], bias.shape[1])))
        return jnp.concatenate(parts, axis=1)
