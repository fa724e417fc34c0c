"""A density that an engine computes, all else from two moments: what models with lateral connections say."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Floats, Ints
from tggm.predictive.base import exponential
from tggm.predictive.moment import GaussianMixture

LogDensity = Callable[[Ints, Floats], Floats]


class EnginePredictive(GaussianMixture):
    """Log-densities by an engine; distribution function, quantiles, scores and draws of Gaussians.

    Parameters
    ----------
    mean, var : array_like, shape (K, N)
        Moments of each member at each row.
    log_density : callable
        Takes rows and standardised values of one length, gives log-densities of each member, (K, length).
    loc, scale : float
        Affine map from what the model predicts to the output.
    """

    def __init__(
        self,
        mean: ArrayLike,
        var: ArrayLike,
        log_density: LogDensity,
        *,
        loc: float = 0.0,
        scale: float = 1.0,
    ) -> None:
        super().__init__(mean, var, loc=loc, scale=scale)
        self._of_members = log_density

    def __getitem__(self, rows: slice | Ints) -> "EnginePredictive":
        """The distributions of some rows."""
        numbers, whole = np.arange(len(self))[rows], self._of_members

        def log_density(some: Ints, z: Floats) -> Floats:
            return whole(numbers[some], z)

        var = self._std[:, rows] ** 2
        return EnginePredictive(self._mean[:, rows], var, log_density, loc=self._loc, scale=self._scale)

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        members = np.array(self._of_members(rows, z), dtype=np.float64)
        if (lost := np.isnan(members)).any():  # noise too small for the engine: take their moments
            members[lost] = self._gaussian_log_densities(rows, z)[lost]
        return self._mixed(members)

    def _density(self, rows: Ints, z: Floats) -> Floats:
        return exponential(self._log_density(rows, z))
