"""The transformer: scikit-learn's checks, every type of column, and what is noticed."""

import datetime as dt
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from tggm import TableTransformer, TableWarning
from tggm.tables import TableError
from tggm.tables.columns import Category, DateColumn, Number, Ordinal, Statistic
from tggm.tables.frames import as_table, rows_of

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


def test_every_type_of_pandas():
    table = TableTransformer().fit(FRAME, Y)
    assert {column.name: type(column) for column in table.columns_} == KINDS
    X = table.transform(FRAME)
    assert np.isfinite(X).all()
    got = pd.DataFrame(X, columns=table.get_feature_names_out())
    np.testing.assert_array_equal(got["grade"][:3], [0, 2, 1])  # a gap is the median
    np.testing.assert_array_equal(got["category = 7"][:3], [1, 0, 0])
    np.testing.assert_array_equal(got["nullable"][:3], [1, 2, 3])
    np.testing.assert_array_equal(got["bool"][:3], [1, 0, 1])
    for name in FRAME.columns[FRAME.isna().any()]:
        there = got.get(f"{name} is missing", got.get(f"{name} = (missing)"))
        np.testing.assert_array_equal(there, FRAME[name].isna())


def test_durations_of_python_are_seconds_and_complex_numbers_are_refused():
    hours = [dt.timedelta(hours=k) if k % 4 else None for k in range(ROWS)]
    table = as_table(pd.DataFrame({"span": pd.Series(hours, dtype=object)}))[0]
    np.testing.assert_array_equal(table.numbers("span")[:6], [np.nan, 3600, 7200, 10800, np.nan, 18000])
    with pytest.raises(
        TypeError, match=r"has a complex in column 'z'; every argument must be .* real number"
    ):
        as_table(pd.DataFrame({"z": [1 + 2j, 3.0]}))


def test_arrow_tables_are_frames_too():
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


@pytest.mark.parametrize("kind", ["frame", "arrow", "array", "list", "table"])
def test_rows_of_any_kind_of_table(kind):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]}, index=[7, 8, 9])
    kinds = {
        "frame": frame,
        "arrow": pa.Table.from_pandas(frame, preserve_index=False),
        "array": frame.to_numpy(),
        "list": frame.to_numpy().tolist(),
        "table": as_table(frame)[0],
    }
    X = kinds[kind]
    some = rows_of(X, np.array([0, 2]))
    assert type(some) is type(X)
    table = as_table(some)[0]
    number, word = table.names
    assert table.numbers(number).tolist() == [1, 3]
    assert table.words(word).tolist() == ["x", "z"]


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


def test_columns_are_found_by_name_and_missed_by_name():
    frame = FRAME[["float", "text", "int"]]
    table = TableTransformer().fit(frame, Y)
    assert table.feature_names_in_.tolist() == ["float", "text", "int"]
    np.testing.assert_array_equal(table.transform(frame[["int", "text", "float"]]), table.transform(frame))
    with pytest.raises(TableError, match="`X` has no column 'text'"):
        table.transform(frame.drop(columns="text"))
    with pytest.raises(ValueError, match="X has 2 features, but TableTransformer is expecting 3"):
        table.transform([["a", 1]])


def test_a_step_of_a_pipeline_with_names():
    model = make_pipeline(TableTransformer().set_output(transform="pandas"), RidgeCV())
    y = FRAME["nullable"].fillna(0).astype(float) + (FRAME["text"] == "u")
    model.fit(FRAME[["nullable", "text"]], y)
    assert model[-1].feature_names_in_[0] == "nullable"
    assert model.score(FRAME[["text", "nullable"]], y) > 0.99


