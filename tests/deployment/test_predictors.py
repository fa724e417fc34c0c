"""Predictions by NumPy alone are those of the estimator that was stored."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.cases import few
from tests.deployment.drawn import (
    COLUMNS,
    KINDS,
    ROWS,
    STUDENT,
    classifier,
    regressor,
    table,
    table_model,
)
from tggm import ModelFileError, export_onnx, load, save
from tggm.deployment import classes, weights
from tggm.deployment.predictors import NumPyRegressor
from tggm.estimators import class_prediction
from tggm.models.features import columns
from tggm.models.likelihoods import probit

SAME = {"rtol": 1e-9, "atol": 1e-9}  # double precision on both sides
SINGLE = {"rtol": 1e-3, "atol": 1e-4}  # the model computes in single precision, NumPy in double


@pytest.fixture
def reloaded(tmp_path):
    def of(model):
        save(model, tmp_path / "model.tggm")
        return load(tmp_path / "model.tggm", backend="numpy")

    return of


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_means_deviations_and_quantiles_of_two_layers(reloaded, settings):
    model = regressor(**settings)
    copy = reloaded(model)
    for found, wanted in zip(
        copy.predict(ROWS, return_std=True), model.predict(ROWS, return_std=True), strict=True
    ):
        assert_allclose(found, wanted, **SAME)
    assert_allclose(copy.predict(ROWS), model.predict(ROWS), **SAME)
    levels = [0.001, 0.3, 0.95]
    assert_allclose(copy.predict_quantiles(ROWS, levels), model.predict_quantiles(ROWS, levels), **SAME)
    assert_allclose(copy.predict_interval(ROWS, 0.8), model.predict_interval(ROWS, 0.8), **SAME)
    y = np.linspace(1.0, 9.0, len(ROWS))
    assert_allclose(copy.score_samples(ROWS, y), model.score_samples(ROWS, y), **SAME)


@pytest.mark.parametrize("features", few([None, "bounded", "periodic"], "None", "periodic"))
@pytest.mark.parametrize("linear", [False, True])
def test_features_and_linear_part_of_one_layer(reloaded, features, linear):
    model = regressor(hidden=(6,), features=features, linear=linear)
    copy = reloaded(model)
    for found, wanted in zip(
        copy.predict(ROWS, return_std=True), model.predict(ROWS, return_std=True), strict=True
    ):
        assert_allclose(found, wanted, **SAME)
    assert_allclose(copy.predict_quantiles(ROWS), model.predict_quantiles(ROWS), **SAME)


def test_several_outputs(reloaded):
    model = regressor(outputs=2, pool=STUDENT)
    copy = reloaded(model)
    assert_allclose(copy.predict(ROWS), model.predict(ROWS), **SAME)
    assert_allclose(copy.predict_quantiles(ROWS, [0.2]), model.predict_quantiles(ROWS, [0.2]), **SAME)
    with pytest.raises(ValueError, match="several outputs needs JAX"):
        copy.predict_dist(ROWS)


@pytest.mark.parametrize(
    "labels", few([["no", "yes"], [1, 2, 3, 5]], "4", name=lambda a: str(len(a))), ids=len
)
def test_probabilities(reloaded, labels):
    model = classifier(labels)
    copy = reloaded(model)
    assert_allclose(copy.predict_proba(ROWS), model.predict_proba(ROWS), rtol=0, atol=1e-8)
    assert_allclose(copy.predict_log_proba(ROWS), model.predict_log_proba(ROWS), rtol=1e-5, atol=1e-6)
    assert_allclose(copy.predict_proba(ROWS).sum(1), 1.0, rtol=1e-12)
    assert copy.predict(ROWS).tolist() == model.predict(ROWS).tolist()


def test_single_precision_is_near(reloaded):
    model = regressor(dtype="float32", pool=STUDENT)
    assert_allclose(reloaded(model).predict_quantiles(ROWS), model.predict_quantiles(ROWS), **SINGLE)
    model = classifier(["a", "b", "c"], dtype="float32")
    assert_allclose(reloaded(model).predict_proba(ROWS), model.predict_proba(ROWS), **SINGLE)


def test_blocks_of_rows_change_nothing(reloaded, monkeypatch):
    from tggm.deployment import predictors

    copy = reloaded(regressor())
    whole = copy.predict(ROWS)
    monkeypatch.setattr(predictors, "FEWEST_ROWS", 7)
    monkeypatch.setattr(predictors, "BLOCK", 1)
    assert_allclose(copy.predict(ROWS), whole, rtol=1e-12)


def test_a_model_of_a_table_takes_tables(reloaded):
    model = table_model()
    copy, rows = reloaded(model), table()
    assert_allclose(copy.predict(rows[rows.columns[::-1]]), model.predict(rows), **SAME)
    with pytest.raises(ValueError, match="kind"):
        copy.predict(rows[["size"]])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"hidden": (6,), "lateral": 2, "method": "ep", "linear": False}, "lateral connections"),
        ({"deep": "undirected", "method": "meanfield", "linear": False}, "undirected"),
    ],
)
def test_models_that_need_an_engine_are_refused(reloaded, settings, reason):
    with pytest.raises(ModelFileError, match=f"{reason}.*only JAX"):
        reloaded(regressor(**settings))


def test_what_it_cannot_do_is_said(reloaded, tmp_path):
    copy = reloaded(regressor(hidden=(6,)))
    with pytest.raises(ValueError, match="`return_std` must be"):
        copy.predict(ROWS, return_std="parts")
    with pytest.raises(TypeError, match="predicts only"):
        copy.fit(ROWS, ROWS[:, 0])
    with pytest.raises(ValueError, match="`backend` must be one of"):
        load(tmp_path / "model.tggm", backend="torch")
    with pytest.raises(ValueError, match="4 features"):
        copy.predict(ROWS[:, :3])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("model.hidden.b.0", lambda a: a[:, :-1]),
        ("model.features.c", lambda a: a[..., :3]),
        ("model.likelihood.output.A", lambda a: a * np.nan),
        ("model.hidden.s0", lambda a: -a),
        ("x.scale", lambda a: 0 * a),
        ("y.scale", lambda a: a[:0]),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(name, change):
    arrays, meta = regressor().to_state()
    with pytest.raises(ValueError, match=r"array|positive"):
        NumPyRegressor.from_state({**arrays, name: change(arrays[name])}, meta)
    for wrong in ({"features": ["a"]}, {"calibration": [["linear"]] * 2}):
        with pytest.raises(ValueError, match=r"names of its 4|2 calibrations"):
            NumPyRegressor.from_state(arrays, {**meta, **wrong})


def test_without_onnx_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="pip install onnx"):
        export_onnx(regressor(), tmp_path / "m.onnx")


def test_numbers_are_those_of_the_models():
    assert (weights.BULK, weights.MOST_INPUT) == (columns.BULK, columns.MOST)
    assert classes.CONTENDERS == probit.CONTENDERS
    assert classes.LEAST_VARIANCE == probit.LEAST_VARIANCE
    assert class_prediction.SPACING["float64"] == classes.SPACING


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "jaxlib", "optax", "onnx", "pandas", "pyarrow", "typer"):
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocked())
import numpy as np, tggm
model = tggm.load(sys.argv[1], backend="numpy")
np.save(sys.argv[2], model.predict_quantiles(np.load(sys.argv[3])))
assert not {"jax", "jaxlib", "optax"} & set(sys.modules)
"""


def test_jax_is_never_imported(tmp_path):
    model = regressor(pool=STUDENT)
    save(model, tmp_path / "m.tggm")
    np.save(tmp_path / "rows.npy", ROWS)
    names = [str(tmp_path / name) for name in ("m.tggm", "found.npy", "rows.npy")]
    subprocess.run([sys.executable, "-c", BLOCKED, *names], check=True)
    assert_allclose(np.load(names[1]), model.predict_quantiles(ROWS), **SAME)
    assert ROWS.shape[1] == COLUMNS
