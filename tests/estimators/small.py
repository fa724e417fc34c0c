"""Small fits and their data. With 60 rows (or a few less) of 3 columns one program serves many tests."""

import numpy as np

from tggm import TGGMClassifier

# one layer over the inputs as they are, whose formulas tests know; tests of the defaults say so
PLAIN = {"features": None, "linear": False, "standardize": True, "schedule": "cosine", "patience": None}
SMALL = {"hidden": (6,), "n_members": 2, "batch_size": 32, "random_state": 0, **PLAIN}
UNPOOLED = {"calibrate": False, "target_transform": None}  # of a regressor
NAMES = np.array(["low", "middle", "high"])


def quick(**settings):
    """A classifier that learns `three_classes` in a second."""
    usual = {**SMALL, "max_epochs": 200, "learning_rate": 0.03, "calibrate": False}
    return TGGMClassifier(**{**usual, **settings})


def three_classes():
    """Rows with zeros among them, and labels that no plane tells apart."""
    X = np.random.default_rng(7).standard_normal((60, 3))
    X[np.abs(X) < 0.3] = 0
    return X, NAMES[np.digitize(np.abs(X[:, 0]) + 0.5 * X[:, 1], [0.4, 1.2])]
