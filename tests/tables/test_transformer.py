"""The transformer: scikit-learn's checks, every type of column, warnings and errors."""

import datetime as dt
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tggm import TableTransformer, TableWarning
from tggm.tables import TableError
from tggm.tables.columns import Category, DateColumn, Number, Ordinal
from tggm.tables.inputs import as_table

ROWS = 60
Y = np.random.default_rng(1).normal(size=ROWS)
DAYS = [dt.date(2020, 1, 1), None, dt.date(2020, 3, 1)] * 20


@parametrize_with_checks([TableTransformer()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


FRAME = pd.DataFrame(
    {
        "float": [1.0, 2.0, np.nan] * 20,
        "int": range(0, 3 * ROWS, 3),
        "nullable": pd.array([1, None, 3] * 20, dtype="Int64"),
        "arrow": pd.array([1, None, 3] * 20, dtype="int64[pyarrow]"),
        "bool": [True, False, True] * 20,
        "nullable bool": pd.array([True, None, False] * 20, dtype="boolean"),
        "text": ["u", None, "v"] * 20,
        "string": pd.array(["u", None, "v"] * 20, dtype="string"),
        "arrow string": pd.array(["u", None, "v"] * 20, dtype="string[pyarrow]"),
        "category": pd.Categorical([7, 2, None] * 20),
        "grade": pd.Categorical(["low", "high", None] * 20, ["low", "middle", "high"], ordered=True),
        "date": DAYS,
        "moment": pd.to_datetime(DAYS),
        "zone": pd.date_range("2020-01-01", periods=ROWS, freq="h", tz="Europe/Berlin"),
        "duration": pd.to_timedelta(np.arange(ROWS) ** 2, unit="h"),
        "mixed": [1, "a", None] * 20,
    }
)
KINDS = {
    **dict.fromkeys(["float", "int", "nullable", "arrow", "bool", "nullable bool", "duration"], Number),
    **dict.fromkeys(["text", "string", "arrow string", "category", "mixed"], Category),
    **dict.fromkeys(["date", "moment", "zone"], DateColumn),
    "grade": Ordinal,
}


def test_every_pandas_type():
    table = TableTransformer().fit(FRAME, Y)
    assert {column.name: type(column) for column in table.columns_} == KINDS
    X = table.transform(FRAME)
    assert np.isfinite(X).all()
    got = pd.DataFrame(X, columns=table.get_feature_names_out())
    first = got[["grade", "category = 7", "nullable", "bool"]][:3]
    np.testing.assert_array_equal(first.T, [[0, 2, 1], [1, 0, 0], [1, 2, 3], [1, 0, 1]])  # None: the median
    for name in FRAME.columns[FRAME.isna().any()]:
        there = got.get(f"{name} is missing", got.get(f"{name} = (missing)"))
        np.testing.assert_array_equal(there, FRAME[name].isna())


def test_durations_of_python_are_seconds_and_complex_numbers_are_rejected():
    hours = [dt.timedelta(hours=k) if k % 4 else None for k in range(ROWS)]
    table = as_table(pd.DataFrame({"span": pd.Series(hours, dtype=object)}))
    np.testing.assert_array_equal(table.numbers("span")[:6], [np.nan, 3600, 7200, 10800, np.nan, 18000])
    message = r"has a complex in column 'z'; every argument must be .* real number"
    with pytest.raises(TypeError, match=message):
        as_table(pd.DataFrame({"z": [1 + 2j, 3.0]}))


def test_arrow_tables():
    frame = FRAME.drop(columns="mixed")
    of_pandas = TableTransformer().fit(frame, Y)
    of_arrow = TableTransformer().fit(pa.Table.from_pandas(frame), Y)
    assert of_arrow.columns_ == of_pandas.columns_
    np.testing.assert_array_equal(of_arrow.transform(frame), of_pandas.transform(pa.Table.from_pandas(frame)))


def test_polars_frames():
    polars = pytest.importorskip("polars")
    frame = FRAME.drop(columns=["mixed", "category", "grade"])
    of_pandas = TableTransformer().fit(frame, Y)
    of_polars = TableTransformer().fit(polars.from_pandas(frame), Y)
    assert of_polars.columns_ == of_pandas.columns_
    grade = polars.Series("g", ["low", "high"] * 30, polars.Enum(["low", "middle", "high"]))
    (column,) = TableTransformer().fit(polars.DataFrame({"g": grade}), Y).columns_
    assert column.levels == ("low", "middle", "high")


def test_arrays_of_words_dates_and_numbers():
    words = np.array([["u", "1.5"], ["v", "2"], ["", "4"]] * 4)
    table = TableTransformer().fit(words)
    assert table.get_feature_names_out().tolist() == ["x0 = u", "x0 = v", "x0 = (missing)", "x1"]
    assert table.get_feature_names_out(["a", "b"]).tolist()[-1] == "b"
    np.testing.assert_array_equal(table.transform([["v", 7], [None, 8]]), [[0, 1, 0, 7], [0, 0, 1, 8]])
    dates = np.array(["2020-01-01", "2021-01-01"] * 9, dtype="datetime64[D]").reshape(-1, 1)
    assert TableTransformer().fit(dates).transform(dates)[1, 0] == pytest.approx(366 / 365.2425)
    with pytest.raises(TypeError, match="`X` has a dict in column 'x0'"):
        TableTransformer().fit(np.array([[{"a": 1}, "x"]], dtype=object))


def test_arrays_of_numbers_keep_all_columns():
    X = np.array([[1, np.nan, 5], [1, 2, 5], [1, 4, 5.0]])
    table = TableTransformer().fit(X)
    np.testing.assert_array_equal(table.transform(X), [[1, 3, 1, 5], [1, 2, 0, 5], [1, 4, 0, 5]])
    np.testing.assert_array_equal(table.transform(np.full((1, 3), np.nan)), [[1, 3, 1, 5]])
    with pytest.raises(ValueError, match="infinity"):
        table.transform(np.full((1, 3), np.inf))


def test_columns_are_matched_by_name():
    frame = FRAME[["float", "text", "int"]]
    table = TableTransformer().fit(frame, Y)
    assert table.feature_names_in_.tolist() == ["float", "text", "int"]
    np.testing.assert_array_equal(table.transform(frame[["int", "text", "float"]]), table.transform(frame))
    with pytest.raises(TableError, match="`X` has no column 'text'"):
        table.transform(frame.drop(columns="text"))
    with pytest.raises(ValueError, match="X has 2 features, but TableTransformer is expecting 3"):
        table.transform([["a", 1]])


NAMED = {"ignore": ["a"], "categorical": ["zone"], "dates": ["sold"]}


@pytest.mark.parametrize("given", [NAMED, {"ignore": [0], "categorical": np.array([1]), "dates": (2,)}])
def test_columns_are_chosen_by_name_or_position(given):
    sold = ["1.2.2020", "soon"] * 30
    frame = pd.DataFrame({"a": np.arange(60.0) % 7, "zone": [1.0, 2, 3] * 20, "sold": sold})
    with pytest.warns(TableWarning, match=r"30 rows with words that are not dates \('soon'\)"):
        how = TableTransformer(**given).fit(frame)
    assert how.left_out_ == {"a": "as requested"}
    assert [type(column) for column in how.columns_] == [Category, DateColumn]
    wrong = {"zone": r"got 'zone'. Pass", (3,): "no column '3'; it has 'a'", ("zon",): "did you mean 'zone'"}
    for columns, message in wrong.items():
        with pytest.raises(ValueError, match=message):
            TableTransformer(ignore=columns).fit(frame)


@pytest.mark.parametrize("labels", [[7, 3, 9], [("a", "x"), ("a", "y"), ("b", "x")], [0, 1, 2]])
def test_labels_that_are_no_strings_become_names(labels, rng):
    frame = pd.DataFrame(rng.normal(size=(60, 3)))
    frame.columns = pd.MultiIndex.from_tuples(labels) if isinstance(labels[0], tuple) else labels
    how = TableTransformer().fit(frame, Y)
    assert [column.name for column in how.columns_] == list(map(str, labels))
    np.testing.assert_array_equal(how.transform(frame[frame.columns[::-1]]), how.transform(frame))


def test_useless_columns_and_copies_of_the_target_cause_warnings():
    rng = np.random.default_rng(0)
    label = rng.choice(["no", "yes"], ROWS)
    frame = pd.DataFrame({
        "good": rng.normal(size=ROWS), "same": 1, "count": range(5, 5 + ROWS),
        "customer_id": rng.permutation(ROWS), "text": [f"note {k}x" for k in range(ROWS)],
        "alive": np.where(label == "yes", 1, 0), "empty": None, "asked": rng.normal(size=ROWS),
    })  # fmt: skip
    with pytest.warns(TableWarning, match="columns are left out: same .*alive .it repeats the target"):
        table = TableTransformer(ignore=["asked"]).fit(frame, label)
    assert [column.name for column in table.columns_] == ["good"]
    assert table.left_out_ == {
        "asked": "as requested", "same": "it has the same value everywhere", "empty": "it is empty",
        "count": "it numbers the rows", "customer_id": "it identifies the rows",
        "text": "few of its words repeat ('note 0x', ...)", "alive": "it repeats the target",
    }  # fmt: skip
    y = frame["good"] * 2 + 1
    with pytest.warns(TableWarning, match="can be computed from good .R² 1.000.; is it known"):
        TableTransformer().fit(frame[["good"]].assign(other=rng.normal(size=ROWS)), y)
    with pytest.raises(TableError, match=r"no column that a model could use .good: it repeats the target"):
        TableTransformer().fit(frame[["good"]], frame["good"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableTransformer(ignore=[*frame.columns[1:]]).fit(frame, label)


def test_warnings_name_the_line_of_the_caller():
    X = pd.DataFrame({"row": np.arange(60), "size": np.random.default_rng(0).normal(size=60)})
    with pytest.warns(TableWarning, match="row") as warned:
        TableTransformer().fit(X)
    with pytest.warns(TableWarning, match="row") as wrapped:  # by scikit-learn
        TableTransformer().fit_transform(X)
    assert {found.filename for found in (*warned, *wrapped)} == {__file__}


RNG = np.random.default_rng(0)
SAMPLES = {
    "numbers": RNG.normal(size=ROWS),
    "gaps": np.where(np.arange(ROWS) % 3, RNG.normal(size=ROWS), np.nan),
    "counts": RNG.integers(0, 9, ROWS),
    "truth": RNG.random(ROWS) > 0.5,
    "words": RNG.choice(["u", "v", None], ROWS),
    "many words": [f"w{k}" for k in RNG.integers(0, 55, 58)] + ["w0", "w1"],
    "grades": pd.Categorical(RNG.choice(["low", "high"], ROWS), ["low", "high"], ordered=True),
    "dates": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, ROWS), unit="D"),
    "dates in words": [f"{k % 28 + 1}.{k % 12 + 1}.2020" for k in range(ROWS)],
    "thousands": [f"{k:,}" for k in RNG.integers(0, 9999, ROWS).tolist()],
    "money": [f"${k:,}" for k in RNG.integers(0, 9999, ROWS).tolist()],
    "marks": ["<LOD" if k % 5 == 0 else f"{k * k / 7:.2f}" for k in range(ROWS)],
    "empty": [None] * ROWS,
    "same": ["x"] * ROWS,
    "text": [f"a note on {k}, and more" for k in range(ROWS)],
    "mixed": [1, "a", 2.5, None, True, "2020-01-01"] * 10,
}
WORDS = ("words", "many words", "grades")  # these share no word with other samples
LEARNED = [kind for kind in SAMPLES if kind not in ("empty", "same", "text")]


def transform_or_error(table, column):
    """Return the numbers and the warnings, or None and the error."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            X = table.transform(pd.DataFrame({"a": column}))
        except ValueError as error:
            return None, str(error)
    return X, "".join(str(each.message) for each in warned)


@pytest.mark.filterwarnings("ignore::tggm.TableWarning")  # how numbers are read
@pytest.mark.parametrize("learned", LEARNED)
def test_the_kind_of_a_column_may_change_after_the_fit(learned):
    table = TableTransformer().fit(pd.DataFrame({"a": SAMPLES[learned]}), Y)
    assert np.isfinite(table.transform(pd.DataFrame({"a": SAMPLES[learned]}))).all()
    for given, column in SAMPLES.items():
        X, complaint = transform_or_error(table, column)
        if X is None:
            assert complaint.startswith("`X`"), given
            assert "'a'" in complaint, given
        else:
            unknown = "no row has a known one" in complaint
            assert learned not in WORDS or unknown == (given not in {learned, "empty"}), given
            assert X.shape == (ROWS, len(table.get_feature_names_out()))
            assert np.isfinite(X).all(), given


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (pd.DataFrame({"a": SAMPLES["text"]}), TableError, r"no column that a model could use \(a: "),
        (pd.DataFrame(), TableError, "no rows or no columns"),
        (pd.DataFrame({"a": []}), ValueError, "has no rows"),
        (pd.DataFrame({"a": [1.0, np.inf, 2.0]}), ValueError, r"infinity .inf. in row 2 of column 'a'"),
        (pd.DataFrame({"a": [[1], [2]]}), TypeError, r"a list in column 'a'.*[Ll]eave the column out"),
        (pd.DataFrame({"a": [1.0], "b": ["u"], "c": [None]}), TableError, r"^`X` has one row; pass more"),
        (pd.DataFrame([[1, 2]] * 2, columns=["a", 1]), TypeError, r"of the types int, str; make all of them"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), ValueError, "two columns with|unique"),
    ],
)
def test_unusable_tables_are_rejected(frame, error, message):
    with pytest.raises(error, match=message):
        TableTransformer().fit(frame)