def test_what_tells_nothing_or_too_much_is_said_aloud():
    rng = np.random.default_rng(0)
    label = rng.choice(["no", "yes"], ROWS)
    frame = pd.DataFrame({
        "good": rng.normal(size=ROWS), "same": 1, "count": range(5, 5 + ROWS),
        "customer_id": rng.permutation(ROWS), "text": [f"note {k}x" for k in range(ROWS)],
        "alive": np.where(label == "yes", 1, 0), "empty": None,
    })  # fmt: skip
    with pytest.warns(TableWarning, match="columns are left out: same .*alive .it repeats the target"):
        table = TableTransformer().fit(frame, label)
    assert [column.name for column in table.columns_] == ["good"]
    assert table.left_out_["count"] == "it only counts the rows"
    assert table.left_out_["customer_id"] == "it names the rows"
    y = frame["good"] * 2 + 1
    with pytest.warns(TableWarning, match="good: the target is a multiple of it"):
        TableTransformer().fit(frame[["good"]].assign(other=rng.normal(size=ROWS)), y)
    with pytest.raises(TableError, match=r"no column that a model could use .good: it repeats the target"):
        TableTransformer().fit(frame[["good"]], frame["good"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableTransformer(ignore=[*frame.columns[1:]]).fit(frame, label)


# ---- columns of many words -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def towns():
    rng = np.random.default_rng(2)
    effect = rng.normal(size=300)
    town = rng.integers(300, size=3000)
    return pd.DataFrame({"town": [f"town {k}" for k in town]}), effect[town] + rng.normal(size=3000), effect


def test_statistics_are_shrunken_means(towns):
    frame, y, _ = towns
    (column,) = TableTransformer().fit(frame, y).columns_
    assert isinstance(column, Statistic)
    # by hand: (sum + m mean) / (n + m); effects and noise have variance 1, so m is about 1
    word = column.levels[0]
    its = y[frame["town"] == word]
    got = column.values[0][0]
    m = (its.sum() - len(its) * got) / (got - y.mean())
    assert 0.7 < m < 1.5
    witness = TargetEncoder(smooth=m).fit(frame, y)
    np.testing.assert_allclose(
        TableTransformer().fit(frame, y).transform(frame)[:, 0], witness.transform(frame)[:, 0], rtol=1e-9
    )


def test_no_row_sees_its_own_target(towns):
    """Of noise, statistics that a row is part of would explain much; those of others explain nothing."""
    frame = towns[0]
    noise = np.random.default_rng(3).normal(size=len(frame))
    table = TableTransformer()
    learned, own = table.fit_transform(frame, noise)[:, 0], table.transform(frame)[:, 0]
    assert abs(np.corrcoef(learned, noise)[0, 1]) < 4 / np.sqrt(len(noise))
    assert np.corrcoef(own, noise)[0, 1] > 0.2
    changed = noise.copy()
    changed[0] += 100
    again = TableTransformer().fit_transform(frame, changed)[:, 0]
    fold = np.random.default_rng(0).permutation(len(noise)) % 5
    np.testing.assert_array_equal(again[fold == fold[0]], learned[fold == fold[0]])


def test_unseen_words_and_gaps_have_statistics_too(towns):
    frame, y, _ = towns
    table = TableTransformer().fit(frame, y)
    X = table.transform(pd.DataFrame({"town": ["town nowhere", None]}))
    assert np.isfinite(X).all()
    np.testing.assert_allclose(X[:, 0], y.mean(), atol=0.2)
    classes = TableTransformer().fit(frame, np.digitize(y, [-1, 1]))
    assert classes.get_feature_names_out().tolist() == [*(f"town: mean {k}" for k in range(3)), "town: rows"]
    only = TableTransformer().fit(frame)
    assert only.get_feature_names_out().tolist() == ["town: rows"]


def test_a_hundred_thousand_words_are_fine():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"number": [f"w{k}" for k in rng.integers(100_000, size=150_000)]})
    table = TableTransformer().fit(frame, rng.normal(size=len(frame)))
    assert np.isfinite(table.transform(frame[:1000])).all()
    assert len(table.columns_[0].levels) == 20_000
