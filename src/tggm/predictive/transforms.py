"""`LogTransform`: convert a target to its logarithm, and predictions of the logarithm back."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tggm import settings
from tggm.arrays import Floats
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.gaussian_mixture import GaussianMixture, LognormalMixture, from_log


@dataclass(frozen=True)
class LogTransform:
    """z = log(y + shift), for targets above −shift."""

    shift: float = 0.0

    def forward(self, y: Floats) -> Floats:
        """Compute log(y + shift); −inf for y ≤ −shift."""
        with np.errstate(divide="ignore"):
            z: Floats = np.log(np.maximum(y + self.shift, 0.0))
        return z

    def inverse(self, z: Floats) -> Floats:
        """Compute exp z − shift; finite where z is."""
        return from_log(z) - self.shift

    def distribution(self, log: ScalarPredictive) -> LognormalMixture:
        """Return the distribution of y from that of z, which must be Gaussian."""
        if not isinstance(log, GaussianMixture):
            raise ValueError("the target has no mean if its logarithm has heavier tails than a Gaussian's")
        return LognormalMixture(log, loc=-self.shift)


def checked_transform(shift: Any) -> LogTransform:
    """Return the logarithm with the shift in a model file."""
    return LogTransform(float(settings.number("shift of the transform", shift)))
