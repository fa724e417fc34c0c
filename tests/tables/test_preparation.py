"""Tables to numbers: against tables encoded by hand, and by pandas."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from tests.tables.prepared import features, prepare
from tggm.tables import (
    Table,
    TableError,
    TableTransformer,
    Target,
    choose_target,
    preparation_from_json,
    preparation_to_json,
)
from tggm.tables.baselines import fit_classes, fit_regression
from tggm.tables.columns import Category, DateColumn, Number
from tggm.tables.schema import FitRecord

Y = Target("y", "regression")


def words(*values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def table(**columns):
    rows = len(next(iter(columns.values())))
    given = {name: words(*column) if isinstance(column, list) else column for name, column in columns.items()}
    return Table("t.csv", {**given, "y": np.arange(float(rows)) ** 2})


def test_numbers_are_filled_with_the_median_and_marked():
    t = table(a=["1", None, "5", "3", "100", None])
    p = prepare(t, Y)
    notes = []
    expected = [[1, 0], [4, 1], [5, 0], [3, 0], [100, 0], [4, 1]]
    np.testing.assert_array_equal(features(p, t, notes), expected)
    assert p.feature_names == ["a", "a is missing"]
    assert notes == ["a: 2 rows without a value, filled with the median 4"]


def test_categories_agree_with_pandas(rng):
    colour = rng.choice(["red", "green", "blue"], 60).tolist()
    t = table(c=colour)
    expected = pd.get_dummies(pd.Series(colour)).astype(float)  # sorted levels
    p = prepare(t, Y)
    assert p.feature_names == [f"c = {level}" for level in expected.columns]
    np.testing.assert_array_equal(features(p, t), expected.to_numpy())


def test_rare_unknown_and_missing_categories():
    t = table(c=["a"] * 10 + ["b"] * 5 + ["rare", "odd", None, None])
    p = prepare(t, Y)
    assert p.columns == (Category("c", ("a", "b"), other=True, missing=True),)
    notes = []
    got = features(p, table(c=["a", "new", None, "b"]), notes)
    np.testing.assert_array_equal(got, [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]])
    assert "1 row with rare or unknown categories ('new'), taken together as other" in notes[0]
    assert "a category of their own" in notes[1]


# enough rows that half a percent of them is less than three, three, and more
@pytest.mark.parametrize(("rows", "least"), [(40, 3), (600, 3), (1000, 5), (3000, 15)])
def test_a_level_needs_three_rows_and_half_a_percent(rows, least):
    column = ["enough"] * least + ["rare"] * (least - 1)
    column += ["usual", "common"] * ((rows - len(column)) // 2)
    column += ["usual"] * (rows - len(column))
    t = table(c=column)
    assert prepare(t, Y).columns == (Category("c", ("common", "enough", "usual"), other=True, missing=False),)
    np.testing.assert_array_equal(features(prepare(t, Y), t).sum(0)[[1, -1]], [least, least - 1])


def test_the_fifty_most_frequent_levels_get_a_column():
    column = [f"w{k:02d}" for k in range(51) for _ in range(3 + (k != 7))]
    (found,) = prepare(table(c=column), Y).columns
    assert found == Category("c", tuple(f"w{k:02d}" for k in range(51) if k != 7), other=True, missing=False)


def test_categories_that_leave_no_room_for_others():
    p = prepare(table(c=["a", "b"] * 5), Y)
    notes = []
    np.testing.assert_array_equal(features(p, table(c=["b", "new", None]), notes), [[0, 1], [0, 0], [0, 0]])
    assert "taken as none of the known ones" in notes[0]
    assert "training rows did not have" in notes[1]
    with pytest.raises(TableError, match=r"categories in column 'c' that the model does not know \('new'\)"):
        features(p, table(c=["new"]), strict=True)
    with pytest.raises(TableError, match="has no column 'c'"):
        features(p, table(d=["a"]))


def test_a_column_is_asked_for_what_the_model_saw():
    p = prepare(table(code=["7", "x", "7", "x", "7", "x"]), Y)
    np.testing.assert_array_equal(features(p, table(code=np.array([7.0]))), [[1, 0]])
    p = prepare(table(code=np.array([1.0, 2, 1, 2, 1, 2])), Y, categorical=["code"])
    np.testing.assert_array_equal(features(p, table(code=["2"])), [[0, 1]])


def test_strict_refuses_gaps_that_the_model_never_saw():
    p = prepare(table(a=np.array([1.0, 2, 4])), Y)
    gap = table(a=np.array([np.nan]))
    assert features(p, gap).tolist() == [[2.0]]
    with pytest.raises(TableError, match="gaps in column 'a', but the training rows had none"):
        features(p, gap, strict=True)


def test_useless_columns_are_left_out_with_their_reason():
    n = 12
    t = table(
        same=["x"] * n, one=np.ones(n), none=[None] * n, id=np.arange(5.0, 5 + n),
        text=[f"w{k}" for k in range(n)], asked=np.arange(n) ** 3.0, good=np.arange(n) ** 2.0,
    )  # fmt: skip
    p = prepare(t, Y, ignore=["asked"])
    assert [column.name for column in p.columns] == ["good"]
    assert dict(p.left_out) == {
        "asked": "as asked",
        "same": "it has the same value everywhere",
        "one": "it has the same value everywhere",
        "none": "it is empty",
        "id": "it only counts the rows",
        "text": "its words hardly ever repeat ('w0', ...)",
    }
    with pytest.raises(TableError, match="no column that a model could use"):
        TableTransformer(ignore=["asked", "good"]).fit(t.without("y"), t.numbers("y"))
    with pytest.raises(TableError, match="has no column 'goodd'; did you mean 'good'"):
        prepare(t, Y, ignore=["goodd"])


def test_a_count_of_rows_is_found_in_a_part_of_the_file_too():
    t = table(id=np.arange(40.0), x=np.arange(40.0) ** 3).take(np.flatnonzero(np.arange(40) % 3))
    assert [column.name for column in prepare(t, Y).columns] == ["x"]


@pytest.mark.parametrize(
    "date",
    [
        "2024-01-31",
        "2024-01-31T12:30:00",
        "31.01.2024",
        "1/31/24",
        "12:30",
        "31 Jan 2024",
        "January 31, 2024",
    ],
)
def test_dates_are_recognised_but_not_as_targets(date):
    t = table(d=[date] * 11 + [None])
    (found,) = prepare(t, Y).columns
    assert isinstance(found, DateColumn)
    assert found.clock == (date == "12:30")
    with pytest.raises(TableError, match=r"column 'd' of t.csv holds dates or times .*days since"):
        choose_target(t, "d", None)


def test_words_that_only_resemble_dates_are_categories():
    p = prepare(table(d=["1-2", "3.5.1 b", "3-4"] * 4), Y)
    assert isinstance(p.columns[0], Category)


def test_mistakes_among_numbers_are_refused_not_guessed():
    numbers = [str(k) for k in range(30)]
    with pytest.raises(TableError, match=r"nearly all numbers, but has 'n/d' in row 31; .* --missing 'n/d'"):
        prepare(table(a=[*numbers, "n/d"]), Y)
    with pytest.raises(
        TableError, match=r"'a' .* 'x' in row 31, 'y' in row 32; .*column 'b' .* 'z' in row 2"
    ):
        prepare(table(a=[*numbers, "x", "y"], b=["0", "z", *numbers]), Y)
    few = prepare(table(doors=["2", "3", "4", "5 or more"] * 5), Y)
    assert isinstance(few.columns[0], Category)


# ---- the target ------------------------------------------------------------------------------------------


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
    t = Table("t.csv", {"z": words(*values)})
    assert choose_target(t, "z", None)[0] == Target("z", task, integer)
    assert choose_target(t, "z", "classification")[0].is_class


def test_labels_are_whole_numbers_however_they_are_spelled():
    target = Target("z", "classification", integer=True)
    assert target.values(Table("t", {"z": words("7", "7.0", "3")})).tolist() == [7, 7, 3]
    assert target.values(Table("t", {"z": np.array([7.0, 3.0])})).tolist() == [7, 3]
    with pytest.raises(TableError, match="has the class 'x'"):
        target.values(Table("t", {"z": words("7", "x")}))


@pytest.mark.parametrize(
    ("values", "task", "sentence"),
    [
        ([None] * 5, None, "is empty in all rows"),
        (["a"] * 5, None, "has one value only, 'a'"),
        (["1"] * 5, "regression", "has one value only, '1'"),
        (["1.0", "1"] * 5, "regression", "has one value only"),
        (["1", "2", "x"] * 5, "regression", "has 'x', which is not a number"),
        ([f"w{k}" for k in range(9)] + ["w0"], None, "9 different values in 10 rows, too many to be classes"),
        (["2024-01-01", "2024-01-02"] * 3, None, "holds dates"),
        (["1e200", "-1e201", "1", "2.5"], None, "has the number -1e\\+201, whose square is too large"),
        ([*(str(k) for k in range(30)), "lost"], None, "nearly all numbers, but has 'lost' in row 31"),
    ],
)
def test_a_target_with_nothing_to_learn(values, task, sentence):
    with pytest.raises(TableError, match=sentence):
        choose_target(Table("t.csv", {"z": words(*values)}), "z", task)


# ---- the section of the model file -----------------------------------------------------------------------


@pytest.fixture
def full():
    t = table(a=["1", None, "5", "3", "9", "7"], c=["u", "v", "u", "v", "u", "v"])
    p = prepare(t, Y, gaps=["n.d."])
    X = features(p, t)
    fitted = FitRecord("t.csv", 6, 0, 0, 1.5, {"model": {"rmse": 1.0}})
    return dataclasses.replace(p, baselines=fit_regression(X, p.target.values(t)), fitted=fitted)


def test_the_section_comes_back(full):
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
        (("columns", 0, "fill"), "1", "fill must be a finite number"),
        (("columns", 0, "fill"), float("inf"), "fill must be a finite number"),
        (("columns", 0, "indicator"), 1, "must be true or false"),
        (("columns", 0, "name"), "c", "all of different names"),
        (("columns", 1, "levels"), ["u", "u"], "must be different words"),
        (("columns", 1, "levels"), [1], "levels must be text"),
        (("target", "task"), "ranking", "not for one of"),
        (("left_out",), [["a"]], "pairs"),
        (("gaps",), "x", "gaps must be a list"),
        (("baselines", "naive"), [1.0], "a mean and positive variances"),
        (("baselines", "variance"), -1.0, "positive variances"),
        (("baselines", "coef"), [[1.0]], "linear baseline has shape"),
        (("baselines", "coef"), [["x"]], "finite numbers, in 2 dimensions"),
        (("fitted", "rows"), -1, "rows must be a count"),
        (("fitted", "rows"), True, "rows must be a count"),
        (("fitted", "figures"), [], "figures must be given by name"),
        (("fitted", "figures", "model"), {"rmse": None}, "rmse must be a finite number"),
    ],
)
def test_a_section_that_was_tampered_with_is_refused(full, path, value, sentence):
    stored = preparation_to_json(full)
    if path:
        place = stored
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
    with pytest.raises(ValueError, match=sentence):
        preparation_from_json(stored if path else value)


# ---- baselines -------------------------------------------------------------------------------------------


def test_linear_baseline_of_a_number(rng):
    X = rng.normal(size=(2000, 3)) * [1, 10, 0.1] + [5, -3, 0]
    y = X @ [2.0, -0.3, 4.0] + 7 + 0.5 * rng.normal(size=2000)
    found = fit_regression(X, y).regression(X[:5])
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
    found = fit_classes(X, label, n_classes).classes(X)
    witness = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X, label)
    np.testing.assert_allclose(np.exp(found["linear"]), witness.predict_proba(X), atol=1e-6)
    count = np.bincount(label) + 1
    np.testing.assert_allclose(np.exp(found["naive"][0]), count / count.sum())


def test_constant_columns_of_inputs_do_no_harm():
    X = np.column_stack([np.ones(20), np.arange(20.0)])
    dist = fit_regression(X, 3 * X[:, 1]).regression(X)["linear"]
    assert np.isfinite(dist.mean()).all()
    assert Number("a", 0.0, False).features == ["a"]
