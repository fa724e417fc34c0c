"""Several layers of units between two limits, each given the one below; `tggm.models.hidden.directed`."""

from functools import partial
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.models.hidden.base import LinearEngine
from tggm.models.hidden.box_layer import BoxLayer
from tggm.models.hidden.box_unit import averages
from tggm.models.hidden.directed import Directed, LayerMoments, Propagated, above, nodes_of
from tggm.models.hidden.layers import Layers
from tggm.models.hidden.unit_limits import UNITS, TanhLimits, UnitLimits
from tggm.models.part import part
from tggm.models.template import Zeros


@part
class BoxLayers(Layers):
    """Several hidden layers of units with limits."""

    limits: UnitLimits

    offers: ClassVar = frozenset({"moments", "mean"})

    def moments(self, psi: Any, engine: LinearEngine | None = None) -> Propagated:
        """By propagation."""
        return Propagated(self._propagated(psi, nodes_of(engine)), self.W)

    def mean(self, psi: Any, W: Array, engine: LinearEngine | None = None) -> Array:
        """W E[h^L | ψ]."""
        return self._propagated(psi, nodes_of(engine))[-1].mean @ W.T

    def _propagated(self, psi: Any, n_nodes: int) -> list[LayerMoments]:
        first = BoxLayer(self.W0, self.b0, self.s0, self.limits).moments(psi)
        found = [LayerMoments(first.mean, first.var, jnp.ones_like(first.var), first.var)]
        for level, (W, b) in enumerate(zip(self.W, self.b, strict=True), start=1):
            lower, upper = self.limits.at(level)
            average = partial(averages, n_nodes, lower=lower, upper=upper)
            found.append(above(W, b, self.gauge, found[-1], average))
        return found

    @classmethod
    def draw(
        cls, rng: np.random.Generator, ends: Any, s0: float, layers: tuple[int, ...], **own: Any
    ) -> Self:
        """Weights as those of a `Directed` model."""
        plain = Directed.draw(rng, ends, s0, layers, **own)
        limits = UNITS[own["units"]].draw(len(layers))
        return cls(plain.W0, plain.b0, plain.W, plain.b, plain.s0, limits)

    @classmethod
    def template(cls, zeros: Zeros, width: int, layers: tuple[int, ...], lateral: int) -> Self:
        """As a `Directed` model; the limits are put in by who knows their kind."""
        plain = Directed.template(zeros, width, layers, lateral)
        return cls(plain.W0, plain.b0, plain.W, plain.b, plain.s0, TanhLimits())

    def check(self, narrow: str, psi: float) -> None:
        """The limits must be numbers."""
        self.limits.check()
