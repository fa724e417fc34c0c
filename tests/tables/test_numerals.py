"""Numbers as people write them, against what they mean."""

import numpy as np
import pytest

from tests.tables.prepared import features, prepare
from tggm.tables import Table, TableError, Target, choose_target
from tggm.tables.columns import Category
from tggm.tables.text import Spelling, spelling_of

Y = Target("y", "regression")
MANY = [str(100 + k * k) for k in range(12)]


def words(values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def table(values, **more):
    rows = len(values)
    columns = {"a": words(values), **{name: words(column) for name, column in more.items()}}
    return Table("t.csv", columns | {"y": np.arange(float(rows)) ** 3})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["305", "5,969"], [305, 5969]),  # groups of three digits are thousands
        (["8,318,897", "-1,000.5"], [8318897, -1000.5]),
        (["5,969", "0,25"], [5.969, 0.25]),  # until a word shows otherwise
        (["1.234,56", "12,5"], [1234.56, 12.5]),
        (["1.234", "2.345"], [1.234, 2.345]),  # what a computer writes stays as it is
        (["1'234.5", "12"], [1234.5, 12]),
        (["1\u00a0234", "12"], [1234, 12]),
        (["+5", "-.5", "1e3", "5."], [5, -0.5, 1000, 5]),
        ([f"${k}" for k in MANY] + ["$12,345"], [*map(float, MANY), 12345]),
        ([f"{k} km" for k in MANY] + ["163,461 km", "7"], [*map(float, MANY), 163461, 7]),
        ([f"{k}%" for k in MANY], [*map(float, MANY)]),
        ([f"1.{k},5 €" for k in MANY], [1000 + float(k) + 0.5 for k in MANY]),
        ([f"EUR {k}" for k in MANY], [*map(float, MANY)]),
    ],
)
def test_numbers_are_read(given, meant):
    t = table(given)
    np.testing.assert_array_equal(t.numbers("a"), meant)
    assert t.columns["a"].tolist() == given


@pytest.mark.parametrize(
    "given",
    [
        ["4WD", "2WD"],
        ["w1", "w2"],
        [f"w{k}" for k in MANY],
        ["5 or more", "3"],
        ["1-2", "3-4"],
        ["1_000", "2"],
        ["inf", "2"],
        ["3.5.1", "2"],
        [f"{k} km" for k in MANY] + ["5 mi"],
        ["1,5", "2.5"],  # a comma and a point cannot both be decimal
    ],
)
def test_words_that_are_no_numbers(given):
    assert table(given).numbers_or_none("a") is None


def test_how_commas_are_read_is_said():
    t = table([*MANY, "5,969"])
    assert prepare(t, Y).notes == ("a: '5,969' is read as 5969",)
    t = table([f"{k * k},5" for k in range(30)])
    preparation = prepare(t, Y)
    assert "is read as" in preparation.notes[0]
    # a new row that shows nothing is read as those before
    assert features(preparation, table(["1,250"]))[0, 0] == 1.25
    assert features(preparation, table(["7.5"]))[0, 0] == 7.5


def test_a_model_knows_its_unit():
    preparation = prepare(table([f"{k} km" for k in MANY]), Y)
    np.testing.assert_array_equal(features(preparation, table(["1,200 km", "7"])), [[1200], [7]])
    with pytest.raises(TableError, match="'5 mi' in row 1"):
        features(preparation, table(["5 mi"]))


def test_marks_among_numbers_become_indicators():
    numbers = [f"{k / 8}" for k in range(85)]
    t = table([*numbers, *["<LOD"] * 12, *["<0.5", "<0.2", "<0.1"], None])
    preparation = prepare(t, Y)
    X = features(preparation, t)
    assert preparation.feature_names == ["a", "a is missing", "a = <", "a = <LOD"]
    np.testing.assert_array_equal(X[:85, 0], np.arange(85) / 8)
    np.testing.assert_array_equal(X[97:100, 0], [0.5, 0.2, 0.1])
    np.testing.assert_array_equal(X.sum(0)[1:], [1, 3, 12])
    assert "marks ('<', '<LOD')" in preparation.notes[0]
    with pytest.raises(TableError, match=r"'lost' in row 2 .* numbers or <, <LOD"):
        features(preparation, table(["1", "lost"]))


def test_all_odd_values_are_told_at_once():
    t = table([*map(str, range(40)), "x", "y"], b=["z", *map(str, range(41))])
    with pytest.raises(TableError, match=r"'x' in row 41, 'y' in row 42; .*column 'b' .*'z' in row 1"):
        prepare(t, Y)
    with pytest.raises(TableError, match="'p' in row 1, 'q' in row 2 of column 'a'"):
        table(["p", "q", "1"]).numbers("a")


def test_half_words_are_categories():
    found = prepare(table(["a", "b", "1", "2"] * 10), Y).columns
    assert isinstance(found[0], Category)


def test_truth_is_read_in_any_spelling():
    preparation = prepare(table(["true", "false"] * 6), Y)
    assert preparation.feature_names == ["a"]
    for spelled in (["True", "FALSE"], ["true", "false"]):
        np.testing.assert_array_equal(features(preparation, table(spelled)), [[1], [0]])
    np.testing.assert_array_equal(features(preparation, table(["1", "0"])), [[1], [0]])


def test_targets_with_thousands():
    values = [f"{1000 + k:,}" for k in range(40)]
    t = Table("t.csv", {"y": words(values)})
    target, _ = choose_target(t, "y", None)
    assert target.task == "regression"
    assert target.values(t)[0] == 1000


def test_what_the_user_says_of_commas_counts_where_words_show_nothing():
    assert spelling_of(["1,234"], ",").value("1,234") == 1.234
    assert spelling_of(["1,234"], ".").value("1,234") == 1234
    assert Spelling(",").value("1.5") == 1.5
