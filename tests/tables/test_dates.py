"""Dates in words against the standard library, and the numbers made of them."""

import datetime as dt

import numpy as np
import pytest

from tests.tables.prepared import features, prepare
from tggm.tables import Table, TableError, Target
from tggm.tables.text import date_words, day_first, parse_dates

DAY = dt.datetime(2024, 1, 31)
NOON = dt.datetime(2024, 1, 31, 12, 30)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("2024-01-31", DAY),
        ("2024/1/31", DAY),
        ("2024-01-31T12:30:00", NOON),
        ("2024-01-31 12:30", NOON),
        ("2024-01-31T12:30:00.25Z", NOON),
        ("31.01.2024", DAY),
        ("31.1.24", DAY),
        ("1/31/24", DAY),
        ("1/31/2024 12:30 PM", NOON),
        ("31 Jan 2024", DAY),
        ("January 31, 2024", DAY),
        ("31-Jan-2024", DAY),
        ("12:30", dt.datetime(1970, 1, 1, 12, 30)),
        ("31.01.1999", dt.datetime(1999, 1, 31)),
        ("31.01.99", dt.datetime(1999, 1, 31)),
    ],
)
def test_dates_are_read(word, meant):
    assert date_words([word]) == ("clock" if word == "12:30" else "date")
    assert parse_dates([word, None], bool(day_first([word]))).tolist() == [meant, None]


@pytest.mark.parametrize("word", ["30.02.2024", "2024-13-01", "25:00", "1-2", "", "2024", "v1.2.3"])
def test_what_is_no_date_is_a_gap(word):
    assert np.isnat(parse_dates([word], True)).all()


def test_which_number_is_the_day_is_seen_from_the_column():
    assert day_first(["3/4/2024", "3/14/2024"]) is False
    assert day_first(["3/4/2024", "14/3/2024"])
    assert day_first(["3.4.2024"])
    assert day_first(["3/4/2024"]) is None
    assert parse_dates(["3/4/2024"], True).tolist() == [dt.datetime(2024, 4, 3)]


def table(days):
    column = days if isinstance(days, np.ndarray) else np.array(days, dtype=object)
    return Table("t.csv", {"d": column, "y": np.arange(float(len(column))) ** 2})


def test_trend_and_circles():
    days = np.datetime64("2022-01-03") + np.arange(0, 800)  # a Monday
    preparation = prepare(table(days.astype("datetime64[us]")), Target("y", "regression"))
    names = preparation.feature_names
    X = features(preparation, table(days.astype("datetime64[us]")))
    circles = [f"d: {wave} of the {part}" for part in ("year", "week") for wave in ("sine", "cosine")]
    assert names == ["d: years", *circles]
    np.testing.assert_allclose(X[:, 0], np.arange(800) / 365.2425)
    np.testing.assert_allclose(X[7:, 3:], X[:-7, 3:], atol=1e-9)  # weeks repeat
    np.testing.assert_allclose(np.hypot(X[:, 1], X[:, 2]), 1)
    # the same from words, and from words of another kind
    words = [str(day) for day in days]
    np.testing.assert_allclose(features(prepare(table(words), Target("y", "regression")), table(words)), X)
    german = [day.item().strftime("%d.%m.%Y") for day in days]
    np.testing.assert_allclose(features(preparation, table(german)), X)


def test_gaps_and_words_among_dates():
    words = [f"2024-01-{k:02d}" for k in range(1, 29)]
    preparation = prepare(table([*words, "soon", None]), Target("y", "regression"))
    notes = []
    X = features(preparation, table(["2024-01-05", None, "soon", "2024-01-07", "2024-01-08"]), notes)
    np.testing.assert_array_equal(X[:, -1], [0, 1, 1, 0, 0])
    assert np.isfinite(X).all()
    assert "no dates ('soon')" in notes[0]
    with pytest.raises(TableError, match="which should hold dates as 2024-01-31"):
        features(preparation, table(["soon"]))
    with pytest.raises(TableError, match="has numbers in column 'd'"):
        features(preparation, table(np.array([1.0])))
    numbers = prepare(table(np.arange(20.0) ** 3), Target("y", "regression"))
    with pytest.raises(TableError, match="has dates in column 'd'"):
        features(numbers, table(np.array(["2024-01-01"], dtype="datetime64[us]")))
