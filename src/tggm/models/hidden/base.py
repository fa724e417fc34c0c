"""What the hidden units of a model may offer, and who may be asked where inference is needed.

A capability is a method; `offers` names those that a type has. Whoever needs one asks for it:

    moments     E[h | ψ] and covariances of linear functions of h, in closed form
    mean        E[h | ψ], differentiable; by an engine where there is no closed form
    gaussian    the truncated Gaussian of all units, without and with what an output says of them
    sum         independent units, for the exact density of one output

Units of several layers are one vector; the outputs see the last of them.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.gaussian import TruncatedGaussian
from tggm.models.part import MissingCapabilityError
from tggm.models.template import Zeros


class Latent(ABC):
    """Moments of the units that the outputs see, for each row."""

    @abstractmethod
    def covariance(self, W: Array) -> tuple[Array, Array]:
        """E[h], (rows, m), and Cov[W h], (rows, n, n)."""

    def variances(self, W: Array) -> tuple[Array, Array]:
        """E[h], and the variances of W h, (rows, n)."""
        h, cov = self.covariance(W)
        return h, jnp.diagonal(cov, axis1=1, axis2=2)

    def products(self, W: Array, w: Array) -> Array:
        """Cov[W h] w for weights w of each row, (rows, n)."""
        return jnp.einsum("bij,bj->bi", self.covariance(W)[1], w)


class LinearEngine(Protocol):
    """Who infers the moments of units that are not independent."""

    @property
    def nodes(self) -> int:
        """Nodes of the quadrature over the location of a unit above others."""

    def linear_moments(self, tg: TruncatedGaussian, W: Array, start: Array | None) -> tuple[Array, Array]:
        """Means of the last units, and the covariance of W times them, (rows, n, n)."""

    def linear_mean(self, tg: TruncatedGaussian, W: Array, start: Array | None) -> Array:
        """W times the means of the last units, (rows, n), differentiable."""


class Hidden(ABC):
    """p(h | ψ), h ≥ 0 or between limits. σ0² = s0 is a gauge: it sets a scale and is never learned."""

    offers: ClassVar[frozenset[str]]
    by_moments: ClassVar[bool]  # whether an output is judged as a Gaussian with its two moments
    bounded: ClassVar[bool] = False  # whether units are independent with two limits: `standard` and `bounds`

    @property
    @abstractmethod
    def gauge(self) -> Array:
        """The variance s0 of a unit before truncation, not differentiated."""

    @abstractmethod
    def mean(self, psi: Any, W: Array, engine: LinearEngine) -> Array:
        """W E[h | ψ], (rows, n), differentiable."""

    @abstractmethod
    def moments(self, psi: Any, engine: LinearEngine) -> Latent:
        """Moments of the last layer's units; `engine` is asked by those that do not know their own."""

    def gaussian(self, psi: Any, U: Array | None = None, pull: Array | None = None) -> TruncatedGaussian:
        """The units given ψ, with UᵀU added to the precision of the last ones and `pull` to their shift."""
        raise MissingCapabilityError(f"{type(self).__name__} units have no joint truncated Gaussian.")

    def start(self, psi: Any) -> Array | None:
        """Means from which an engine may start, (rows, units), not differentiated."""
        return None

    def standard(self, psi: Any) -> Array:
        """Locations of independent units over their deviation, (rows, m)."""
        raise MissingCapabilityError(f"{type(self).__name__} units are not independent.")

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper limit of units that have two, in units of their deviation."""
        raise MissingCapabilityError(f"{type(self).__name__} units do not have two limits.")

    @classmethod
    @abstractmethod
    def draw(
        cls, rng: np.random.Generator, ends: Any, s0: float, layers: tuple[int, ...], **own: Any
    ) -> Self:
        """Where training starts: `ends` are W0 and b0; `own` is `init`, `lateral` and `units`."""

    @classmethod
    @abstractmethod
    def template(cls, zeros: Zeros, width: int, layers: tuple[int, ...], lateral: int) -> Self:
        """The same shapes, made by `zeros`."""

    def check(self, narrow: str, psi: float) -> None:  # noqa: B027  # most parts have nothing to add
        """Raise for numbers that cannot be computed with in this precision; every part is held to more.

        `psi` is the size of the features of inputs of size 1.
        """
