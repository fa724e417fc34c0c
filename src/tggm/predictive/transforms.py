"""`LogTransform`: convert a target to its logarithm, and predictions of the logarithm back."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tggm import settings
from tggm.arrays import Floats
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.gaussian_mixture import GaussianMixture, LognormalMixture, from_log


@dataclass(frozen=True)
class LogTransform:
    """z = log y, for positive targets."""

    kind: ClassVar[str] = "log"

    def forward(self, y: Floats) -> Floats:
        """Compute log y; −inf for y ≤ 0."""
        with np.errstate(divide="ignore"):
            z: Floats = np.log(np.maximum(y, 0.0))
        return z

    def inverse(self, z: Floats) -> Floats:
        """Compute exp z; finite where z is."""
        return from_log(z)

    def distribution(self, log: ScalarPredictive) -> LognormalMixture:
        """Return the distribution of y from that of z, which must be Gaussian."""
        if not isinstance(log, GaussianMixture):
            raise ValueError("the target has no mean if its logarithm has heavier tails than a Gaussian's")
        return LognormalMixture(log)


def checked_transform(kind: Any) -> LogTransform:
    """Return the transform with the name in a model file."""
    settings.one_of("transform", kind, (LogTransform.kind,))
    return LogTransform()
