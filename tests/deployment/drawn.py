"""Models with weights that were drawn instead of trained: only what predicts them is compiled."""

import numpy as np

from tggm import TGGMClassifier, TGGMRegressor
from tggm.estimators.fitted import Fitted, Scales
from tggm.predictive.calibration import Calibration
from tggm.streams.columns import Columns

COLUMNS, MEMBERS = 4, 3
ROWS = np.random.default_rng(1).normal(2.0, 3.0, (40, COLUMNS))
ROWS[-4:] *= 40  # far from what the model has seen


def regressor(*, outputs=1, pool=(), transform=None, **settings):
    """A regressor of `outputs` outputs with this calibration of each."""
    made = TGGMRegressor(**{"hidden": (6, 5), "n_members": MEMBERS, "dtype": "float64", **settings})
    made.flat_target_ = outputs == 1
    scales = Columns(np.arange(outputs) + 5.0, np.full(outputs, 2.0))
    return _adopted(made, outputs, scales, (Calibration(*pool),) * outputs if pool else (), transform)


def classifier(classes, *, temperature=(), **settings):
    """A classifier of these labels."""
    made = TGGMClassifier(**{"hidden": (6, 5), "n_members": MEMBERS, "dtype": "float64", **settings})
    made.classes_ = np.asarray(classes)
    pool = (Calibration("temperature", tuple(temperature)),) if temperature else ()
    return _adopted(made, len(classes), Columns.unchanged(len(classes)), pool, None)


def _adopted(made, n, y, pool, transform):
    rng = np.random.default_rng(3)
    recipe = made.recipe()
    recipe.size(COLUMNS)
    options = {"s0": recipe.s0, "noise": 0.1, "init": "sharp"}
    model = recipe.architecture(COLUMNS, n).members(rng, MEMBERS, made.dtype, **options)
    arrays = model.arrays()
    if "likelihood.output.A" in arrays:
        arrays["likelihood.output.A"] = rng.normal(0, 0.3, (MEMBERS, n, COLUMNS)).astype(made.dtype)
    x = Columns(np.full(COLUMNS, 2.0), np.full(COLUMNS, 3.0))
    made.history_ = {"train": np.zeros((MEMBERS, 1)), "held_out": np.zeros((MEMBERS, 1)), "epoch": np.ones(1)}
    made.best_epoch_ = made.undone_ = np.ones(MEMBERS)
    made.converged_ = True
    made.name_features(COLUMNS, None)
    made.adopt(Fitted(model.replaced(arrays), Scales(x, y), made.method, pool, transform))
    return made
