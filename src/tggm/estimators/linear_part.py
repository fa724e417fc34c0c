"""Where the linear part of a regression starts, and how predictions fall back to it.

Every member starts at the ridge regression of the rows that it trains on. After training the ensemble is
blended with the ridge regression of all rows, by the weight that predicts held-out rows best: members' own
held-out rows, and what the other rows say of a row. A blend of a model with a linear one is a model again: its
weights W1 are smaller, its linear part and its noise are between both.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from tggm.arrays import Floats
from tggm.estimators.ridge import Ridge, ridge
from tggm.models import Model

LEAST_NOISE = 1e-4  # of a standardised target, to start from


def started(model: Model, parts: list[Any], X: Floats, Y: Floats, weight: Floats) -> Model:
    """Members with a leading axis, each at the ridge regression of its part of the rows, the rest small."""
    found = [ridge(X[part], Y[part], weight[part]) for part in parts]
    arrays = dict(model.arrays())
    dtype = arrays["likelihood.output.A"].dtype
    error = np.stack([np.maximum(each.error, LEAST_NOISE) for each in found])
    arrays["likelihood.output.A"] = np.stack([each.A for each in found]).astype(dtype)
    arrays["likelihood.output.b1"] = np.stack([each.b for each in found]).astype(dtype)
    arrays["likelihood.output.W1"] = (
        arrays["likelihood.output.W1"] * np.minimum(np.sqrt(error), 1.0)[:, :, None]
    ).astype(dtype)
    return model.replaced(arrays)
