"""Estimators with drawn parameters, as if fitted, without the time of a fit."""

import numpy as np
from tggm.estimators.fitted import Fitted
from tggm.estimators.state import HISTORY
from tggm.streams.columns import Columns, Scales

from tggm.predictive.calibration import Calibration

STUDENT = Calibration("student", (1.2, 0.5, 0.1))
BETA = Calibration("beta", (1.3, 0.8))


def filled(model, width, outputs, **learned):
    """Give an estimator drawn parameters as if it were fitted."""
    rng, recipe = np.random.default_rng(0), model.recipe()
    model.n_features_in_, model.converged_, model.flat_target_ = width, True, outputs == 1
    model.history_ = {name: np.zeros((model.n_members, 2)) for name in HISTORY} | {"epoch": np.array([1, 2])}
    model.best_epoch_ = np.ones(model.n_members, np.int32)
    model.undone_ = np.zeros(model.n_members, np.int32)
    model.feature_names_in_ = np.array([f"x{k}" for k in range(width)], dtype=object)
    if model.task == "classification":
        model.classes_ = np.array(["a", "b", "ü"][:outputs])
    scales = Scales(Columns(rng.normal(size=width), np.ones(width)), Columns.unchanged(outputs))
    model.adopt(
        Fitted(recipe.draw(recipe.architecture(width, outputs), rng), scales, model.method, **learned)
    )
    return model
