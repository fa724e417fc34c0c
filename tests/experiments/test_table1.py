"""The command behind Table 1: what it fits, what it keeps, what it skips."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tggm import TGGMRegressor
from tggm.special import truncated_mean

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import table1
import year
from datasets import Regression
from ledger import Ledger
from pool import ALONE, Pool

SETTINGS = {"settings": {"hidden": (50,)}, "seed": 0}


def result(split, rmse=1.0):
    return {"split": split, "rmse": rmse}


def test_the_relu_row_is_a_relu_network():
    sigma0 = table1.model_of("relu", "boston", 455, 0).sigma0
    mu = np.linspace(-1, 1, 20_001)
    gap = truncated_mean(mu, sigma0) - np.maximum(mu, 0)
    assert gap.min() >= -1e-15
    assert gap.max() <= 0.8 * sigma0 == 8e-5
    assert gap.max() > 0.79 * sigma0  # E|N(0, σ0²)| = √(2/π) σ0 at μ = 0


def test_rows_have_the_papers_settings():
    bp, ml = (table1.model_of(row, "boston", 455, 3) for row in ("paper-bp", "paper-ml"))
    assert (bp.hidden, bp.batch_size, bp.max_epochs, bp.random_state) == ((50,), 50, 1000, 3)
    assert np.allclose([bp.sigma0**2, bp.noise, ml.sigma0**2, ml.noise], [0.01, 0.01, 0.5, 0.5])
    assert (ml.method, ml.solver, ml.n_cycles) == ("meanfield", "cyclic", 10)
    protein = table1.model_of("paper-ml", "protein", 41_157, 0)
    assert (protein.hidden, protein.batch_size, protein.max_epochs) == ((100,), 100, 200)
    assert (
        table1.model_of("default", "yacht", 277, 0).get_params()
        == TGGMRegressor.one_layer(random_state=0).get_params()
    )
    assert table1.model_of("single", "yacht", 277, 0).n_members == 1


def test_a_ledger_knows_what_is_missing_after_it_was_read_again(tmp_path):
    path = tmp_path / "row.json"
    Ledger(path).add("yacht", SETTINGS, [result(1), result(0)], seconds=4.0)
    Ledger(path).add("boston", SETTINGS, [result(0)], seconds=1.0)
    again = Ledger(path)
    assert again.missing("yacht", SETTINGS, range(4)) == [2, 3]
    assert again.missing("wine", SETTINGS, range(2)) == [0, 1]
    assert again.missing("yacht", {**SETTINGS, "seed": 1}, range(2)) == [0, 1]
    again.add("yacht", SETTINGS, [result(2), result(0, rmse=5.0)], seconds=2.0)
    again.add("yacht", SETTINGS, [result(3)], seconds=1.0)
    record = json.loads(path.read_text())["yacht"]
    assert [(r["split"], r["rmse"]) for r in record["splits"]] == [(0, 5.0), (1, 1.0), (2, 1.0), (3, 1.0)]
    assert record["seconds"] == 5.0
    again.add("yacht", {**SETTINGS, "seed": 1}, [result(7)], seconds=1.0)  # other settings: a new record
    assert [r["split"] for r in Ledger(path).results("yacht")] == [7]
    assert [path.name for path in tmp_path.iterdir()] == ["row.json"]


@pytest.fixture
def songs(monkeypatch, tmp_path):
    """Year Prediction MSD with few rows, in a folder that does not have it."""
    monkeypatch.setenv("TGGM_DATA", str(tmp_path))
    monkeypatch.setattr(year, "TRAIN", 60)
    monkeypatch.setattr(year, "TEST", 20)
    year.load_year.cache_clear()
    yield tmp_path
    year.load_year.cache_clear()


@pytest.fixture
def small(monkeypatch, rng):
    """Forty rows called yacht, and models that are quick."""
    X = rng.standard_normal((40, 2))
    splits = [(np.delete(np.arange(40), test), test) for test in np.split(np.arange(40), 4)]
    monkeypatch.setattr(table1, "load_uci", lambda name: Regression(X, X[:, 0], splits))

    def model_of(row, dataset, n_train, seed):
        return TGGMRegressor.one_layer(hidden=(2,), n_members=1, method="bp", max_epochs=2, random_state=seed)

    monkeypatch.setattr(table1, "model_of", model_of)


@pytest.mark.slow  # what a ledger lacks, above
def test_a_larger_run_adds_what_is_missing(small, tmp_path, capsys):
    def run(*words):
        args = table1.arguments(["--datasets", "yacht", "--rows", "single", "--out", str(tmp_path), *words])
        books = {"single": Ledger(tmp_path / "single.json")}
        jobs = table1.plan(args, books)
        table1.run(jobs, books, workers=1)
        table1.show(args, books)
        return [i for job in jobs for i in job.splits]

    assert run("--splits", "2") == [0, 1]
    before = Ledger(tmp_path / "single.json").results("yacht")
    assert run("--splits", "9") == [2, 3]
    assert run() == []
    assert run("--splits", "1", "--force") == [0]
    found = Ledger(tmp_path / "single.json").results("yacht")
    assert [r["split"] for r in found] == [0, 1, 2, 3]
    assert found[0]["rmse"] == before[0]["rmse"]  # the seed of a split does not depend on the run
    assert {r["rmse"] for r in found[:2]} == {r["rmse"] for r in before}
    assert all(sum(r["pit"]) == 10 and r["commit"] and r["device"] for r in found)
    assert "yacht     single      4" in capsys.readouterr().out


def test_splits_at_once_are_splits_in_turn(small):
    job = table1.Job("single", "yacht", (0, 2), 0, None, {"train_rows": 30})
    (together, _), (apart, _) = table1.make(job, at_once=True), table1.make(job)
    assert [r["split"] for r in together] == [0, 2]
    for a, b in zip(together, apart, strict=True):
        assert np.isclose(a["rmse"], b["rmse"], rtol=1e-4)


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        table1.arguments(["--datasets", "yacht,yatch"])
    assert "'yatch' is not one of boston, concrete" in capsys.readouterr().err


def test_year_is_generated_where_it_is_absent_and_no_error_is_quoted(songs, monkeypatch):
    monkeypatch.setattr(
        table1,
        "model_of",
        lambda *_: TGGMRegressor.one_layer(hidden=(2,), n_members=1, method="bp", max_epochs=1),
    )
    args = table1.arguments(["--datasets", "year", "--rows-limit", "45", "--out", str(songs)])
    books = {row: Ledger(songs / f"{row}.json") for row in table1.ROWS}
    jobs = table1.plan(args, books)
    assert [(job.row, job.made_with["train_rows"], job.made_with["generated"]) for job in jobs] == [
        ("single", 45, True),
        ("default", 45, True),
    ]
    (found,), _ = table1.make(jobs[0])
    assert {"fit_s", "predict_s"} < set(found)
    assert not {"rmse", "ll", "crps", "pit"} & set(found)


def test_year_is_read_where_it_is(songs, rng):
    table = np.round(np.column_stack([rng.integers(1950, 2010, 80), rng.standard_normal((80, 90))]), 4)
    np.savetxt(songs / "YearPredictionMSD.txt", table, "%.4f", ",")
    found = year.load_year()
    assert not found.generated
    assert np.allclose(np.column_stack([found.y, found.X]), table, rtol=1e-6)
    assert [part.tolist() for part in found.splits[0]] == [list(range(60)), list(range(60, 80))]


def test_workers_compute_on_one_core_and_end_with_the_block(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ALONE:
        monkeypatch.setenv(name, "")  # and set back afterwards
    found, failed = [], []
    with Pool(1) as pool:
        pool.submit(os.getenv, "JAX_PLATFORMS", then=found.append)
        pool.wait()
        pool.submit(divmod, 1, 0, then=failed.append)
        with pytest.raises(ZeroDivisionError):
            pool.wait()
    assert (found, failed) == (["cpu"], [])
