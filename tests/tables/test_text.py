"""Numbers and dates in usual notations, against their meaning and the standard library."""

import datetime as dt

import numpy as np
import pytest

from tggm.tables import Table, TableError
from tggm.tables.text import are_dates, day_first, parse_dates, spelling_of

MANY = [str(100 + k * k) for k in range(12)]


def table(words):
    return Table("t.csv", {"a": np.array(words, dtype=object)})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["305", "5,969"], [305, 5969]),  # groups of three digits are thousands
        (["8,318,897", "-1,000.5"], [8318897, -1000.5]),
        (["5,969", "0,25"], [5.969, 0.25]),  # unless a word shows a decimal comma
        (["1.234,56", "12,5"], [1234.56, 12.5]),
        (["1.234", "2.345"], [1.234, 2.345]),  # plain numbers stay as they are
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
    np.testing.assert_array_equal(table(given).numbers("a"), meant)


@pytest.mark.parametrize(
    "given",
    [
        ["4WD", "2WD"], ["5 or more", "3"], ["1-2", "3-4"], ["1_000", "2"], ["inf", "2"], ["3.5.1", "2"],
        ["1,5", "2.5"],  # comma and point cannot both be decimal
        [f"SKU{k}" for k in MANY], [f"EMP-{k}" for k in MANY], [f"INV {k}" for k in MANY],
        [f"{k}ABC" for k in MANY], [f"w{k}" for k in MANY], [f"{k} km" for k in MANY] + ["5 mi"],
    ],
)  # fmt: skip
def test_words_are_not_read_as_numbers(given):
    assert table(given).numbers_or_none("a") is None


def test_the_given_decimal_mark_decides_if_no_word_shows_it():
    assert spelling_of(["1,234"], ",").value("1,234") == 1.234
    assert spelling_of(["1,234"], ".").value("1,234") == 1234


def test_an_error_lists_all_words_that_are_not_numbers_by_their_row_in_the_file():
    with pytest.raises(TableError, match=r"'p' in row 1, 'q' in row 2 of column 'a'.*--missing 'p'"):
        table(["p", "q", "1"]).numbers("a")
    with pytest.raises(TableError, match="'x' in row 3 of column 'a'"):
        table(["1", "2", "x"]).take(np.array([2])).numbers("a")


@pytest.mark.parametrize(
    ("meant", "words"),
    [
        (dt.datetime(2024, 1, 31), "2024-01-31; 2024/1/31; 31.01.2024; 31.1.24; 1/31/24; 31 Jan 2024; "
         "January 31, 2024; 31-Jan-2024"),
        (dt.datetime(2024, 1, 31, 12, 30), "2024-01-31T12:30:00; 2024-01-31 12:30; 2024-01-31T12:30:00.25Z; "
         "1/31/2024 12:30 PM"),
        (dt.datetime(1999, 1, 31), "31.01.1999; 31.01.99"),
    ],
)  # fmt: skip
def test_dates_are_read(meant, words):
    for word in words.split("; "):
        assert are_dates([word])
        assert parse_dates([word, None], bool(day_first([word]))).tolist() == [meant, None]


def test_words_that_are_not_dates_become_gaps():
    words = ["30.02.2024", "2024-13-01", "25:00", "1-2", "", "2024", "v1.2.3"]
    assert np.isnat(parse_dates(words, True)).all()


def test_the_column_shows_which_number_is_the_day():
    assert day_first(["3/4/2024", "3/13/2024"]) is False
    assert day_first(["3/4/2024", "13/3/2024"])
    assert day_first(["3.4.2024"])
    assert day_first(["3/4/2024"]) is None
    assert parse_dates(["3/4/2024"], True).tolist() == [dt.datetime(2024, 4, 3)]
