"""Data of the linear model in `straight_line`."""

import numpy as np
import pytest

from tests.training.straight_line import ROWS


@pytest.fixture
def data(rng):
    x = rng.standard_normal((ROWS, 3))
    return {"x": x, "y": x @ np.array([1.0, -2.0, 0.5]) + 0.3 + 0.1 * rng.standard_normal(ROWS)}
