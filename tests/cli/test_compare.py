"""`tggm compare`: the same folds for all, and paired differences."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.cli.commands import answer, complaint, rows, write
from tggm.cli import comparison
from tggm.cli.comparison import OURS, comparison_text, figures, on_all_labels
from tggm.tables.baselines import row_scores

SMALL = ["--hidden", "6,5", "--members", "2", "--epochs", "2", "--folds", "2", "--quiet"]


@pytest.fixture
def houses(tmp_path):
    return write(tmp_path / "houses.csv", rows(60, seed=0))


def test_ours_and_others_on_the_same_folds(houses, capsys):
    words = ["compare", houses, "--target", "price", "--models", "naive,linear,hgb", *SMALL]
    found = json.loads(answer(capsys, *words, "--json"))
    assert (found["rows"], found["folds"], found["task"]) == (60, 2, "regression")
    figures = found["figures"]
    assert list(figures) == [OURS, "naive", "linear", "hgb"]
    assert figures["linear"]["rmse"]["value"] < 0.5 * figures["naive"]["rmse"]["value"]
    assert figures[OURS]["rmse"]["beside_ours"] is None
    assert all(own["seconds"] > 0 for own in figures.values())
    assert "naive" in comparison_text(figures)


def test_classes(houses, capsys):
    words = ["compare", houses, "--target", "garden", "--models", "naive,hgb", *SMALL, "--json"]
    found = json.loads(answer(capsys, *words))
    assert found["task"] == "classification"
    assert set(found["figures"][OURS]) == {"error", "log_score", "seconds"}
    assert 0 <= found["figures"]["naive"]["error"]["value"] <= 1


def test_errors_name_the_remedy(houses, capsys, monkeypatch):
    assert "--models must be" in complaint(capsys, "compare", houses, "-t", "price", "--models", "magic")
    words = ["compare", houses, "-t", "price", "--folds", "40", "--quiet"]
    assert "--folds 40 needs 80 rows" in complaint(capsys, *words)
    monkeypatch.setattr(comparison, "find_spec", lambda name: None)
    message = complaint(capsys, "compare", houses, "-t", "price", "--models", "catboost")
    assert "pip install catboost" in message


def test_a_class_that_was_not_in_training_is_an_error_with_the_least_probability():
    labels, log_p = np.array(["a", "c"]), np.log([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    found = row_scores(*on_all_labels(log_p, labels, np.array(["a", "a", "b"])))  # b was not in training
    assert found["error"].tolist() == [0, 1, 1]
    assert_allclose(found["log_score"], np.log([0.9, 0.2, 1e-15]))


def test_differences_are_paired():
    """Two models with the same large scatter, one of them always a little worse."""
    rng = np.random.default_rng(0)
    ours = {"rmse": rng.exponential(10.0, 50)}
    near = {"rmse": ours["rmse"] + 0.1 + 0.01 * rng.normal(size=50)}
    assert figures(near, ours)["rmse"]["beside_ours"] == "worse"
    assert figures({"rmse": rng.permutation(ours["rmse"])}, ours)["rmse"]["beside_ours"] == "even"
    own = figures(ours, ours)["rmse"]
    assert_allclose(own["value"], np.sqrt(ours["rmse"].mean()))
    assert_allclose(own["error"], ours["rmse"].std(ddof=1) / np.sqrt(50) / (2 * own["value"]))


def test_the_table_fits_a_terminal():
    def line(value, beside):
        figure = {"value": value, "error": 0.03 * value, "beside_ours": beside}
        return dict.fromkeys(("rmse", "log_score", "crps"), figure) | {"seconds": 1234.5}

    names = {"this model": None, "linear": "worse", "catboost": "better", "hgb": "even"}
    text = comparison_text({name: line(57.12345, beside) for name, beside in names.items()})
    assert max(map(len, text.splitlines())) <= 80
    assert "40,000 ± 1200 " in comparison_text({OURS: line(4e4, None)})
    head, *rest = text.splitlines()[: 1 + len(names)]
    assert {len(line) for line in rest} == {len(head)}
