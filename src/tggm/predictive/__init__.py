"""Predictive distributions of y given x, and how the members of an ensemble are pooled into one.

- `base`: `ScalarPredictive`, the base class of the distributions of one output;
- `gaussian_mixture`, `student`: the distributions;
- `observed`, `support`: distributions of targets with limits and steps;
- `joint`: distributions of several outputs;
- `calibration`: the pooling rule, fitted on held-out rows;
- `conformal`: intervals with guaranteed coverage;
- `member_moments`: means and variances of each member (needs JAX).
"""

from tggm.predictive.base import ScalarPredictive as ScalarPredictive
from tggm.predictive.gaussian_mixture import GaussianMixture as GaussianMixture
from tggm.predictive.gaussian_mixture import LognormalMixture as LognormalMixture
from tggm.predictive.joint import CopulaPredictive as CopulaPredictive
from tggm.predictive.joint import JointPredictive as JointPredictive
from tggm.predictive.joint import MultivariateGaussianMixture as MultivariateGaussianMixture
from tggm.predictive.observed import Observed as Observed
from tggm.predictive.student import ShapedPredictive as ShapedPredictive
from tggm.predictive.student import StudentPredictive as StudentPredictive
from tggm.predictive.support import Support as Support
