"""Predictions by NumPy and by an ONNX runtime equal those of the estimator."""

import subprocess
import sys
import warnings
from dataclasses import replace
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, special

from tests.cases import few
from tests.deployment.fits import KINDS, ROWS, SUPPORTS, classifier, regressor, table, table_model
from tggm import TGGMClassifier, TGGMRegressor, export_onnx, load, save
from tggm.deployment import NumPyClassifier, NumPyRegressor, onnx_export, predictors
from tggm.estimators import to_state
from tggm.paper import PaperRegressor
from tggm.predictive import member_moments, numpy_network
from tggm.tables import Preparation, TableTransformer, Target
from tggm.tables.columns import Category, DateColumn, Number, Ordinal, Statistic
from tggm.tables.target_encoding import TargetEncoding

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
ndx = pytest.importorskip("ndonnx")
pytestmark = pytest.mark.filterwarnings("ignore:`X` has values more than one range")
SAME = {"rtol": 1e-9, "atol": 1e-9}  # both in double precision
NEAR = {"rtol": 1e-6, "atol": 1e-7}
LEVELS = [0.01, 0.3, 0.95]
BINARY, FOUR = ("no", "yes"), (1, 2, 3, 5)
SIZE = 10 * 2**20  # bytes of a graph at most


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Let JAX compute few rows, too, so that the results are independent."""
    monkeypatch.setattr(member_moments, "MOST_NUMPY", -1)


@pytest.fixture
def reloaded(tmp_path):
    def reload(model):
        save(model, tmp_path / "model.tggm")
        return load(tmp_path / "model.tggm", backend="numpy")

    return reload


def run(graph, inputs):
    """Return the results of a graph by name; warnings of the runtime are errors."""
    onnx.checker.check_model(graph, full_check=True)
    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.fixture
def exported(tmp_path):
    def compute(model, inputs, **options):
        path = tmp_path / "model.onnx"
        export_onnx(model, path, **options)
        assert path.stat().st_size < SIZE
        return run(onnx.load(path), inputs)

    return compute


def test_functions_of_a_unit_equal_scipy():
    a = np.linspace(-30, 30, 601)
    assert_allclose(numpy_network.log_ndtr(np, a), special.log_ndtr(a), rtol=1e-12, atol=1e-14)
    assert_allclose(numpy_network.erfc(np, a / 3), special.erfc(a / 3), rtol=1e-10)


MODELS = {kind: {"kind": kind} for kind in [*KINDS, *SUPPORTS]} | {"two outputs": {"outputs": 2}}
NEAR_KINDS = ("student", "shaped", "log student")
MODELS |= {f"{kind}, neighbors": {"kind": kind, "neighbors": 3} for kind in NEAR_KINDS}


@pytest.mark.parametrize("name", MODELS)
def test_numpy_means_deviations_quantiles_intervals_and_densities(reloaded, name):
    model = regressor(**MODELS[name])
    assert (model.fitted_.neighbors is not None) == ("neighbors" in MODELS[name])
    copy, wanted = reloaded(model), model.predict(ROWS, return_std=True)
    assert_allclose(copy.predict(ROWS), wanted[0], **SAME)
    for found, value in zip(copy.predict(ROWS, return_std=True), wanted, strict=True):
        assert_allclose(found, value, **SAME)
    assert_allclose(copy.predict_quantiles(ROWS, LEVELS), model.predict_quantiles(ROWS, LEVELS), **SAME)
    assert_allclose(copy.predict_interval(ROWS, 0.8), model.predict_interval(ROWS, 0.8), **SAME)
    if "outputs" in MODELS[name]:
        with pytest.raises(ValueError, match="several outputs needs JAX"):
            copy.predict_dist(ROWS)
    else:
        y = np.linspace(1.0, 9.0, len(ROWS))
        assert_allclose(copy.predict_dist(ROWS).logpdf(y), model.predict_dist(ROWS).logpdf(y), **SAME)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in SUPPORTS])
def test_onnx_means_deviations_and_quantiles(exported, name):
    model = regressor(**MODELS[name])
    model.fitted_ = replace(model.fitted_, train=None)  # a graph does not widen predictions
    found, wanted = exported(model, {"X": ROWS}, quantiles=LEVELS), model.predict_quantiles(ROWS, LEVELS)
    mean, std = model.predict(ROWS, return_std=True)
    finite = std < 1e150  # some variances of lognormals overflow
    assert finite.mean() > 0.5
    assert_allclose(found["mean"][finite], mean[finite], **NEAR)
    assert_allclose(found["deviation"][finite], std[finite], **NEAR)
    same = np.isclose(found["quantiles"], wanted, **NEAR)
    if "neighbors" in MODELS[name]:
        # where the density is low, between kernels, a small error of a probability moves a quantile far
        same |= np.abs(model.predict_dist(ROWS).cdf(found["quantiles"]) - LEVELS) < 1e-7
    assert same.all()


def test_a_support_cannot_be_exported(exported):
    with pytest.raises(ValueError, match=r"\(0.0, None, 1.0\), which ONNX files cannot hold; fit with"):
        exported(regressor("counts"), {"X": ROWS})


@pytest.mark.parametrize("features", few([None, "bounded"], "None"))
def test_other_features_without_a_linear_part(reloaded, exported, features):
    model = regressor(features=features, linear=False)
    assert_allclose(reloaded(model).predict(ROWS), model.predict(ROWS), **SAME)
    rows = 0.2 * ROWS[:-4]  # inside of the training rows: ONNX graphs have no rule for others
    assert_allclose(exported(model, {"X": rows})["mean"], model.predict(rows), **NEAR)


@pytest.mark.parametrize(("labels", "more"), [(BINARY, {}), (FOUR, {}), (FOUR, {"neighbors": 3})], ids=str)
def test_probabilities(reloaded, exported, labels, more):
    model = classifier(labels, **more)
    copy, p = reloaded(model), model.predict_proba(ROWS)
    if more:
        assert np.abs(p - classifier(FOUR).predict_proba(ROWS)).max() > 1e-4
        assert_allclose(np.exp(model.predict_log_proba(ROWS)), p, rtol=1e-9, atol=1e-300)
    assert_allclose(copy.predict_proba(ROWS), p, rtol=0, atol=1e-8)
    assert_allclose(copy.predict_log_proba(ROWS), model.predict_log_proba(ROWS), rtol=1e-5, atol=1e-6)
    assert_allclose(copy.predict_proba(ROWS).sum(1), 1.0, rtol=1e-12)
    assert copy.predict(ROWS).tolist() == model.predict(ROWS).tolist()
    found = exported(model, {"X": ROWS})
    assert_allclose(found["probabilities"], p, rtol=0, atol=1e-7)
    assert found["label"].tolist() == model.predict(ROWS).tolist()


def test_sparse_rows_of_a_classifier(reloaded):
    model = classifier(FOUR)
    rows = ROWS * (ROWS > 2)
    found = reloaded(model).predict_proba(sparse.csr_matrix(rows))
    assert_allclose(found, model.predict_proba(rows), atol=1e-8)


def test_single_precision(reloaded, exported):
    model = regressor(dtype="float32")
    found = reloaded(model).predict_quantiles(ROWS)
    assert_allclose(found, model.predict_quantiles(ROWS), rtol=1e-3, atol=1e-3)
    assert set(exported(regressor(), {"X": ROWS}, quantiles=())) == {"mean", "deviation"}


def test_blocks_of_rows_do_not_change_predictions(reloaded, monkeypatch):
    copy = reloaded(regressor())
    whole = copy.predict(ROWS)
    monkeypatch.setattr(predictors, "MIN_ROWS", 7)
    monkeypatch.setattr(predictors, "BLOCK", 1)
    assert_allclose(copy.predict(ROWS), whole, rtol=1e-12)


def onnx_table(rows):
    """Return a table as the inputs of a graph."""
    inputs = {name: rows[[name]].astype(object).fillna("").to_numpy() for name in ("kind", "grade", "town")}
    days = (rows[["day"]] - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")
    inputs |= {"size": rows[["size"]].to_numpy(float), "day": days.to_numpy(float)}
    inputs["dose"] = np.array([[0.1], [0.5], [np.nan], [np.nan]])
    inputs["dose: mark"] = np.array([[""], ["<"], [""], ["n.d."]], dtype=object)
    return inputs


def test_a_model_of_a_table_takes_tables(reloaded, exported):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of marks
        model = table_model()
    copy, rows = reloaded(model), table()
    assert_allclose(copy.predict(rows[rows.columns[::-1]]), model.predict(rows), **SAME)
    with pytest.raises(ValueError, match="kind"):
        copy.predict(rows[[]])
    # without unknown words, which a graph does not marginalise
    rows = rows.assign(kind=["a", "b", None, "a"], town=[None, "rome", "york", "rome"])
    assert_allclose(exported(model, onnx_table(rows))["mean"], model.predict(rows), **NEAR)


def test_graphs_encode_every_kind_of_column():
    target = TargetEncoding(("y",), (0.3, 1.0), ((2.0,), (-1.0,), (0.5,)), 300)
    columns = (
        Number("size", 0.5, True, encoding=target),
        Number("dose", 0.4, True, marks=("<", "n.d.")),
        Category("kind", ("a", "b"), ("c",), True),
        Ordinal("grade", ("low", "mid", "top"), 1.0, True),
        DateColumn("day", 18262.0, 1.2, ("year", "week"), True, True),
        Statistic("town", ("y",), ("rome", "york"), (5, 3, 2, 1), ((0.5,), (2.0,), (1.0,), (-1.0,))),
    )
    names = tuple(column.name for column in columns)
    preparation = Preparation(columns, Target("y", "regression"), names=names)
    arguments, X = onnx_export._inputs(ndx, None, preparation)
    found = run(ndx.build(arguments, {"X": X}), onnx_table(table()))["X"]
    assert_allclose(found, TableTransformer.of(preparation).transform(table()), rtol=1e-9, atol=1e-9)


def test_wrong_arguments_raise(reloaded, tmp_path):
    model, copy = regressor(), reloaded(regressor())
    with pytest.raises(ValueError, match="`return_std` must be"):
        copy.predict(ROWS, return_std="parts")
    with pytest.raises(TypeError, match="predicts only"):
        copy.fit(ROWS, ROWS[:, 0])
    with pytest.raises(ValueError, match="`backend` must be one of"):
        load(tmp_path / "model.tggm", backend="torch")
    with pytest.raises(ValueError, match="4 features"):
        copy.predict(ROWS[:, :3])
    with pytest.raises(ValueError, match="levels between 0 and 1"):
        export_onnx(model, tmp_path / "m.onnx", quantiles=[5])
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("kinds", [(TGGMRegressor, NumPyRegressor), (TGGMClassifier, NumPyClassifier)])
def test_methods_that_need_jax_name_the_alternative(kinds):
    known, made = ({name for name in dir(kind) if name[0] != "_"} for kind in kinds)
    given = set(signature(kinds[0]).parameters) | {"paper_ml", "paper_bp", "fitted_", "support_", "table_"}
    for name in {name for name in known - made - given if not name.endswith("_request")}:  # of scikit-learn
        alternative = rf"has no {name}; (use|only JAX computes it: load the model)"
        with pytest.raises(AttributeError, match=alternative):
            getattr(kinds[1](), name)
    assert not hasattr(kinds[1](), "nothing")


def test_other_hidden_layers_raise():
    arrays, meta = to_state(regressor())
    meta["network"] |= {"layers": "Rectified"}
    with pytest.raises(ValueError, match="only JAX can compute its layers 'Rectified'"):
        NumPyRegressor.from_state(arrays, meta)


@pytest.mark.parametrize("model", [PaperRegressor(), 3])
def test_only_models_of_two_classes_are_exported(tmp_path, model):
    with pytest.raises(TypeError, match=f"TGGMRegressor or TGGMClassifier; got {type(model).__name__}"):
        export_onnx(model, tmp_path / "m.onnx")


def test_a_missing_ndonnx_is_reported(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ndonnx", None)
    with pytest.raises(ImportError, match="pip install ndonnx"):
        export_onnx(regressor(), tmp_path / "m.onnx")


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "jaxlib", "onnx", "ndonnx", "pandas", "pyarrow"):
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocked())
import numpy as np, tggm
model = tggm.load(sys.argv[1], backend="numpy")
np.save(sys.argv[2], model.predict_quantiles(np.load(sys.argv[3])))
assert not {"jax", "jaxlib"} & set(sys.modules)
"""


def test_numpy_predictions_do_not_import_jax(tmp_path):
    model = regressor()
    save(model, tmp_path / "m.tggm")
    np.save(tmp_path / "rows.npy", ROWS)
    names = [str(tmp_path / name) for name in ("m.tggm", "found.npy", "rows.npy")]
    subprocess.run([sys.executable, "-c", BLOCKED, *names], check=True)
    assert_allclose(np.load(names[1]), model.predict_quantiles(ROWS), **SAME)
