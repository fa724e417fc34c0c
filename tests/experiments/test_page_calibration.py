"""What is said of stored runs with and without calibration."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))

import page_calibration

RIGHT = {f"cover{p}": p / 100 for p in page_calibration.LEVELS}


def made(rows=100, **figures):
    """A run whose coverage is right, and wrong by ten points without calibration."""
    raw = {f"raw_{name}": min(share + 0.1, 1.0) for name, share in RIGHT.items()}
    return {"n_test": 100, "rows": rows, "raw_ll": 0.0, "raw_crps": 1.0, **RIGHT, **raw, **figures}


@pytest.fixture
def runs(monkeypatch):
    stored = {
        "yacht": [made(ll=1.0, crps=0.5), made(ll=1.2, crps=0.6)],
        "autos": [made(ll=ll, crps=2.0, cover50=0.3) for ll in (-1.0, -1.1)],
    }
    monkeypatch.setattr(page_calibration, "both", lambda data: stored.get(data, []))


def test_scores_and_coverage_before_and_after(runs):
    line = next(row for row in page_calibration.gain().splitlines() if "yacht" in row)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == [
        "yacht", "2", "200", "0", "1.1 ± 0.1", "1", "0.55 ± 0.05", "30 60 90 100 100", "20 50 80 90 95",
    ]  # fmt: skip


def test_verdicts(runs):
    uci, development = page_calibration.verdict().splitlines()
    assert "log-likelihood at least as good, up to a standard error, on 1 of 1, CRPS on 1" in uci
    assert "100% of the cells" in uci
    assert "on 0 of 1, CRPS on 0" in development
    assert "80% of the cells, -20 points at most (autos)" in development


def test_coverage_is_judged_by_different_rows():
    """Twenty splits of 25 rows test each of them twenty times."""
    few = [made(rows=25, cover50=0.45) | {"n_test": 25} for _ in range(20)]
    many = [one | {"rows": 10_000} for one in few]
    assert page_calibration._off(few)[1] == 1.0
    off, within = page_calibration._off(many)
    assert np.isclose(off, -0.05)
    assert within == 0.8
