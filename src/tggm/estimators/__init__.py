"""The scikit-learn face."""

from tggm.estimators.classifier import TGGMClassifier as TGGMClassifier
from tggm.estimators.regressor import TGGMRegressor as TGGMRegressor
from tggm.estimators.splits import fit_together as fit_together

__all__ = ["TGGMClassifier", "TGGMRegressor", "fit_together"]
