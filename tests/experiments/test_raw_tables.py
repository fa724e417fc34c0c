"""Raw tables as others take them: columns of the rows trained on decide, and one small fit runs."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import raw_tables

from tggm import TableTransformer
from tggm.tables.columns import Moment, Number, Statistic


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("towns", [Statistic, Number]),
        ("marks", [Number, Number]),
        ("seasons", [Moment]),
        ("holes", [Number] * 4),
    ],
)
@pytest.mark.filterwarnings("ignore::tggm.tables.errors.TableWarning")
def test_generated_tables_are_what_they_should_be(name, kinds):
    split = raw_tables.raw_split(name, 0)
    found = TableTransformer(task=raw_tables.task_of(name)).fit(split.train, split.y_train).columns_
    assert [type(column) for column in found] == kinds
    assert (len(split.y_train), len(split.y_test)) == (3000, 1000)


def test_what_was_a_number_stays_one():
    split = raw_tables.raw_split("holes", 0)
    X = raw_tables.matrix(split.train)
    assert X.is_word == [False] * 4
    assert np.isnan(X.values.astype(float)).mean() == pytest.approx(0.2, abs=0.02)
    words = raw_tables.matrix(raw_tables.raw_split("marks", 0).train)
    assert words.is_word == [True, False]  # what a reader of CSV files leaves as words


def test_a_linear_model_is_judged_like_others():
    found = raw_tables.work("holes", "linear", 0)
    assert set(found) == {"error", "ll", "fit_s"}
    assert found["error"] < 0.4
