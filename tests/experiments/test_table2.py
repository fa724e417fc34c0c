"""Table 2: what each model is, how runs are stored, and how they are compared with the paper."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import page_table2 as page
import quoted_table2 as quoted
import table2


@pytest.mark.parametrize("data", table2.DATA)
def test_the_papers_models_have_its_settings(data):
    ml, bp = (table2.settings_of(data, model, "200-200") for model in ("tggm-ml", "tggm-bp"))
    np.testing.assert_allclose([ml["sigma0"] ** 2, bp["sigma0"] ** 2], [0.5, 0.01])
    assert (ml["deep"], ml["prior"], ml["factorised"]) == ("undirected", "same", True)
    assert ml["batch_size"] == bp["batch_size"] == {"mnist": 500, "news": 200, "blogs": 200}[data]
    assert "deep" not in table2.settings_of(data, "tggm-bp", "100")
    relu = table2.settings_of(data, "relu", "200-200")
    assert (relu["sigma0"], relu["batch_size"], relu.get("deep", "directed")) == (1e-4, 100, "directed")


def test_runs_are_added_replaced_and_dropped_with_their_settings(tmp_path):
    path, same = tmp_path / "a.json", {"settings": {"sizes": (1, 2)}}
    table2.keep(path, "100", same, {"seed": 0, "accuracy": 1.0}, ["seed"])
    table2.keep(path, "100", same, {"seed": 1, "accuracy": 2.0}, ["seed"])
    table2.keep(path, "100", same, {"seed": 0, "accuracy": 3.0}, ["seed"])
    runs = table2.known(path, "100", same)["runs"]
    assert sorted((run["seed"], run["accuracy"]) for run in runs) == [(0, 3.0), (1, 2.0)]
    other = {"settings": {"sizes": (1, 3)}}
    assert table2.known(path, "100", other) == {}
    table2.keep(path, "100", other, {"seed": 5}, ["seed"])
    assert json.loads(path.read_text())["100"]["runs"] == [{"seed": 5}]
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_the_most_accurate_trial_is_chosen(tmp_path):
    assert table2.chosen("news", "mlp", "deep", tmp_path) == {}
    assert table2.chosen("news", "relu", "deep", tmp_path)  # the repository's, where the folder has none
    for rate, accuracy in ((1e-3, 70.0), (3e-3, 72.0), (3e-4, 71.0)):
        run = {"learning_rate": rate, "standardize": False, "accuracy": accuracy}
        table2.keep(tmp_path / "rates.json", "news relu deep", {}, run, table2.CHOICES)
    assert table2.chosen("news", "relu", "deep", tmp_path) == {"learning_rate": 3e-3, "standardize": False}


def test_the_verdict_is_a_test_of_two_proportions():
    """Two standard errors: where an unpooled normal test of the difference has p = 2 Φ(−2)."""
    rows = page.OUR_ROWS["mnist"], quoted.TEST_ROWS["mnist"]
    level = 2 * stats.norm.cdf(-2)
    for ours in (97.3, 97.4, 97.6, 97.9, 98.0):
        var = [p * (100 - p) / n for p, n in zip((ours, 97.75), rows, strict=True)]
        p_value = 2 * stats.norm.sf(abs(ours - 97.75) / np.sqrt(sum(var)))
        expected = "within" if p_value > level else "better" if ours > 97.75 else "worse"
        assert page.verdict("mnist", ours, 97.75) == expected
    assert page.verdict("mnist", 90.0, 97.75) == "worse"


def test_the_papers_best():
    """Bold in the paper's table: 98.31, 73.74 and 69.89."""
    bests = {data: max(quoted.best(data, h) for h in page.HIDDEN) for data in quoted.SETS}
    assert bests == {"mnist": 98.31, "news": 73.74, "blogs": 69.89}
    assert len(quoted.PAPER) == 36


@pytest.mark.parametrize("words", [["--models", "lin"], ["--data", "blog"], ["--hidden", "100x"]])
def test_names_that_are_not_known_are_refused(words, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["table2.py", *words])
    with pytest.raises(SystemExit) as caught:
        table2.main()
    assert caught.value.code == 2
    assert repr(words[1]) in capsys.readouterr().err
