"""Predictive distributions of y given x, and how the members of an ensemble are pooled into one.

- `base`: `ScalarPredictive`, the base class of the distributions of one output;
- `gaussian_mixture`, `student`: the distributions;
- `observed`, `support`: distributions of targets with limits and steps;
- `joint`: distributions of several outputs;
- `calibration`: the pooling rule, fitted on held-out rows;
- `conformal`: intervals with guaranteed coverage;
- `member_moments`: means and variances of each member (needs JAX).
"""

from tggm.predictive.base import ScalarPredictive
from tggm.predictive.gaussian_mixture import GaussianMixture, LognormalMixture
from tggm.predictive.joint import CopulaPredictive, JointPredictive, MultivariateGaussianMixture
from tggm.predictive.observed import Observed
from tggm.predictive.student import ShapedPredictive, StudentPredictive
from tggm.predictive.support import Support

__all__ = [
    "CopulaPredictive",
    "GaussianMixture",
    "JointPredictive",
    "LognormalMixture",
    "MultivariateGaussianMixture",
    "Observed",
    "ScalarPredictive",
    "ShapedPredictive",
    "StudentPredictive",
    "Support",
]
