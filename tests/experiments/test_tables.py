"""Development tables: their splits, and that nothing of the test rows is learned from."""

import os
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import datasets
from recipes import RECIPES

import tables
from tables import SPLITS, TABLES

real_data = pytest.mark.skipif(
    not os.environ.get("TGGM_DATA"), reason="TGGM_DATA names no folder with the data"
)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A folder for made-up files, which are taken for the real ones."""
    (tmp_path / "tables").mkdir()
    monkeypatch.setenv("TGGM_DATA", str(tmp_path))

    def enter(name):
        content = (tmp_path / name).read_bytes()
        monkeypatch.setitem(datasets.SHA256, name, sha256(content).hexdigest())
        return tmp_path / name

    tables.read.cache_clear()
    yield tmp_path, enter
    tables.read.cache_clear()


def test_a_fold_is_tested_on(folder):
    path, enter = folder
    fold = np.tile(np.arange(10, dtype=np.uint8), 3)
    X = np.arange(30, dtype=np.float32)[:, None]
    np.savez(path / "tables/servo.npz", X=X, y=np.arange(30.0), fold=fold)
    enter("tables/servo.npz")
    found = TABLES["servo"].split(2)
    assert found.y_test.tolist() == found.X_test[:, 0].tolist() == [2, 12, 22]
    assert set(found.y_train) == set(range(30)) - {2, 12, 22}
    assert found.X_train.dtype == np.float64


def test_words_and_gaps_become_numbers_by_training_rows_alone(folder):
    path, enter = folder
    test = np.flatnonzero(tables._tenth(40, 0))
    rows = [f"{i}.5,{'' if i == test[0] else i % 7},{'ab'[i % 2]},{'no'}" for i in range(40)]
    rows[test[1]] = f"{test[1]}.5,3,new,no"  # a word that no training row has
    (path / "tables/tips.csv").write_text("\n".join(["tip,size,day,same", *rows, ",1,a,no", ""]))
    enter("tables/tips.csv")
    numbers, raw = TABLES["tips"].split(0), TABLES["tips"].raw(0)
    assert numbers.X_train.shape == (36, 3)  # size, day = a, day = b; a constant says nothing
    assert numbers.X_test.shape == (4, 3)  # the row without a target is not counted
    median = np.median([i % 7 for i in range(40) if i not in test])
    assert numbers.X_test[0, 0] == median
    assert numbers.X_test[1].tolist() == [3, 0, 0]
    assert raw.X_train.columns.tolist() == ["size", "day", "same"]
    assert np.isnan(raw.X_test["size"].iloc[0])
    assert raw.X_test["day"].iloc[1] == "new"
    assert np.array_equal(raw.y_test, numbers.y_test)


@pytest.mark.parametrize("name", RECIPES)
def test_generated_splits_differ_and_come_again(name):
    first, again, second = TABLES[name].split(0), TABLES[name].split(0), TABLES[name].split(1)
    assert np.array_equal(first.X_train, again.X_train)
    assert np.array_equal(first.y_test, again.y_test)
    assert not np.array_equal(first.y_train, second.y_train)
    assert len(first.y_train) == RECIPES[name][1]
    assert len(first.y_test) == 1000


def test_prices_go_over_five_orders_of_magnitude():
    y = np.concatenate([TABLES["prices"].split(k).y_test for k in range(SPLITS)])
    assert y.min() > 0
    assert np.log10(y.max() / y.min()) > 5


def test_a_split_that_is_none_is_named():
    with pytest.raises(ValueError, match=r"one of the splits 0\.\.4; got 5"):
        TABLES["noise"].split(5)


@real_data
@pytest.mark.parametrize("name", ["autos", "titanic", "penguins", "ames", "diabetes"])
def test_real_tables_are_numbers_in_five_splits(name):
    table = TABLES[name]
    tests = set()
    for k in range(SPLITS):
        X_train, y_train, X_test, y_test = table.split(k)
        assert np.isfinite(X_train).all()
        assert np.isfinite(X_test).all()
        assert X_train.shape[1] == X_test.shape[1]
        assert np.isclose(len(y_test) / (len(y_train) + len(y_test)), 0.1, atol=0.01)
        tests.add(X_test.tobytes())
    assert len(tests) == SPLITS


@real_data
def test_the_target_does_not_come_back_in_other_words():
    raw = TABLES["titanic"].raw(0)
    assert not {"survived", "alive"} & set(raw.X_train.columns)
