"""What a model with lateral connections says of y: its density by EP, all else from two moments."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from tggm.predictive.base import Floats, Ints
from tggm.predictive.moment import MomentPredictive

LogDensity = Callable[[Ints, Floats], Floats]


class LateralPredictive(MomentPredictive):
    """Log-densities by EP; distribution function, quantiles, scores and draws of Gaussians with the moments.

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

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        mixed: Floats = logsumexp(self._of_members(rows, z), axis=0, b=self._mix[:, None])
        return np.asarray(mixed)

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        cdf, _ = super()._bulk(rows, z)
        return cdf, np.exp(super()._log_density(rows, z))
