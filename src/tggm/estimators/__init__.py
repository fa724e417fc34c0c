"""The scikit-learn estimators."""

from tggm.estimators.classifier import TGGMClassifier as TGGMClassifier
from tggm.estimators.regressor import TGGMRegressor as TGGMRegressor
