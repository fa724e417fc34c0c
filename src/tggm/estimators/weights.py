"""Weights of rows."""

from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from tggm.arrays import Floats


def row_weights(sample_weight: Any, X: Any) -> Floats:
    """One nonnegative number a row, 1 by default; errors are scikit-learn's."""
    weight: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return weight
