"""Splits trained in one program end where the estimator's own `fit` would have left them."""

import sys
from pathlib import Path

import numpy as np
from numpy.testing import assert_allclose

from tggm import TGGMRegressor

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
from together import fit_together


def test_splits_trained_together_equal_splits_trained_alone(rng):
    X = rng.standard_normal((60, 2))
    y = np.abs(X[:, 0]) + 0.1 * rng.standard_normal(60)
    parts = [np.arange(50), np.arange(10, 60)]  # full batches: the order of rows does not matter
    settings = {
        "hidden": (4,),
        "n_members": 2,
        "batch_size": 64,
        "max_epochs": 20,
        "early_stopping": False,
        "dtype": "float64",
    }
    together = [TGGMRegressor(random_state=i, **settings) for i in range(2)]
    fit_together(together, X, y, parts)
    for i, part in enumerate(parts):
        alone = TGGMRegressor(random_state=i, **settings).fit(X[part], y[part])
        assert_allclose(together[i].predict(X), alone.predict(X), rtol=1e-9)
        assert_allclose(together[i].noise_, alone.noise_, rtol=1e-9)
