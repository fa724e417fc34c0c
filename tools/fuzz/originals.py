"""Sound model files of every kind: what the fuzzer changes.

Models are made, not fitted: their arrays are drawn, and what a fit would learn besides is set. Together they
have every kind of units, outputs, features, pool, transform and column that a file can name; the tests hold
that against the tables the loader looks names up in.
"""

import numpy as np

from tggm import TGGMClassifier, TGGMRegressor
from tggm.data.standardise import Columns, Scales
from tggm.estimators.fitted import Fitted
from tggm.estimators.state import HISTORY
from tggm.files import model_file
from tggm.predictive.calibration import Calibration
from tggm.predictive.transforms import LogTransform, YeoJohnsonTransform
from tggm.tables import Preparation, Target
from tggm.tables.baselines import Baselines
from tggm.tables.columns import Category, DateColumn, Number, Ordinal, Statistic
from tggm.tables.schema import FitRecord

STUDENT = Calibration("student", (1.2, 0.5, 0.1))
SHAPED = Calibration("shaped", (1.2, 0.5, 0.1, *(0.1 * k for k in range(17))))
SCALES = Calibration("scales", (1.1, 0.7, 0.2))
BETA = Calibration("beta", (1.3, 0.8))


def filled(model, width, outputs, **learned):
    """An estimator with parameters as if fitted, without the time that takes."""
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


def originals():
    """The content of a sound file of every kind, by name."""
    aside = np.sort(np.abs(np.random.default_rng(1).normal(size=(1, 30))))
    small = {"hidden": 3, "n_members": 2}
    deep = {"hidden": (3, 2), "n_members": 2}
    models = {
        "one": filled(TGGMRegressor(**small), 2, 1, calibration=(STUDENT,)),
        "bounded": filled(
            TGGMRegressor(**small, features="bounded", dtype="float64"), 2, 1,
            calibration=(BETA,), guarantee=aside,
        ),
        "log": filled(
            TGGMRegressor(**small, features=None, linear=False), 2, 1,
            calibration=(Calibration(),), transform=LogTransform(),
        ),
        "power": filled(
            TGGMRegressor(**deep), 2, 1, calibration=(SCALES,), transform=YeoJohnsonTransform(0.5)
        ),
        "two": filled(TGGMRegressor(**small), 2, 2, calibration=(SHAPED, BETA)),
        "two double": filled(TGGMRegressor(**small, dtype="float64", features=None), 2, 2),
        "two deep": filled(TGGMRegressor(**deep, dtype="float64"), 2, 2),
        "lateral": filled(TGGMRegressor(**small, lateral=2, method="ep"), 2, 1),
        "two lateral": filled(TGGMRegressor(**small, lateral=2, method="ep", dtype="float64"), 2, 2),
        "undirected": filled(TGGMRegressor(**deep, deep="undirected", method="ep"), 2, 1),
        "two undirected": filled(TGGMRegressor(**deep, deep="undirected", method="meanfield"), 2, 2),
        "classes": filled(
            TGGMClassifier(**small, class_weight={"a": 1.0, "b": 2.0, "ü": 1.0}), 2, 3,
            calibration=(Calibration("temperature", (1.5, 0.1, -0.2, 0.1)),),
        ),
        "deep classes": filled(TGGMClassifier(**deep, dtype="float64"), 2, 3),
        "undirected classes": filled(TGGMClassifier(**deep, deep="undirected", method="ep"), 2, 2),
    }  # fmt: skip
    return {name: model_file(model) for name, model in models.items()} | tables()


def tables():
    """Files of models that take tables, of either task, with columns of every kind."""
    found = {}
    for name, kind, outputs in (("table", TGGMRegressor, 1), ("class table", TGGMClassifier, 2)):
        preparation = prepared(kind.task, outputs)
        width = len(preparation.feature_names)
        model = filled(kind(hidden=2, n_members=1), width, outputs)
        model.adopt_table(preparation)
        found[name] = model_file(model, preparation.baselines, preparation.fitted)
    return found


def prepared(task, outputs):
    """How the columns of `TABLE` become numbers."""
    columns = (
        Number("a", 3.0, True, ".", "", ()),
        Category("b", ("u", "v"), True, True),
        Ordinal("grade", ("low", "high"), 0.0, True),
        Statistic("word", ("mean",), ("p", "q"), (3, 2, 1, 0), ((0.1,), (0.2,), (0.0,), (0.3,))),
        DateColumn("day", 18262.0, 0.04, ("week", "day"), False, False, False),
    )
    target = Target("y", task, False)
    width = len(Preparation(columns, target).feature_names)
    naive, lines = ((0.0, 2.0), 1) if task == "regression" else ((-0.5, -0.9), outputs)
    baselines = Baselines(np.array(naive), np.ones((lines, width)), np.zeros(lines), 1.0)
    record = FitRecord("t.csv", 60, 6, 0, 1.5, {"model": {"rmse": 1.0}})
    names = tuple(column.name for column in columns)
    return Preparation(
        columns, target, (("id", "as asked"),), ("none",), names, True, ("a note",), baselines, record
    )


TABLE = """a,b,grade,word,day
1.5,u,low,p,2020-01-03
,,high,q,2020-02-29
-2,x,,new,2021-12-31
"""
