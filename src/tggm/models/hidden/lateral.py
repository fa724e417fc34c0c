"""One layer with lateral connections between its units, which the paper leaves to the future.

    p(h | x) = N_T(h | W0 ψ + b0, P0⁻¹),      P0 = (I + VᵀV) / s0,      V of a few rows

A pair of units whose columns of V have a positive product inhibit each other, a negative one excite. The
prior is no longer independent, so that its log Z and its moments need an engine as those of the posterior
do; for `LowRank` that costs what the posterior costs.
"""

from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.models.hidden.base import Hidden, Inferred, LinearEngine, require_connections, require_locations
from tggm.models.part import Zeros, part
from tggm.precision import LowRank
from tggm.products import full_precision


@part
class Lateral(Hidden):
    """One hidden layer of m units, connected by V."""

    W0: Array  # (m, d)
    b0: Array  # (m,)
    V: Array  # (rank, m), in units of 1/σ0: the gauge does not touch it
    s0: Array  # ()

    offers: ClassVar = frozenset({"gaussian"})
    by_moments: ClassVar = False

    @property
    def gauge(self) -> Array:
        """s0."""
        return lax.stop_gradient(self.s0)

    @full_precision
    def gaussian(self, psi: Any, U: Array | None = None, pull: Array | None = None) -> TruncatedGaussian:
        """P = (I + VᵀV)/s0 + UᵀU, γ = (I + VᵀV)(W0 ψ + b0)/s0 + pull."""
        a = psi @ self.W0.T + self.b0[None, :]
        V = self.V / jnp.sqrt(self.gauge)
        shift = a / self.gauge + (a @ V.T) @ V
        factors = V if U is None else jnp.concatenate([V, U])
        base = jnp.full_like(self.b0, 1.0) / self.gauge
        return TruncatedGaussian(LowRank(base, factors), shift if pull is None else shift + pull)

    def moments(self, psi: Any, engine: LinearEngine) -> Inferred:
        """By an engine."""
        return Inferred(self.gaussian(psi), engine, None)

    def mean(self, psi: Any, W: Array, engine: LinearEngine) -> Array:
        """By an engine."""
        return engine.linear_mean(self.gaussian(psi), W, None)

    @classmethod
    def draw(
        cls, rng: np.random.Generator, ends: Any, s0: float, layers: tuple[int, ...], **own: Any
    ) -> Self:
        """Small random connections."""
        V: Any = 0.1 * rng.standard_normal((own["lateral"], layers[0]))
        return cls(ends[0], ends[1], V, np.asarray(s0))  # type: ignore[arg-type]  # NumPy until training

    @classmethod
    def template(cls, zeros: Zeros, width: int, layers: tuple[int, ...], lateral: int) -> Self:
        """W0, b0, V and s0."""
        return cls(zeros(layers[0], width), zeros(layers[0]), zeros(lateral, layers[0]), zeros())

    def check(self, narrow: str, psi: float) -> None:
        """Engines must find numbers."""
        require_connections("lateral connections", self.V, narrow)
        require_locations(self.W0, self.b0, self.s0, psi, narrow)
