"""Raw tables: what they hold, how opponents see them, one small fit, and files that are joined."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import page_raw
import raw_inputs
import raw_tables
from raw_opponents import GAP, matrix

from tggm import TableTransformer
from tggm.tables import Table
from tggm.tables.columns import DateColumn, Number, Statistic


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("towns", [Statistic, Number]),
        ("marks", [Number, Number]),
        ("seasons", [DateColumn]),
        ("holes", [Number] * 4),
    ],
)
@pytest.mark.filterwarnings("ignore::tggm.tables.errors.TableWarning")
def test_generated_tables_are_what_they_should_be(name, kinds, monkeypatch):
    split = raw_inputs.raw_split(name, 0)
    how = TableTransformer(task=raw_inputs.task_of(name)).fit(split.train, split.y_train)
    assert [type(column) for column in how.columns_] == kinds
    assert (len(split.y_train), len(split.y_test)) == (3000, 1000)
    monkeypatch.setattr(raw_inputs, "find_spec", lambda name: None)  # without pandas
    other = raw_inputs.raw_split(name, 0)
    assert isinstance(other.train, Table)
    assert np.allclose(how.transform(other.test), how.transform(split.test), rtol=1e-12)


def test_what_was_a_number_stays_one():
    X = matrix(raw_inputs.raw_split("holes", 0).train)
    assert X.is_word == [False] * 4
    assert np.isnan(X.values.astype(float)).mean() == pytest.approx(0.2, abs=0.02)
    split = raw_inputs.raw_split("marks", 0)
    words = matrix(split.train)
    assert words.is_word == [True, True]  # what a reader of CSV files leaves as words
    split.test.iloc[0, 0] = None
    assert matrix(split.test, words).values[0, 0] == GAP


def test_a_linear_model_is_judged_like_others():
    found = raw_tables.work("holes", "linear", 0)
    assert set(found) == {"error", "ll", "fit_s", "cpu_s"}
    assert found["error"] < 0.4
    assert raw_tables.work("seasons", "linear", 0)["rmse"] < 1.2  # the target's deviation is 0.9


def test_what_is_not_installed_or_knows_no_classes_is_left_out(monkeypatch):
    monkeypatch.setattr(raw_tables, "find_spec", lambda name: name == "catboost" or None)
    tasks = raw_tables.plan(["holes", "towns"], list(raw_tables.MODELS), 1)
    assert ("towns", "catboost-ll", 0) in tasks
    assert ("holes", "catboost-ll", 0) not in tasks
    assert not any(model == "lightgbm" for _, model, _ in tasks)


def test_files_are_joined(tmp_path):
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    settings = {"seed": "number of the split"}
    here.write_text(json.dumps({"settings": settings, "seconds": 2.0, "runs": {"b x 0": {"ll": 1.0}}}))
    there.write_text(json.dumps({"settings": settings, "seconds": 3.0, "runs": {"a x 0": {"ll": 2.0}}}))
    raw_tables.join(here, [there])
    joined = json.loads(here.read_text())
    assert joined["seconds"] == 5.0
    assert list(joined["runs"]) == ["a x 0", "b x 0"]


def test_the_page_counts_what_is_within_a_standard_error(monkeypatch):
    def runs(*errors):
        return {k: {"error": e, "ll": -2 * e, "cpu_s": 3.0} for k, e in enumerate(errors)}

    made = {
        ("adult", "tggm"): runs(0.2, 0.3),
        ("adult", "catboost"): runs(0.1, 0.2),
        ("adult", "hgb"): runs(0.5, 0.1),
        ("holes", "tggm"): runs(0.2, 0.2),
        ("holes", "catboost"): runs(0.3, 0.3),
    }
    monkeypatch.setattr(page_raw, "runs_of", lambda name: made)
    lines = page_raw.verdicts().splitlines()
    assert lines[2] == "| CatBoost | 0 of 1 | 1 of 1 | 0 of 1 | 1 of 1 |"
    assert lines[4] == "| HistGradientBoosting | 1 of 1 | 0 of 0 | 1 of 1 | 0 of 0 |"  # differ by 0.05 ± 0.25
    told = page_raw.behind().splitlines()
    assert told[0].startswith("- CatBoost: adult (error by 0.1 ± ")
    assert "holes" not in told[0]
    assert told[2] == "- HistGradientBoosting: nowhere."
    assert "| adult | 0.25 / -0.5 (2 splits) | 0.15 / -0.3 (2 splits) |  |" in page_raw.figures()
    assert "| adult | 3 | 3 |  | 3 |" in page_raw.seconds()
