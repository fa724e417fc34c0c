"""The scikit-learn face.

Names are looked up when first used: how tables become inputs is known without what trains a model.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tggm.estimators.classifier import TGGMClassifier as TGGMClassifier
    from tggm.estimators.regressor import TGGMRegressor as TGGMRegressor
    from tggm.estimators.splits import fit_together as fit_together

_HOME = {"TGGMClassifier": "classifier", "TGGMRegressor": "regressor", "fit_together": "splits"}

__all__ = ["TGGMClassifier", "TGGMRegressor", "fit_together"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tggm.estimators' has no attribute {name!r}")
    for home in sorted({*_HOME.values()}):  # all together: `fit` imports nothing later
        importlib.import_module(f"tggm.estimators.{home}")
    return getattr(importlib.import_module(f"tggm.estimators.{_HOME[name]}"), name)
