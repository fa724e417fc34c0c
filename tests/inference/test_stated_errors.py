"""A small attack on the stated errors; `benchmarks/stated_errors.py` is the large one."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "stated_errors.py"


@pytest.fixture(scope="module")
def attack():
    spec = importlib.util.spec_from_file_location("stated_errors", PATH)
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module.attack


@pytest.mark.parametrize(
    ("engine", "d"),
    [
        ("MultivariateTruncatedNormal, auto", 1),
        ("MultivariateTruncatedNormal, auto", 2),
        ("MultivariateTruncatedNormal, separation", 3),
        ("MultivariateTruncatedNormal, ep", 2),
        ("box_log_prob", 3),
        ("exact", 2),
        ("gibbs", 2),
    ],
)
def test_stated_errors_hold(attack, engine, d):
    found = attack(engine, d, 12)
    assert found["violations"] == 0
    assert found["unknown"] < found["stated"]
