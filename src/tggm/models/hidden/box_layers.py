"""Layers of independent units between two limits (Su, Liao & Carin, 2017).

    p(h | x) = N(h | W0 ψ + b0, s0 I) given l σ0 ≤ h ≤ u σ0

Moments of one layer are exact. So is the density of one output, by Fourier inversion: the units are
independent. Several layers are each given the one below, as in `tggm.models.hidden.directed`.
"""

from functools import partial
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.models.hidden.base import Hidden, LinearEngine
from tggm.models.hidden.box_unit import averages
from tggm.models.hidden.box_unit import moments as unit_moments
from tggm.models.hidden.directed import Directed, LayerMoments, Layers, Propagated, above, nodes_of
from tggm.models.hidden.shallow import Independent, Shallow
from tggm.models.hidden.unit_limits import UNITS, TanhLimits, UnitLimits
from tggm.models.part import Zeros, part
from tggm.products import full_precision


@part
class BoxLayer(Hidden):
    """One hidden layer of m units with limits."""

    W0: Array  # (m, d)
    b0: Array  # (m,)
    s0: Array  # ()
    limits: UnitLimits

    offers: ClassVar = frozenset({"moments", "mean", "gaussian"})
    by_moments: ClassVar = True
    bounded: ClassVar = True

    @property
    def gauge(self) -> Array:
        """s0."""
        return lax.stop_gradient(self.s0)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Both limits of the units, in units of σ0."""
        lower, upper = (jnp.asarray(limit, self.b0.dtype) for limit in self.limits.at(0))
        return lower, upper

    def standard(self, psi: Any) -> Array:
        """Locations of the units in units of σ0."""
        return self._half_line().standard(psi)

    def moments(self, psi: Any, engine: LinearEngine | None = None) -> Independent:
        """Exact, as the units are independent."""
        g, omega2 = unit_moments(self._half_line().standard(psi), *self.limits.at(0))
        return Independent(jnp.sqrt(self.gauge) * g, self.gauge * omega2)

    def mean(self, psi: Any, W: Array, engine: LinearEngine | None = None) -> Array:
        """W E[h | ψ]."""
        return self.moments(psi).mean @ W.T

    @full_precision
    def gaussian(self, psi: Any, U: Array | None = None, pull: Array | None = None) -> TruncatedGaussian:
        """As that of a `Shallow` layer, in a box."""
        tg = self._half_line().gaussian(psi, U, pull)
        lower, upper = (jnp.full_like(self.b0, limit) * jnp.sqrt(self.gauge) for limit in self.limits.at(0))
        return TruncatedGaussian(tg.precision, tg.shift, lower, upper)

    def _half_line(self) -> Shallow:
        """The same weights without an upper limit."""
        return Shallow(self.W0, self.b0, self.s0)

    @classmethod
    def draw(
        cls, rng: np.random.Generator, ends: Any, s0: float, layers: tuple[int, ...], **own: Any
    ) -> Self:
        """Weights as those of a `Shallow` layer."""
        plain = Shallow.draw(rng, ends, s0, layers, **own)
        return cls(plain.W0, plain.b0, plain.s0, UNITS[own["units"]].draw(1))

    @classmethod
    def template(cls, zeros: Zeros, width: int, layers: tuple[int, ...], lateral: int) -> Self:
        """As a `Shallow` layer; the limits are put in by who knows their kind."""
        plain = Shallow.template(zeros, width, layers, lateral)
        return cls(plain.W0, plain.b0, plain.s0, TanhLimits())

    def check(self, narrow: str, psi: float) -> None:
        """The limits must be numbers."""
        self.limits.check()


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
