"""Targets, the table section of a model file, and baselines."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.tables.test_columns import table
from tggm import files
from tggm.storage import encode
from tggm.tables import FitRecord, TableError, TableTransformer, Target, choose_target
from tggm.tables.baselines import fit_baselines
from tggm.tables.schema import preparation_from_json, preparation_to_json

Y = Target("y", "regression")


@pytest.mark.parametrize(
    ("values", "task", "integer"),
    [
        (["a", "b"] * 5, "classification", False),
        (["0", "1"] * 5, "classification", True),
        (["0.5", "1.5"] * 5, "classification", False),
        (["1", "2", "3"] * 5, "classification", True),
        (["1", "2", "3"] * 4, "regression", False),
        ([f"{k}" for k in range(11)] * 5, "regression", False),
        (["1.5", "2", "3"] * 5, "regression", False),
    ],
)
def test_the_task_is_decided_by_the_target(values, task, integer):
    t = table(z=values)
    assert choose_target(t, "z", None)[0] == Target("z", task, integer)
    assert choose_target(t, "z", "classification")[0].is_class


def test_labels_are_whole_numbers_in_any_spelling():
    target = Target("z", "classification", integer=True)
    assert target.values(table(z=["7", "7.0", "3"])).tolist() == [7, 7, 3]
    assert target.values(table(z=np.array([7.0, 3.0]))).tolist() == [7, 3]
    with pytest.raises(TableError, match="has the class 'x'"):
        target.values(table(z=["7", "x"]))


@pytest.mark.parametrize(
    ("values", "task", "sentence"),
    [
        ([None] * 5, None, "is empty; choose another"),
        (["a"] * 5, None, "has one value, 'a'"),
        (["1"] * 5, "regression", "has one value, '1'"),
        (["1.0", "1"] * 5, "regression", "has one value"),
        (["1", "2", "x"] * 5, "regression", "has 'x', which is not a number"),
        (["True", "False", "True"] * 5, "regression", "has .False., which is not a number"),
        ([f"w{k}" for k in range(9)] + ["w0"], None, "9 values in 10 rows, too many classes"),
        (["2024-01-01", "2024-01-02"] * 3 + [None], None, "of t.csv holds dates; .* such as days"),
        (["1e200", "-1e201", "1", "2.5"], None, "has 1e\\+201, too large"),
        ([*(str(k) for k in range(30)), "lost"], None, "has numbers, but also 'lost' in row 31"),
    ],
)
def test_unusable_targets_are_rejected(values, task, sentence):
    with pytest.raises(TableError, match=sentence):
        choose_target(table(z=values), "z", task)


@pytest.fixture
def full():
    t, y = table(a=["1", None, "5", "3", "9", "7"], c=["u", "v"] * 3), np.arange(6.0) ** 2
    how = TableTransformer(missing=["n.d."], task="regression")
    baselines = fit_baselines(how.fit_transform(t, y), y, False)
    fitted = FitRecord("t.csv", 6, 0, 0, 1.5, {"model": {"rmse": 1.0}})
    return dataclasses.replace(how.preparation(Y), baselines=baselines, fitted=fitted)


def test_the_table_section_survives_json(full):
    stored = json.loads(json.dumps(preparation_to_json(full)))
    again = preparation_from_json(stored)
    assert preparation_to_json(again) == stored
    assert (again.columns, again.target, again.gaps, again.fitted) == (
        full.columns, full.target, full.gaps, full.fitted,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ((), [], "table must have exactly the entries"),
        (("extra",), 1, "table must have exactly the entries"),
        (("columns",), {}, "columns must be a list"),
        (("columns",), [], "must have columns"),
        (("columns", 0, "kind"), "colour", "of kind 'colour'"),
        (("columns", 0, "fill"), float("inf"), "fill must be a finite number"),
        (("columns", 0, "indicator"), 1, "must be true or false"),
        (("columns", 0, "name"), "c", "all of different names"),
        (("columns", 1, "levels"), ["u", "u"], "must be distinct words"),
        (("columns", 1, "levels"), [1], "levels must be text"),
        (("target", "task"), "ranking", "not for one of"),
        (("left_out",), [["a"]], "pairs"),
        (("baselines", "naive"), [1.0], "a mean and positive variances"),
        (("baselines", "coef"), [[1.0]], "linear baseline has shapes"),
        (("baselines", "coef"), [["x"]], "coef must be a finite number"),
        (("fitted", "rows"), -1, "rows must be a count"),
        (("fitted", "figures"), [], "figures must be an object"),
        (("fitted", "figures", "model"), {"rmse": None}, "rmse must be a finite number"),
    ],
)
def test_invalid_table_sections_are_rejected(full, path, value, sentence):
    stored = preparation_to_json(full)
    if path:
        place = stored
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
    with pytest.raises(ValueError, match=sentence):
        preparation_from_json(stored if path else value)


def restore(arrays, state, table):
    """Return the smallest estimator that takes tables."""
    scales = SimpleNamespace(x=SimpleNamespace(shift=np.zeros(4)))
    return SimpleNamespace(task="regression", table=table, fitted_=SimpleNamespace(scales=scales))


def test_a_table_section_must_fit_the_model_of_its_file(full, monkeypatch):
    monkeypatch.setattr(files, "loaders", lambda backend: {"Toy": restore})
    stored = preparation_to_json(dataclasses.replace(full, baselines=None))

    def read(**changed):
        description = {"class": "Toy", "state": {}, "table": stored | changed}
        return files.parse_model(encode({"w": np.arange(3.0)}, description), "m.tggm")

    model, found = read()
    assert model.table == found
    for changed, message in (
        ({"columns": []}, "its table section is not valid .its table must have columns"),
        ({"target": stored["target"] | {"task": "classification"}}, "inputs for classification"),
        ({"columns": stored["columns"][:1]}, "makes 2 inputs"),
    ):
        with pytest.raises(files.ModelFileError, match=message):
            read(**changed)


def test_linear_baseline_of_a_number(rng):
    X = rng.normal(size=(2000, 3)) * [1, 10, 0.1] + [5, -3, 0]
    y = X @ [2.0, -0.3, 4.0] + 7 + 0.5 * rng.normal(size=2000)
    found = fit_baselines(X, y, False).predictions(X[:5], False)
    # standard errors of the coefficients are 0.5 / sqrt(2000) over the columns' scales
    np.testing.assert_allclose(found["linear"].mean(), X[:5] @ [2.0, -0.3, 4.0] + 7, atol=0.15)
    np.testing.assert_allclose(found["linear"].std(), 0.5, atol=0.04)
    np.testing.assert_allclose(found["naive"].mean(), y.mean())
    np.testing.assert_allclose(found["naive"].std(), y.std(ddof=1))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_baseline_of_classes_is_logistic_regression(rng, n_classes):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = rng.normal(size=(300, 2)) * [1, 5]
    label = (X @ rng.normal(size=(2, n_classes)) + rng.gumbel(size=(300, n_classes))).argmax(1)
    found = fit_baselines(X, label, True).predictions(X, True)
    witness = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X, label)
    np.testing.assert_allclose(np.exp(found["linear"]), witness.predict_proba(X), atol=1e-6)
    count = np.bincount(label) + 1
    np.testing.assert_allclose(np.exp(found["naive"][0]), count / count.sum())


def test_constant_inputs_give_finite_baselines():
    X = np.column_stack([np.ones(20), np.arange(20.0)])
    found = fit_baselines(X, 3 * X[:, 1], False).predictions(X, False)
    assert np.isfinite(found["linear"].mean()).all()
