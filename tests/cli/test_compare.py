"""`tggm compare`: the same folds for all, paired differences, and figures that survive Ctrl-C."""

import csv
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from tests.cli.commands import answer, complaint, rows, write
from tggm.cli import comparison
from tggm.cli.app import run
from tggm.cli.comparison import OURS, assign_folds, class_scores, comparison_text, gaussian_scores, summarise

SMALL = ["--hidden", "6,5", "--members", "2", "--epochs", "2", "--folds", "2", "--quiet"]


@pytest.fixture
def houses(tmp_path):
    return write(tmp_path / "houses.csv", rows(60, seed=0))


@pytest.fixture
def constant(monkeypatch):
    """Our model replaced by a plain one: what is around it is tested."""

    def ours(data, is_class, options):
        return comparison.score_opponent("ridge", data, is_class, options.seed)

    monkeypatch.setattr(comparison, "score_ours", ours)


def test_ours_and_others_on_the_same_folds(houses, capsys, tmp_path):
    out = str(tmp_path / "figures.json")
    answer(capsys, "compare", houses, "--target", "price", "--models", "mean,ridge", *SMALL, "-o", out)
    found = json.loads((tmp_path / "figures.json").read_text())
    assert (found["rows"], found["folds"], found["task"]) == (60, 2, "regression")
    assert list(found["figures"]) == [OURS, "mean", "ridge"]
    assert found["figures"]["ridge"]["rmse"]["value"] < 0.5 * found["figures"]["mean"]["rmse"]["value"]
    assert found["figures"][OURS]["rmse"]["beside_ours"] is None
    assert all(seconds > 0 for seconds in found["seconds"].values())


def test_the_text_lists_who_is_ahead(houses, capsys, constant, tmp_path):
    text = answer(capsys, "compare", houses, "--target", "price", "--models", "mean,ridge", *SMALL)
    assert f"{OURS} is ahead of mean (RMSE, log-score, CRPS)" in text
    assert f"{OURS} is not different from ridge (RMSE, log-score, CRPS)" in text
    out = tmp_path / "figures.csv"
    answer(capsys, "compare", houses, "--target", "price", "--models", "mean", *SMALL, "-o", str(out))
    with out.open() as file:
        lines = list(csv.DictReader(file))
    assert [line["beside_this_model"] for line in lines] == ["", "", "", "worse", "worse", "worse"]


def test_classes(houses, capsys, constant):
    words = ["compare", houses, "--target", "garden", "--models", "mean", *SMALL, "--json"]
    found = json.loads(answer(capsys, *words))
    assert found["task"] == "classification"
    assert set(found["figures"][OURS]) == {"error", "log_score"}
    assert 0 <= found["figures"]["mean"]["error"]["value"] <= 1


def test_an_interruption_keeps_the_folds_that_are_finished(houses, capsys, constant, monkeypatch):
    judged, calls = comparison.score_fold, []

    def stopped(*arguments):
        calls.append(arguments[0])
        if len(calls) > 3:
            raise KeyboardInterrupt
        return judged(*arguments)

    monkeypatch.setattr(comparison, "score_fold", stopped)
    words = ["compare", houses, "--target", "price", "--models", "mean", *SMALL[:-1], "--json"]
    assert run(words) == 130
    out, err = capsys.readouterr()
    assert json.loads(out)["figures"]["mean"]
    assert "interrupted: the scores are those of 1 of 2 folds" in err
    calls[:] = [None] * 3
    assert run(words) == 130
    assert capsys.readouterr().out == ""


def test_an_opponent_that_fails_is_named_and_the_others_go_on(houses, capsys, constant, monkeypatch):
    real = comparison.score_opponent

    def fails(name, *arguments):
        if name == "hgb":
            raise ArithmeticError("no luck")
        return real(name, *arguments)

    monkeypatch.setattr(comparison, "score_opponent", fails)
    text = answer(capsys, "compare", houses, "--target", "price", "--models", "hgb,mean", *SMALL)
    assert "hgb failed: ArithmeticError: no luck" in text
    assert "ahead of mean" in text


def test_errors_name_the_remedy(houses, capsys, monkeypatch):
    assert "--models knows mean" in complaint(capsys, "compare", houses, "-t", "price", "--models", "magic")
    words = ["compare", houses, "-t", "price", "--folds", "40", "--quiet"]
    assert "--folds 40 needs 80 rows" in complaint(capsys, *words)
    monkeypatch.setattr(comparison, "find_spec", lambda name: None)
    message = complaint(capsys, "compare", houses, "-t", "price", "--models", "catboost")
    assert "pip install catboost" in message


def test_folds_hold_every_row_once_and_every_class():
    y = np.repeat(["a", "b", "c"], [30, 12, 6])
    found = assign_folds(y, 5, 0, stratified=True)
    assert sorted(np.concatenate(found).tolist()) == list(range(48))
    assert all(set(y[held]) == {"a", "b", "c"} for held in found)
    again = assign_folds(y, 5, 1, stratified=True)
    assert any(not np.array_equal(a, b) for a, b in zip(found, again, strict=True))


def test_scores_equal_their_textbook_formulas():
    y, mean, std = np.array([1.0, -2.0]), np.array([0.5, 1.0]), np.array([2.0, 0.7])
    found = gaussian_scores(y, mean, std)
    assert_allclose(found["log_score"], norm.logpdf(y, mean, std))
    z = (y - mean) / std  # Gneiting and Raftery (2007), section 4.2
    crps = std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert_allclose(found["crps"], crps, rtol=1e-10)
    labels = np.array(["a", "b"])
    probability = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    found = class_scores(np.array(["a", "a", "never learned"]), labels, probability)
    assert found["error"].tolist() == [0, 1, 1]
    assert_allclose(found["log_score"], np.log([0.9, 0.2, 1e-15]))


def test_differences_are_paired():
    """Two models with the same large scatter, one of them always a little worse."""
    rng = np.random.default_rng(0)
    ours = rng.exponential(10.0, 50)
    results = {OURS: [{"rmse": ours}], "other": [{"rmse": rng.permutation(ours)}]}
    results["near"] = [{"rmse": ours + 0.1 + 0.01 * rng.normal(size=50)}]
    found = summarise(results) | {"seconds": dict.fromkeys(results, 1.0), "failed": {}}
    assert found["figures"]["near"]["rmse"]["beside_ours"] == "worse"
    assert found["figures"]["other"]["rmse"]["beside_ours"] == "even"
    figure = found["figures"][OURS]["rmse"]
    assert_allclose(figure["value"], np.sqrt(ours.mean()))
    assert_allclose(figure["error"], ours.std(ddof=1) / np.sqrt(50) / (2 * figure["value"]))
    assert "behind" not in comparison_text(found)


def test_the_table_fits_a_terminal():
    def line(value, beside):
        figure = {"value": value, "error": 0.03 * value, "beside_ours": beside}
        return dict.fromkeys(("rmse", "log_score", "crps"), figure)

    names = {"this model": None, "ridge": "worse", "lightgbm": "better", "catboost": "even", "hgb": "even"}
    figures = {name: line(57.12345, beside) for name, beside in names.items()}
    text = comparison_text({"figures": figures, "seconds": dict.fromkeys(names, 1234.5), "failed": {}})
    assert max(map(len, text.splitlines())) <= 80
    head, *rest = text.splitlines()[: 1 + len(names)]
    assert {len(line) for line in rest} == {len(head)}
