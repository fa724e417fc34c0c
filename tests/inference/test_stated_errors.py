"""A small attack on the stated errors; `benchmarks/stated_errors.py` is the large one."""

import runpy
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def attack():
    before = list(sys.path)
    module = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "stated_errors.py"))
    sys.path[:] = before
    return module["attack"]


LAWS = [("auto", 1), ("auto", 2), ("separation", 3), ("ep", 2)]
CASES = [(f"MultivariateTruncatedNormal, {name}", d) for name, d in LAWS]
CASES += [("box_log_prob", 3), ("exact", 2), ("orthant", 2), ("gibbs", 2)]


@pytest.mark.parametrize(("engine", "d"), CASES)
def test_stated_errors_hold(attack, engine, d):
    found = attack(engine, d, 12)
    assert found["violations"] == 0
    assert found["unknown"] < found["stated"]
