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
from tggm.models.part import MissingCapabilityError, Zeros

# Between units: 1 is lost beside its square when a matrix I + V'V is factorised. And of locations over σ0.
MOST_CONNECTION = {"float32": 1e3, "float64": 1e6}
MOST_LOCATION = {"float32": 1e6, "float64": 1e12}


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


class Inferred(Latent):
    """What an engine says of the last units of a truncated Gaussian, which are not independent."""

    def __init__(self, tg: TruncatedGaussian, engine: LinearEngine, start: Array | None) -> None:
        self._tg, self._engine, self._start = tg, engine, start

    def covariance(self, W: Array) -> tuple[Array, Array]:
        """Both from one run of the engine."""
        return self._engine.linear_moments(self._tg, W, self._start)


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


def require_connections(what: str, connections: Any, narrow: str) -> None:
    """Raise for connections with which engines do not converge to numbers."""
    size, most = float(np.abs(connections).max()), MOST_CONNECTION[narrow]
    if not size <= most:
        raise ValueError(f"{what} must be at most {most:g} in {narrow}; they reach {size:.3g}")


def require_locations(weights: Any, biases: Any, s0: Any, psi: float, narrow: str) -> None:
    """Raise for units whose locations W ψ + b are too many deviations from 0 for engines."""
    sizes = float(np.abs(weights).max()) * max(1.0, psi), float(np.abs(biases).max())
    reach, most = max(sizes) / float(np.sqrt(np.min(s0))), MOST_LOCATION[narrow]
    if not reach <= most:
        raise ValueError(f"locations reach {reach:.3g} σ0, where {most:g} is the most in {narrow}")
