"""The scikit-learn face."""

from tggm.estimators.classifier import TGGMClassifier as TGGMClassifier
from tggm.estimators.regressor import TGGMRegressor as TGGMRegressor

__all__ = ["TGGMClassifier", "TGGMRegressor"]
