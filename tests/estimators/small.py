"""Small fits and their data. One compiled program serves many tests with 60 rows of 3 columns."""

import numpy as np

from tggm import TGGMClassifier, TGGMRegressor
from tggm.data.standardise import Columns as Standardisation
from tggm.data.standardise import Scales
from tggm.estimators._fitted import Fitted
from tggm.estimators._settings import CLASSIFICATION, REGRESSION, Settings
from tggm.tables.transformer import Columns

# one layer of the inputs themselves, whose formulas are simple
PLAIN = {"features": None, "linear": False, "standardize": True}
SMALL = {"hidden": (6,), "n_members": 2, "batch_size": 32, "random_state": 0, **PLAIN}
MIXTURE = {"calibrate": False, "target_transform": None}  # of a regressor
ALL_ROWS = {"cv": 1e-9}  # hold out no row
NAMES = np.array(["low", "middle", "high"])


def small_regressor(**settings):
    """Return a regressor that fits `abs_table` in a second."""
    return TGGMRegressor(**{**SMALL, **MIXTURE, "max_epochs": 60, "learning_rate": 0.03, **settings})


def small_classifier(**settings):
    """Return a classifier that fits `three_classes` in a second."""
    return TGGMClassifier(**{**SMALL, "max_epochs": 200, "learning_rate": 0.03, **settings})


def abs_table():
    """Return 60 rows of a nonlinear function with noise."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 3))
    return X, np.abs(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(60)


def three_classes():
    """Return 60 rows with zeros, and labels that are not linearly separable."""
    X = np.random.default_rng(7).standard_normal((60, 3))
    X[np.abs(X) < 0.3] = 0
    return X, NAMES[np.digitize(np.abs(X[:, 0]) + 0.5 * X[:, 1], [0.4, 1.2])]


def settings_of(estimator):
    """Return the checked settings of an estimator."""
    task = CLASSIFICATION if estimator.task == "classification" else REGRESSION
    return Settings.checked(estimator.get_params(deep=False), task)


def untrained(estimator, width, outputs, **learned):
    """Give an estimator drawn parameters, as if it were fitted."""
    rng, settings = np.random.default_rng(0), settings_of(estimator)
    network = settings.network_for(width, outputs, sparse=False)
    members = {"members": settings.n_members, "dtype": settings.dtype, "s0": settings.task.s0}
    model = network.draw(rng, width, outputs, **members)
    x = Standardisation(rng.normal(size=width), np.ones(width))
    scales = Scales(x, Standardisation.unchanged(outputs))
    if estimator.task == "classification":
        learned["classes"] = np.array(["a", "b", "ü"][:outputs])
    flat = outputs == 1 or "classes" in learned
    estimator._set_fitted(Fitted(model, network, Columns(width), scales, flat=flat, **learned))
    curve = np.zeros((settings.n_members, 2))
    estimator.history_ = {"train": curve, "held_out": curve, "epoch": np.array([1, 2])}
    estimator.best_epoch_ = np.ones(settings.n_members, np.int32)
    estimator.undone_ = np.zeros(settings.n_members, np.int32)
    estimator.converged_ = True
    return estimator
