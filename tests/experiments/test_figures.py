"""The small functions behind the figures and the answers to the paper's claims."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm import TGGMRegressor
from tggm.models import Architecture
from tggm.training import Rows

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import calibration
import figure1
import figure2
import gauge
import gradients
import pairs
import runs


def test_the_activation_is_furthest_from_relu_at_zero():
    found = figure1.largest_gap(0.3)
    assert found["at_mu"] == 0
    assert_allclose(found["gap"], 0.3 * np.sqrt(2 / np.pi), rtol=1e-14)


def test_densities_do_not_change_with_the_gauge(rng):
    model = Architecture(2, (5,), 1).draw(rng, s0=0.5, noise=1.0)
    rows = Rows(rng.standard_normal((6, 2)), rng.standard_normal((6, 1)))
    assert gauge.change_of_density(model, rows, [1e-3, 4.0]) < 1e-11
    other = model.replaced(model.arrays() | {"hidden.s0": np.asarray(4.0)})
    change = gauge.exact_log_densities(other, rows) - gauge.exact_log_densities(model, rows)
    assert np.abs(change).max() > 0.01  # carried along is what makes them equal


@pytest.mark.slow  # starts do in tests/models/test_architecture.py
def test_trainings_coincide_in_every_gauge(rng):
    X = rng.standard_normal((40, 2))
    y = np.abs(X[:, 0])
    common = {"hidden": (4,), "max_epochs": 5, "random_state": 0}
    plain = TGGMRegressor.paper_bp(**common, sigma0=2.0).fit(X, y).predict(X)
    carried = [
        gauge.fit_in_gauge(TGGMRegressor.paper_bp(**common, sigma0=s), X, y, 0.1).predict(X)
        for s in (0.1, 2.0)
    ]
    assert_allclose(carried[0], carried[1], rtol=1e-9)
    assert np.abs(plain - carried[1]).max() > 1e-3


def test_a_record_goes_on_where_it_stopped(tmp_path):
    made = []

    def work(name, x):
        made.append(name)
        return {"square": x * x}

    path, by = tmp_path / "r.json", {"settings": {"seed": 0}}
    runs.complete(path, by, work, [("a", 2.0)], 1)
    record = runs.complete(path, by, work, [("a", 2.0), ("b", 3.0)], 1)
    assert made == ["a", "b"]
    assert {k: v["square"] for k, v in record["runs"].items()} == {"a 2": 4.0, "b 3": 9.0}
    assert runs.read(path) == record
    with pytest.raises(SystemExit, match="--force replaces them"):
        runs.complete(path, {"settings": {"seed": 1}}, work, [("a", 2.0)], 1)
    runs.complete(path, {"settings": {"seed": 1}}, work, [("a", 2.0)], 1, force=True)
    assert made == ["a", "b", "a"]


def test_the_optimum_is_chosen_by_held_out_rows():
    values = {("test", 0.01): 1.0, ("test", 0.1): 2.0, ("inner", 0.01): 4.0, ("inner", 0.1): 3.0}
    record = {
        "runs": {
            f"bp {s:g} {i} {part} 300 0": {"rmse": v + i} for (part, s), v in values.items() for i in range(2)
        }
    }
    assert figure2.optimum(record, "bp") == 0.1
    assert figure2.curve(record, "bp") == {0.01: [1.0, 2.0], 0.1: [2.0, 3.0]}


def test_coverage_folds_the_histogram():
    counts = np.zeros(20)
    counts[[0, 9, 10, 19]] = 1, 2, 3, 4  # half of the targets near the median, half far out
    level, inside = calibration.coverage(counts)
    assert_allclose(level, np.arange(1, 11) / 10)
    assert_allclose(inside, [0.5] * 9 + [1.0])
    assert_allclose(calibration.furthest(counts), 0.4)  # at 0.1; at 0.9 it is as far below, and comes later


def test_differences_are_paired_by_split():
    one = {i: {"rmse": v} for i, v in enumerate([1.0, 2.0, 3.0])}
    two = {i: {"rmse": v} for i, v in enumerate([0.5, 1.5, 2.5, 9.0])}
    assert pairs.paired(one, two, "rmse") == (0.5, 0.0, 3)
    mean, error = runs.mean_error([1.0, 3.0])
    assert (mean, error) == pytest.approx((2.0, 1.0))


def test_cosine():
    assert gradients.cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(0.5**0.5)
    assert gradients.cosine(np.zeros(2), np.ones(2)) == 0
