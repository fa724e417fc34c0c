"""Exported graphs give what the estimator gives; onnxruntime is the witness."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from tests.deployment.drawn import (
    KINDS,
    ROWS,
    STUDENT,
    classifier,
    regressor,
    table,
    table_model,
)
from tggm import export_onnx
from tggm.deployment.graph import OnnxArithmetic
from tggm.predictive.transforms import LogTransform

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

NEAR = {"rtol": 1e-6, "atol": 1e-7}
LEVELS = [0.01, 0.3, 0.95]


@pytest.fixture
def computed(tmp_path):
    def of(model, inputs, **options):
        path = str(tmp_path / "model.onnx")
        export_onnx(model, path, **options)
        onnx.checker.check_model(path, full_check=True)
        assert_nothing_idle(onnx.load(path).graph)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_outputs()]
        return dict(zip(names, session.run(names, inputs), strict=True))

    return of


def assert_nothing_idle(graph):
    """Runtimes print a warning for each initialiser that no node needs."""
    nodes = [*graph.node, *(each for node in graph.node for a in node.attribute for each in a.g.node)]
    inside = [out for node in graph.node for a in node.attribute for out in a.g.output]
    used = {name for node in nodes for name in node.input} | {out.name for out in (*graph.output, *inside)}
    assert {each.name for each in graph.initializer} <= used
    assert all(used & set(node.output) for node in nodes)


@pytest.mark.parametrize("settings", [*KINDS.values(), {"transform": LogTransform()}], ids=[*KINDS, "log"])
def test_regressors(computed, settings):
    model = regressor(**settings)
    found = computed(model, {"X": ROWS}, quantiles=LEVELS)
    mean, std = model.predict(ROWS, return_std=True)
    can = std < 1e150  # some variances of lognormals are beyond all floats
    assert can.mean() > 0.5
    assert_allclose(found["mean"][can], mean[can], **NEAR)
    assert_allclose(found["deviation"][can], std[can], **NEAR)
    assert_allclose(found["quantiles"], model.predict_quantiles(ROWS, LEVELS), **NEAR)


def test_several_outputs_and_one_layer(computed):
    model = regressor(outputs=2, hidden=(6,), features=None, linear=False, pool=STUDENT)
    found = computed(model, {"X": ROWS}, quantiles=LEVELS)
    assert_allclose(found["mean"], model.predict(ROWS), **NEAR)
    assert_allclose(found["quantiles"], model.predict_quantiles(ROWS, LEVELS), **NEAR)


@pytest.mark.parametrize("labels", [["no", "yes"], [1, 2, 3, 5]], ids=len)
def test_classifiers(computed, labels):
    model = classifier(labels)
    found = computed(model, {"X": ROWS})
    assert_allclose(found["probabilities"], model.predict_proba(ROWS), rtol=0, atol=1e-7)
    assert found["label"].tolist() == model.predict(ROWS).tolist()


def test_single_precision_in_and_out(computed):
    model = regressor()
    rows = ROWS.astype(np.float32)
    found = computed(model, {"X": rows}, dtype="float32", quantiles=())
    assert set(found) == {"mean", "deviation"}
    assert found["mean"].dtype == np.float32
    assert_allclose(found["mean"], model.predict(rows.astype(np.float64)), rtol=1e-4, atol=1e-5)


def test_a_table_with_words_grades_dates_marks_and_gaps(computed):
    model, rows = table_model(), table()
    inputs = {name: rows[[name]].astype(object).fillna("").to_numpy() for name in ("kind", "grade", "town")}
    days = (rows[["day"]] - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")
    inputs |= {"size": rows[["size"]].to_numpy(float), "day": days.to_numpy(float)}
    inputs["dose"] = np.array([[0.1], [0.5], [np.nan], [np.nan]])
    inputs["dose: mark"] = np.array([[""], ["<"], [""], ["n.d."]], dtype=object)
    assert_allclose(computed(model, inputs)["mean"], model.predict(rows), **NEAR)


def test_what_cannot_be_exported_is_said(tmp_path):
    with pytest.raises(ValueError, match="levels between 0 and 1"):
        export_onnx(regressor(), tmp_path / "m.onnx", quantiles=[5])
    with pytest.raises(ValueError, match="`dtype` must be one of"):
        export_onnx(regressor(), tmp_path / "m.onnx", dtype="float16")
    assert not (tmp_path / "m.onnx").exists()


def test_loops_in_loops_keep_what_they_use():
    ops = OnnxArithmetic()
    x, given = ops.given("x", "float64", 1)
    (found,) = ops.repeated(lambda outer: ops.repeated(lambda inner: [inner[0] + 2.5], outer, 2), [x], 3)
    content = ops.content("loops", [given], [ops.result("y", found, "float64", ["rows", 1])])
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.zeros((1, 1))})[0].tolist() == [[15.0]]
