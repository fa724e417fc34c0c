"""Runs are stored once, continue after an interruption, and are shown on the pages."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import render
import scores
import store


def test_a_command_continues_where_it_stopped(tmp_path):
    made = []

    def work(name, x):
        made.append(name)
        return {"square": float(x * x)}

    path, fields = tmp_path / "r.json", ("name", "x")
    store.complete(path, fields, work, [("a", 1)], epochs=3)
    store.complete(path, fields, work, [("a", 1), ("b", 2)], epochs=3)
    record = store.read(path)
    assert made == ["a", "b"]
    assert [(run["name"], run["square"]) for run in record["runs"]] == [("a", 1.0), ("b", 4.0)]
    assert {"commit", "machine"} <= record["runs"][0].keys()
    with pytest.raises(SystemExit, match="other settings"):
        store.complete(path, fields, work, [("a", 1)], epochs=4)
    store.complete(path, fields, work, [("a", 1)], force=True, epochs=3)
    assert made == ["a", "b", "a"]
    for _ in range(2):
        store.complete(tmp_path / "parts", fields, work, [("c", 1), ("d", 1), ("c", 2)])
    assert made[3:] == ["c", "d", "c"]
    assert [len(store.read(tmp_path / f"parts/{name}.json")["runs"]) for name in "cd"] == [2, 1]


def test_groups_of_runs_become_lines_of_a_table():
    given = (("a", "x", 1.0), ("a", "x", 3.0), ("b", "y", 5.0))
    runs = [{"set": s, "model": m, "rmse": value} for s, m, value in given]
    columns = {"n": render.count, "RMSE": render.spread("rmse")}
    shown = render.table(runs, {"data": "set"}, columns)
    assert shown.splitlines()[2:] == ["| a | 2 | 2 ± 1 |", "| b | 1 | 5 |"]
    shown = render.pivot(runs, "set", "model", render.mean("rmse", ".1f"), missing="-")
    assert shown.splitlines()[2:] == ["| a | 2.0 | - |", "| b | - | 5.0 |"]


@pytest.mark.parametrize("name", render.BLOCKS)
def test_pages_show_the_stored_results(name):
    page = (store.ROOT / name).read_text()
    assert render.fill(page, name) == page, f"run python experiments/render.py ({name})"


def test_every_results_file_is_on_a_page():
    text = "".join((store.ROOT / name).read_text() for name in render.BLOCKS)
    for path in [*store.RESULTS.rglob("*.json"), *store.BENCHMARKS.glob("*.json")]:
        command = store.read(path)["command"]
        assert command in text, path.name


def test_scores_of_gaussian_predictions(rng):
    mean, std = rng.normal(size=4000), np.full(4000, 2.0)
    found = scores.distribution(scores.Gaussian(mean, std), mean + 2 * rng.normal(size=4000))
    assert abs(found["rmse"] - 2) < 0.1
    assert abs(found["ll"] + 0.5 * np.log(2 * np.pi * np.e * 4)) < 0.05
    assert abs(found["crps"] - 2 / np.sqrt(np.pi)) < 0.05  # Gneiting and Raftery (2007): σ / √π in the mean
    assert abs(found["cover90"] - 0.9) < 0.02


def test_scores_of_samples_and_of_frequencies(rng):
    train, y = rng.normal(size=30), rng.normal(size=5)
    near, apart = np.abs(train[:, None] - y).mean(), np.abs(train[:, None] - train)
    assert scores.climatology(train, y) == pytest.approx(near - apart.mean() / 2)
    found = scores.Samples(np.tile(train, (5, 1))).crps(y).mean()
    assert found == pytest.approx(near - apart.sum() / (30 * 29) / 2)  # unbiased: no draw with itself
    found = scores.frequencies(np.array(["a", "a", "b"]), np.array(["a", "b"]))
    assert found == pytest.approx(np.log(2 / 9) / 2)


def test_scores_of_class_probabilities():
    probability = np.array([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.9, 0.1]])
    found = scores.calibration(probability, np.array([0, 1, 0, 0]))
    assert (found["accuracy"], found["balanced"]) == (75.0, pytest.approx(100 * (2 / 3 + 1) / 2))
    assert found["nll"] == pytest.approx(-np.log([0.8, 0.6, 0.3, 0.9]).mean())
    assert found["ece"] == pytest.approx((0.2 + 0.4 + 0.7 + 0.1) / 4)
