"""Predictive distributions of y given x, and how the members of an ensemble are pooled into one."""

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
