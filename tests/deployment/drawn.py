"""Models with weights that were drawn instead of trained: only what predicts them is compiled."""

import numpy as np
import pandas as pd

from tggm import TGGMClassifier, TGGMRegressor
from tggm.data.standardise import Columns, Scales
from tggm.estimators.fitted import Fitted
from tggm.predictive.calibration import Calibration
from tggm.predictive.transforms import LogTransform, YeoJohnsonTransform
from tggm.tables import Preparation, Target
from tggm.tables.columns import Category, DateColumn, Number, Ordinal, Statistic
from tggm.tables.target_encoding import TargetEncoding

COLUMNS, MEMBERS = 4, 3
ROWS = np.random.default_rng(1).normal(2.0, 3.0, (40, COLUMNS))
ROWS[-4:] *= 40  # far from what the model has seen
STUDENT, BETA = ("student", (0.6, 2.0, 0.05)), ("beta", (1.4, 0.8))
SHAPED = ("shaped", (0.6, 2.0, 0.05, *np.sin(np.arange(17.0))))
SCALES = ("scales", (0.7, 1.2, 0.3))
KINDS = {  # settings of `regressor`
    "mixture": {},
    "student": {"pool": STUDENT},
    "shaped": {"pool": SHAPED},
    "scales": {"pool": SCALES},
    "beta": {"pool": BETA},
    "log-student": {"pool": ("student", (0.6, 2.0, 0.0)), "transform": LogTransform()},
    "power": {"pool": BETA, "transform": YeoJohnsonTransform(0.5)},
}


def regressor(*, outputs=1, pool=(), transform=None, columns=COLUMNS, **settings):
    """A regressor of `outputs` outputs with this calibration of each."""
    made = TGGMRegressor(**{"hidden": (6, 5), "n_members": MEMBERS, "dtype": "float64", **settings})
    made.flat_target_ = outputs == 1
    scales = Columns(np.arange(outputs) + 5.0, np.full(outputs, 2.0))
    return _adopted(
        made, outputs, scales, (Calibration(*pool),) * outputs if pool else (), transform, columns
    )


def classifier(classes, *, temperature=(), **settings):
    """A classifier of these labels."""
    made = TGGMClassifier(**{"hidden": (6, 5), "n_members": MEMBERS, "dtype": "float64", **settings})
    made.classes_ = np.asarray(classes)
    pool = (Calibration("temperature", tuple(temperature)),) if temperature else ()
    return _adopted(made, len(classes), Columns.unchanged(len(classes)), pool, None, COLUMNS)


def _adopted(made, n, y, pool, transform, d):
    rng = np.random.default_rng(3)
    recipe = made.recipe()
    recipe.size(d)
    options = {"s0": recipe.s0, "noise": 0.1, "init": "sharp"}
    model = recipe.architecture(d, n).members(rng, MEMBERS, made.dtype, **options)
    arrays = model.arrays()
    if "likelihood.output.A" in arrays:
        arrays["likelihood.output.A"] = rng.normal(0, 0.3, (MEMBERS, n, d)).astype(made.dtype)
    x = Columns(np.full(d, 2.0), np.full(d, 3.0))
    made.history_ = {"train": np.zeros((MEMBERS, 1)), "held_out": np.zeros((MEMBERS, 1)), "epoch": np.ones(1)}
    made.best_epoch_ = made.undone_ = np.ones(MEMBERS)
    made.converged_ = True
    made.name_features(d, None)
    made.adopt(Fitted(model.replaced(arrays), Scales(x, y), made.method, pool, transform))
    return made


def table_model():
    """A regressor of a table with every kind of column."""
    learned = (
        Number(
            "size",
            0.5,
            True,
            knots=(-1.0, 0.2, 0.4, 1.5),
            encoding=TargetEncoding(("y",), (0.3, 1.0), ((2.0,), (-1.0,), (0.5,))),
        ),
        Number("dose", 0.4, True, marks=("<", "n.d.")),
        Category("kind", ("a", "b"), True, True),
        Ordinal("grade", ("low", "mid", "top"), 1.0, True),
        DateColumn("day", 18262.0, 1.2, ("year", "week"), True, True),
        Statistic("town", ("y",), ("rome", "york"), (5, 3, 2, 1), ((0.5,), (2.0,), (1.0,), (-1.0,))),
    )
    names = tuple(column.name for column in learned)
    preparation = Preparation(learned, Target("y", "regression"), names=names)
    model = regressor(columns=len(preparation.feature_names))
    model.adopt_table(preparation)
    return model


def table():
    """Rows for it, with gaps and unknown words."""
    columns = {
        "size": [1.0, np.nan, -2.0, 0.3],
        "dose": ["0.1", "<0.5", None, "n.d."],
        "kind": ["a", "b", None, "z"],
        "grade": ["mid", None, "top", "low"],
        "day": pd.to_datetime(["2020-03-01", "2021-07-05", None, "2022-01-01"]),
        "town": [None, "rome", "york", "oslo"],
    }
    return pd.DataFrame(columns)
