"""What a fitted model says of y given x: one distribution object per prediction.

Names are looked up when first used: means and deviations need none of these distributions.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tggm.predictive.base import ScalarPredictive as ScalarPredictive
    from tggm.predictive.exact import Predictive as Predictive
    from tggm.predictive.joint import JointPredictive as JointPredictive
    from tggm.predictive.moment import EnginePredictive as EnginePredictive
    from tggm.predictive.moment import MomentPredictive as MomentPredictive
    from tggm.predictive.multivariate import MultivariatePredictive as MultivariatePredictive

_HOME = {
    "EnginePredictive": "moment",
    "JointPredictive": "joint",
    "MomentPredictive": "moment",
    "MultivariatePredictive": "multivariate",
    "Predictive": "exact",
    "ScalarPredictive": "base",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tggm.predictive' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tggm.predictive.{_HOME[name]}"), name)
