"""One layer of independent units, §3 of Su et al. (2016).

    p(h | x) = N_T(h | W0 ψ + b0, s0 I),  h ≥ 0

Its moments are exact because the units are independent. σ0² = s0 is a gauge: scaling W0, b0 by c, s0 by c²
and the output's weights by 1/c leaves p(y | x) unchanged. So it is no parameter of the data: it sets the
scale at which initialisation, weight decay and steps act.
"""

from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.models.hidden.base import Hidden, Latent, LinearEngine
from tggm.models.hidden.unit import moments as unit_moments
from tggm.models.part import Zeros, part
from tggm.precision import Diagonal, LowRank
from tggm.products import full_precision


@part
class Independent(Latent):
    """Means and variances of independent units, (rows, m) each."""

    mean: Array
    var: Array

    def covariance(self, W: Array) -> tuple[Array, Array]:
        """W diag(v) Wᵀ."""
        if W.shape[0] == 1:
            return self.mean, (self.var @ (W**2).T)[:, :, None]
        return self.mean, jnp.einsum("ik,bk,jk->bij", W, self.var, W)

    def variances(self, W: Array) -> tuple[Array, Array]:
        """Sums of w² v."""
        return self.mean, self.var @ (W**2).T

    def products(self, W: Array, w: Array) -> Array:
        """Without the matrix."""
        return (self.var * (w @ W)) @ W.T


@part
class Shallow(Hidden):
    """One hidden layer of m units over d inputs."""

    W0: Array  # (m, d)
    b0: Array  # (m,)
    s0: Array  # ()

    offers: ClassVar = frozenset({"moments", "mean", "gaussian", "sum"})
    by_moments: ClassVar = False

    @property
    def gauge(self) -> Array:
        """s0."""
        return lax.stop_gradient(self.s0)

    def locations(self, psi: Any) -> Array:
        """W0 ψ + b0 for each row, (rows, m)."""
        located: Array = psi @ self.W0.T + self.b0[None, :]
        return located

    def standard(self, psi: Any) -> Array:
        """(W0 ψ + b0) / σ0."""
        return self.locations(psi) / jnp.sqrt(self.gauge)

    def moments(self, psi: Any, engine: LinearEngine | None = None) -> Independent:
        """E[h | ψ] = σ0 g(α) and Var[h | ψ] = s0 ω²(α), exact."""
        g, omega2 = unit_moments(self.standard(psi))
        return Independent(jnp.sqrt(self.gauge) * g, self.gauge * omega2)

    def mean(self, psi: Any, W: Array, engine: LinearEngine | None = None) -> Array:
        """W E[h | ψ]."""
        return self.moments(psi).mean @ W.T

    @full_precision
    def gaussian(self, psi: Any, U: Array | None = None, pull: Array | None = None) -> TruncatedGaussian:
        """P = I/s0 + UᵀU, γ = (W0 ψ + b0)/s0 + pull. Paper: P0 = σ0² I; a precision, so 1/σ0²."""
        shift = self.locations(psi) / self.gauge
        base = jnp.full_like(self.b0, 1.0) / self.gauge
        if pull is not None:
            shift = shift + pull
        return TruncatedGaussian(Diagonal(base) if U is None else LowRank(base, U), shift)

    @classmethod
    def draw(
        cls, rng: np.random.Generator, ends: Any, s0: float, layers: tuple[int, ...], **own: Any
    ) -> Self:
        """The ends are all there is."""
        return cls(ends[0], ends[1], np.asarray(s0))  # type: ignore[arg-type]  # NumPy until training

    @classmethod
    def template(cls, zeros: Zeros, width: int, layers: tuple[int, ...], lateral: int) -> Self:
        """W0, b0 and s0."""
        return cls(zeros(layers[0], width), zeros(layers[0]), zeros())
