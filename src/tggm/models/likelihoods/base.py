"""The output map, once, and what a likelihood offers.

    z = W1 h + A x + b1    the linear outputs, from which y follows; A is the linear part, where there is one

A likelihood answers to the three ways of training: by the moments of the units, by their means alone, and by
an engine that knows log Z of truncated Gaussians.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, Self

from jax import Array

from tggm.gaussian import TruncatedGaussian
from tggm.models.hidden.base import Hidden, Latent
from tggm.models.part import MissingCapabilityError, Zeros, part
from tggm.models.sparse import Product


@part
class Output:
    """From the last hidden units to the linear outputs."""

    W1: Array  # (n, m)
    b1: Array  # (n,); (rows, n) where it is known of which rows
    A: Array | None = None  # (n, d)

    def at(self, X: Any) -> "Output":
        """The outputs of these rows, whose intercepts have the linear part in them."""
        if self.A is None:
            return self
        linear: Any = X.linear if isinstance(X, Product) else X @ self.A.T
        return Output(self.W1, self.b1[None, :] + linear)

    @property
    def intercept(self) -> Array:
        """What is added to W1 h, (rows, n), or (1, n) for any row."""
        return self.b1 if self.b1.ndim == 2 else self.b1[None, :]

    def of(self, h: Array) -> Array:
        """W1 h + A x + b1 for each row, (rows, n)."""
        return h @ self.W1.T + self.intercept


class EvidenceEngine(Protocol):
    """Who computes what an output says of the units: differences of log Z for each row."""

    def gain(self, hidden: Hidden, psi: Any, posterior: TruncatedGaussian) -> Array:
        """Log Z of the posterior less log Z of the prior."""

    def class_gain(self, hidden: Hidden, psi: Any, output: Output, label: Array) -> Array:
        """Log Z of units and scores given that the score of the class is the largest, less the prior's."""

    def log_density(self, terms: tuple[Array, Array, Array], y: Array) -> Array:
        """Log-density of a sum of independent units and noise at y."""

    def log_tail(self, terms: tuple[Array, Array, Array], y: Array, side: Array) -> Array:
        """Log-probability that a sum of independent units and noise lies on a side of y."""


class Likelihood(ABC):
    """p(y | h); `y` is whatever the rows hold for it."""

    offers: ClassVar[frozenset[str]]  # ways of training that it answers to, as `Hidden.offers` names them
    linear_offers: ClassVar[frozenset[str]] = frozenset({"moments", "mean"})  # those of a linear part, too
    judged_by_moments: ClassVar[bool]  # whether predictions come from moments, whatever the units
    output: Output

    @classmethod
    def of(cls, fitted: "Likelihood") -> "Likelihood":
        """The outputs of a fitted model, for training."""
        return fitted

    @property
    def whole(self) -> "Likelihood":
        """What predictions are made with."""
        return self

    @abstractmethod
    def by_moments(self, y: Any, latent: Latent) -> Array:
        """Log-density of each row by the moments of the units."""

    @abstractmethod
    def by_mean(self, y: Any, mean: Array) -> Array:
        """Log-density of each row by the means of the linear outputs, all else the same for all rows."""

    @abstractmethod
    def by_engine(self, y: Any, hidden: Hidden, psi: Any, engine: EvidenceEngine) -> Array:
        """Log-likelihood of each row, as good as the engine."""

    def by_sum(self, y: Any, hidden: Hidden, psi: Any, engine: EvidenceEngine) -> Array:
        """Log-density of each row, exact, for one output and independent units."""
        raise MissingCapabilityError(f"{type(self).__name__} outputs are no sum of independent units.")

    def variances(self, latent: Latent) -> tuple[Array, Array]:
        """Mean and variance of each output, (rows, n) each."""
        raise MissingCapabilityError(f"{type(self).__name__} outputs are no numbers.")

    def moments(self, latent: Latent) -> tuple[Array, Array]:
        """Mean (rows, n) and covariance (rows, n, n) of the outputs."""
        raise MissingCapabilityError(f"{type(self).__name__} outputs are no numbers.")

    def contended_scores(self, latent: Latent) -> tuple[Array, Array]:
        """Means and deviations of the scores of classes, (rows, n) each."""
        raise MissingCapabilityError(f"{type(self).__name__} outputs are no classes.")

    def finished(self, share: Array) -> Self:
        """What was trained by the mean alone, given the share of the variance that the units have."""
        return self

    @classmethod
    @abstractmethod
    def draw(cls, output: Output, noise: Any) -> Self:
        """Where training starts."""

    @classmethod
    @abstractmethod
    def template(cls, zeros: Zeros, output: Output) -> Self:
        """The same shapes, made by `zeros`."""

    def check(self, narrow: str) -> None:  # noqa: B027  # most have nothing to add
        """Raise for numbers that cannot be computed with in this precision."""
