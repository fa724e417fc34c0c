"""The scikit-learn face."""

from tggm.estimators.regressor import TGGMRegressor as TGGMRegressor

__all__ = ["TGGMRegressor"]
