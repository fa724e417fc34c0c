"""Every kind of column where another was learned: numbers, or one sentence that names the column."""

import warnings

import numpy as np
import pandas as pd
import pytest

from tggm import TableTransformer, TableWarning

N = 60
RNG = np.random.default_rng(0)
KINDS = {
    "numbers": RNG.normal(size=N),
    "gaps": np.where(np.arange(N) % 3, RNG.normal(size=N), np.nan),
    "counts": RNG.integers(0, 9, N),
    "truth": RNG.random(N) > 0.5,
    "words": RNG.choice(["u", "v", None], N),
    "many words": [f"w{k}" for k in RNG.integers(0, 55, 58)] + ["w0", "w1"],
    "grades": pd.Categorical(RNG.choice(["low", "high"], N), ["low", "high"], ordered=True),
    "dates": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D"),
    "dates in words": [f"{k % 28 + 1}.{k % 12 + 1}.2020" for k in range(N)],
    "clock": [f"{k % 24:02d}:30" for k in range(N)],
    "thousands": [f"{k:,}" for k in RNG.integers(0, 9999, N).tolist()],
    "money": [f"${k:,}" for k in RNG.integers(0, 9999, N).tolist()],
    "marks": ["<LOD" if k % 5 == 0 else f"{k * k / 7:.2f}" for k in range(N)],
    "empty": [None] * N,
    "same": ["x"] * N,
    "text": [f"a note on {k}, and more" for k in range(N)],
    "mixed": [1, "a", 2.5, None, True, "2020-01-01"] * 10,
}
Y = RNG.normal(size=N)
WORDS = ("words", "many words", "grades")  # in none of which a word of another column is known
LEARNED = [kind for kind in KINDS if kind not in ("empty", "same", "text")]


def numbers_or_complaint(table, column):
    """The numbers and what is said of them, or None and the error."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            X = table.transform(pd.DataFrame({"a": column}))
        except ValueError as error:
            return None, str(error)
    return X, "".join(str(each.message) for each in said)


@pytest.mark.filterwarnings("ignore::tggm.tables.errors.TableWarning")  # how numbers are read
@pytest.mark.parametrize("learned", LEARNED)
def test_any_column_after_any_other(learned):
    table = TableTransformer().fit(pd.DataFrame({"a": KINDS[learned]}), Y)
    assert np.isfinite(table.transform(pd.DataFrame({"a": KINDS[learned]}))).all()
    for given, column in KINDS.items():
        X, complaint = numbers_or_complaint(table, column)
        if X is None:
            assert complaint.startswith("`X`"), given
            assert "'a'" in complaint, given
        else:
            strange = given not in {learned, "empty"}
            said = f"none of its {pd.Series(column).count()} words" in complaint
            assert learned not in WORDS or said == strange, given
            assert X.shape == (N, len(table.get_feature_names_out()))
            assert np.isfinite(X).all(), given


@pytest.mark.parametrize("kind", ["empty", "same", "text"])
def test_a_table_of_nothing_is_one_sentence(kind):
    with pytest.raises(ValueError, match=r"no column that a model could use \(a: "):
        TableTransformer().fit(pd.DataFrame({"a": KINDS[kind]}), Y)


@pytest.mark.parametrize("frame", [pd.DataFrame(), pd.DataFrame({"a": []}), pd.DataFrame(index=range(3))])
def test_a_table_without_rows_or_columns(frame):
    with pytest.raises(ValueError, match=r"no rows|no columns|0 sample|minimum"):
        TableTransformer().fit(frame, np.zeros(len(frame)))


def test_infinities_are_named():
    with pytest.raises(ValueError, match=r"infinity .inf. in row 2 of column 'a'"):
        TableTransformer().fit(pd.DataFrame({"a": [1.0, np.inf, 2.0]}))
    with pytest.raises(TypeError, match=r"a list in column 'a'.*[Ll]eave the column out"):
        TableTransformer().fit(pd.DataFrame({"a": [[1], [2]]}))
    with pytest.raises(ValueError, match=r"two columns of one name|unique"):
        TableTransformer().fit(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))


def test_thousands_of_columns():
    frame = pd.DataFrame(RNG.normal(size=(30, 1000)), columns=[f"c{k}" for k in range(1000)])
    assert TableTransformer().fit_transform(frame, RNG.normal(size=30)).shape == (30, 1000)


def test_dates_are_not_times_of_the_day():
    dates = TableTransformer().fit(pd.DataFrame({"a": KINDS["dates in words"]}), Y)
    with pytest.raises(ValueError, match=r"times of the day in column 'a', which should hold dates as 2024"):
        dates.transform(pd.DataFrame({"a": KINDS["clock"]}))
    clock = TableTransformer().fit(pd.DataFrame({"a": KINDS["clock"]}), Y)
    with pytest.raises(ValueError, match=r"dates in column 'a', which should hold times of the day as 12:30"):
        clock.transform(pd.DataFrame({"a": KINDS["dates in words"]}))


def test_words_among_dates_and_empty_columns_are_said_aloud():
    frame = pd.DataFrame({"a": KINDS["dates in words"], "b": KINDS["numbers"]})
    wrong = frame.assign(a=["31.2.2020", *KINDS["dates in words"][1:]])
    with pytest.warns(TableWarning, match=r"a: 1 row with words that are no dates \('31.2.2020'\)"):
        table = TableTransformer().fit(wrong, Y)
    with pytest.warns(TableWarning, match=r"b: no row has a value, but all training rows had one"):
        table.transform(frame.assign(b=np.nan))
    assert np.isfinite(table.transform(frame[:3].assign(b=np.nan))).all()  # few rows may well have none


def test_mistakes_name_both_remedies():
    with pytest.raises(
        ValueError, match=r"'oops' in row 60.*--missing 'oops'.*missing=\['oops'\]\) in Python"
    ):
        TableTransformer().fit(pd.DataFrame({"a": [*map(str, KINDS["numbers"][1:]), "oops"]}))


def test_a_hundred_thousand_different_words():
    n = 100_000
    words = pd.DataFrame({"a": np.arange(n).astype(str) + "x", "b": np.tile([1.0, 2.0], n // 2)})
    with pytest.warns(TableWarning, match="a .its words hardly ever repeat"):
        assert TableTransformer().fit_transform(words, np.arange(n)).shape == (n, 1)
    twice = words.assign(a=np.tile(words["a"][: n // 2], 2))
    assert TableTransformer().fit_transform(twice, np.arange(n) / 3).shape == (n, 3)
