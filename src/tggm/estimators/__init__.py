"""The scikit-learn estimators, and how model files store them."""

from tggm.estimators._persistence import from_state as from_state
from tggm.estimators._persistence import numeric_model as numeric_model
from tggm.estimators._persistence import table_description as table_description
from tggm.estimators._persistence import to_state as to_state
from tggm.estimators.classifier import TGGMClassifier as TGGMClassifier
from tggm.estimators.regressor import TGGMRegressor as TGGMRegressor
