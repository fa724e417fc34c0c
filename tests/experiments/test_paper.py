"""The command that repeats the paper's tables: variants of settings, and scores in the units of the data."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import datasets

import paper


def test_a_variant_changes_the_chosen_settings():
    base = paper.chosen("score", "yacht", "ml", "", "base")
    found = paper.chosen("score", "yacht", "ml", "", "longer=0.1,rate=0.5,keep=best,noise=null")
    assert found == base | {"epochs": round(base["epochs"] / 10), "rate": 0.5, "keep": "best", "noise": None}
    chosen = paper.chosen("score", "news", "relu", "100-100", "base")
    deep = paper.estimator("news", "relu", chosen, 0, hidden=(100, 100))
    wanted = ("bp", "directed", 100, paper.RELU_SIGMA0)
    assert (deep.method, deep.deep, deep.batch_size, deep.sigma0) == wanted
    reading = paper.chosen("score", "yacht", "ml", "", "reading=precision")
    precision = paper.estimator("yacht", "ml", reading, 0)
    assert precision.sigma0**2 == pytest.approx(1 / 0.5)
    assert precision.noise == 1 / 0.5


@pytest.mark.parametrize("model", ["bp", "ml"])
def test_scores_have_the_units_of_the_data(monkeypatch, model):
    """Multiply the targets by ten: errors grow tenfold, the log-density falls by log 10."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y, split = np.abs(X[:, 0]) + 0.1 * rng.normal(size=120), (np.arange(100), np.arange(100, 120))
    found = []
    for unit in (1.0, 10.0):
        data = datasets.Regression(X, unit * y + unit, [split])
        monkeypatch.setattr(paper, "load_uci", lambda name, data=data: data)
        found.append(paper.regression("score", "yacht", model, "longer=0.01", 0))
    for figure in ("rmse", "crps"):
        assert found[1][figure] == pytest.approx(10 * found[0][figure], rel=1e-3)
    assert found[1]["ll"] == pytest.approx(found[0]["ll"] - np.log(10), abs=1e-3)
    assert found[0]["rmse"] < 1.5 * y.std()
    held = paper.regression("choose", "yacht", model, "longer=0.01", 0)
    assert held["rmse"] < 15 * y.std()


def test_held_out_rows_are_no_training_rows():
    train, held = paper.held_out(np.arange(50), 5, 3)
    assert len(held) == 5
    assert sorted([*train, *held]) == list(range(50))
