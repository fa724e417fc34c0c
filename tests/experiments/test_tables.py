"""Data files are checked, and development tables are split without using test rows."""

import os
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import arena
import datasets
from datasets import DatasetError, load_mnist, load_uci
from learners import LEARNERS
from scores import climatology, distribution, labels

import tables
from tables import RAW_TABLES, TABLES

real_data = pytest.mark.skipif(not os.environ.get("TGGM_DATA"), reason="TGGM_DATA is not set")


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Make an empty data folder, and a function that accepts the checksum of a file in it."""
    (tmp_path / "tables").mkdir()
    monkeypatch.setenv("TGGM_DATA", str(tmp_path))

    def accept(name):
        monkeypatch.setitem(datasets.SHA256, name, sha256((tmp_path / name).read_bytes()).hexdigest())

    tables._read.cache_clear()
    yield tmp_path, accept
    tables._read.cache_clear()


def test_errors_name_the_variable_or_the_file(monkeypatch, folder):
    with pytest.raises(DatasetError, match=r"uci_yacht\.npz is missing; put it there, or set TGGM_DATA"):
        load_uci("yacht")
    (folder[0] / "mnist.npz").write_bytes(b"not the digits")
    with pytest.raises(DatasetError, match=r"mnist\.npz is not the expected file .* download it again"):
        load_mnist()
    with pytest.raises(ValueError, match=r"one of boston, concrete, .*; got 'bostn'"):
        load_uci("bostn")
    monkeypatch.delenv("TGGM_DATA")
    with pytest.raises(DatasetError, match=r"TGGM_DATA is not set; .* export TGGM_DATA="):
        load_uci("yacht")


def test_split_k_tests_on_fold_k(folder):
    path, accept = folder
    fold, X = np.tile(np.arange(10, dtype=np.uint8), 3), np.arange(30, dtype=np.float32)[:, None]
    np.savez(path / "tables/servo.npz", X=X, y=np.arange(30.0), fold=fold)
    accept("tables/servo.npz")
    found = TABLES["servo"].split(2)
    assert found.y_test.tolist() == found.X_test[:, 0].tolist() == [2, 12, 22]
    assert found.X_train.dtype == np.float64


def test_words_and_gaps_are_encoded_by_training_rows(folder):
    path, accept = folder
    test = np.flatnonzero(tables._tenth(40, 0))
    rows = [f"{i}.5,{'' if i == test[0] else i % 7},{'ab'[i % 2]},no" for i in range(40)]
    rows[test[1]] = f"{test[1]}.5,3,new,no"  # a word that is in no training row
    (path / "tables/tips.csv").write_text("\n".join(["tip,size,day,same", *rows, ",1,a,no", ""]))
    accept("tables/tips.csv")
    numbers, raw = TABLES["tips"].split(0), TABLES["tips"].raw(0)
    assert numbers.X_train.shape == (36, 3)  # size, day = a, day = b; the constant column is left out
    assert len(numbers.X_test) == 4  # the row without a target is not counted
    assert numbers.y_train.tolist() == raw.y_train.tolist()
    assert set(raw.X_train["day"]) == {"a", "b"}


def test_generated_tables_depend_only_on_the_split():
    for name in ("linear", "prices"):
        one, two, other = (TABLES[name].split(k) for k in (1, 1, 2))
        assert np.array_equal(one.X_train, two.X_train)
        assert not np.array_equal(one.y_test, other.y_test)
    frame = RAW_TABLES["sales"].raw(0)
    assert len(frame.X_train) == 3000
    assert frame.X_train["day"].max() <= frame.X_test["day"].min()
    assert 0.02 < (RAW_TABLES["rare"].raw(0).y_train == "fraud").mean() < 0.06


@pytest.mark.filterwarnings("ignore:The optimal value")  # of a length scale of an irrelevant column
@pytest.mark.parametrize("learner", ["linear", "hgb", "gp"])
def test_learners_return_a_law_or_probabilities(learner):
    X, y, X_test, y_test = TABLES["friedman1"].split(0)
    found = distribution(LEARNERS[learner].regression(X[:80], y[:80], 0)(X_test), y_test)
    assert found["crps"] < climatology(y, y_test)
    assert 0.5 < found["cover90"] <= 1
    if LEARNERS[learner].classification:
        probability = LEARNERS[learner].classification(X[:80], y[:80] > 14, 0)(X_test)
        assert labels(y_test > 14, np.array([False, True]), probability)["error"] < 0.4


@pytest.mark.parametrize("learner", ["linear", "hgb", "gp"])
def test_the_arena_measures_tables_with_words_and_gaps(learner):
    found = arena.work(learner, "medical", 0)
    if learner == "gp":
        assert "more than 2000 rows" in found["failed"]
    else:
        assert 0 < found["skill"] < 1
        assert {"fit_s", "predict_s", "crps", "rmse", "cover50", "unique"} <= found.keys()


def test_the_arena_starts_cheap_runs_first_and_limits_slow_ones():
    tasks = arena.plan(["linear", "ngboost", "gp"], ["wide", "kin40k", "digits"], 5)
    assert tasks[0] == ("linear", "wide", 0)
    assert [task[1:] for task in tasks if task[0] == "ngboost" and task[1] == "kin40k"] == [("kin40k", 0)]
    assert {task[1] for task in tasks if task[0] == "gp"} == {"wide"}  # few rows, and no classifier
    assert sum(task[:2] == ("linear", "kin40k") for task in tasks) == 3


@real_data
@pytest.mark.parametrize("name", ["tips", "machine"])
def test_real_tables_have_finite_numbers(name):
    found = TABLES[name].split(0)
    assert np.isfinite(found.X_train).all()
    assert len(found.X_train) > 5 * len(found.X_test) > 0
