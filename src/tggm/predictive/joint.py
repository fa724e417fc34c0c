"""The face of the predictive distribution of several outputs: what follows from its marginals."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import index
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Floats
from tggm.predictive.base import ScalarPredictive, Seed, checked_size, exponential, generator

Marginal = TypeVar("Marginal", bound=ScalarPredictive)


class JointPredictive(ABC, Generic[Marginal]):
    """Distributions of n outputs together, one for each of N rows: y = loc + scale · z, z being predicted.

    Parameters
    ----------
    marginals : sequence of ScalarPredictive
        The distribution of each output.
    loc, scale : array, shape (n,)
        Affine map from what the model predicts to the outputs.
    """

    def __init__(self, marginals: Sequence[Marginal], loc: Floats, scale: Floats) -> None:
        self._parts, self._loc, self._scale = list(marginals), loc, scale

    @abstractmethod
    def cov(self) -> Floats:
        """Covariance of the outputs, (N, n, n): within members and between them."""

    @abstractmethod
    def _log_density_of(self, z: Floats) -> Floats:
        """Joint log density of z, (N, n), in standardised units."""

    @abstractmethod
    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Independent draws of z, (size, N, n)."""

    def __len__(self) -> int:
        return len(self._parts[0])

    @property
    def n_outputs(self) -> int:
        """Number of outputs n."""
        return len(self._parts)

    def marginal(self, output: int) -> Marginal:
        """The distribution of one output."""
        try:
            return self._parts[index(output)]
        except (TypeError, IndexError):
            raise ValueError(
                f"`output` must be the number of an output, 0 to {self.n_outputs - 1}; got {output!r}."
            ) from None

    def mean(self) -> Floats:
        """Expected value, (N, n)."""
        return np.stack([p.mean() for p in self._parts], 1)

    def var(self) -> Floats:
        """Variance of each output, (N, n)."""
        return np.stack([p.var() for p in self._parts], 1)

    def std(self) -> Floats:
        """Standard deviation of each output, (N, n)."""
        return np.sqrt(self.var())

    def logpdf(self, y: ArrayLike) -> Floats:
        """Joint log density at one point a row, y of shape (N, n)."""
        z = (self._points(y) - self._loc[None, :]) / self._scale[None, :]
        return self._log_density_of(z) - float(np.log(self._scale).sum())

    def pdf(self, y: ArrayLike) -> Floats:
        """Joint density at one point a row."""
        return exponential(self.logpdf(y))

    def cdf(self, y: ArrayLike) -> Floats:
        """Marginal probabilities of at most y, (N, n) for y of shape (N, n)."""
        values = self._points(y)
        return np.stack([p.cdf(values[:, j]) for j, p in enumerate(self._parts)], 1)

    def ppf(self, q: ArrayLike) -> Floats:
        """Marginal quantiles at a probability, (N, n)."""
        return np.stack([p.ppf(q) for p in self._parts], 1)

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Central interval of each output, (N, n) each."""
        ends = [p.interval(level) for p in self._parts]
        return np.stack([low for low, _ in ends], 1), np.stack([high for _, high in ends], 1)

    def crps(self, y: ArrayLike) -> Floats:
        """Continuous ranked probability score of each output, (N, n)."""
        values = self._points(y)
        return np.stack([p.crps(values[:, j]) for j, p in enumerate(self._parts)], 1)

    def rvs(self, size: int | None = None, random_state: Seed = None) -> Floats:
        """Joint draws: (N, n) if `size` is None, otherwise (size, N, n)."""
        draws: Floats = self._loc + self._scale * self._draw(checked_size(size), generator(random_state))
        if size is not None:
            return draws
        single: Floats = draws[0]
        return single

    def _points(self, y: ArrayLike) -> Floats:
        """One finite point a row."""
        values = np.asarray(y, dtype=np.float64)
        if values.shape != (len(self), self.n_outputs) or not np.all(np.isfinite(values)):
            raise ValueError(
                f"`y` must be finite, of shape ({len(self)}, {self.n_outputs}), a row a distribution; "
                f"got shape {values.shape}. For one output alone use marginal(j)."
            )
        return values

    def _scaled(self, covariance: Floats) -> Floats:
        """A covariance of z as one of y."""
        scaled: Floats = covariance * self._scale[None, :, None] * self._scale[None, None, :]
        return scaled
