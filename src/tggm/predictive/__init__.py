"""What a fitted model says of y given x: one distribution object per prediction."""

from tggm.predictive.base import ScalarPredictive as ScalarPredictive
from tggm.predictive.exact import Predictive as Predictive
from tggm.predictive.moment import MomentPredictive as MomentPredictive
from tggm.predictive.multivariate import MultivariatePredictive as MultivariatePredictive

__all__ = ["MomentPredictive", "MultivariatePredictive", "Predictive", "ScalarPredictive"]
