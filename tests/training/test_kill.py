"""A killed fit resumes from its checkpoint and gives the same model."""

import os
import subprocess
import sys
import time

import pytest

CHILD = """
import sys, time
clocks = {name: getattr(time, name) for name in ("monotonic", "perf_counter")}
for name, clock in clocks.items():  # a fast clock: checkpoints are written often
    setattr(time, name, lambda clock=clock: 300 * clock())
import numpy as np
import tggm

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 4))
y = np.sin(X[:, 0]) + 0.3 * np.abs(X[:, 1]) * rng.normal(size=400)
settings = {"n_members": 2, "max_epochs": 600, "random_state": 0, "checkpoint": sys.argv[1] + "/checkpoint"}
tggm.save(tggm.TGGMRegressor(6, **settings).fit(X, y), sys.argv[1] + "/model.tggm")
"""


def start(folder):
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, "-c", CHILD, str(folder)], stderr=subprocess.PIPE)


def written(folder):
    """Return a mark that changes with every checkpoint."""
    path = folder / "checkpoint"
    return path.stat().st_mtime_ns if path.exists() else None


def killed(folder, delay):
    """Start the fit and kill it `delay` seconds after it wrote a checkpoint; return whether it was killed."""
    before, child = written(folder), start(folder)
    while child.poll() is None and written(folder) == before:
        time.sleep(0.001)
    time.sleep(delay)
    child.kill()
    child.communicate()
    return child.returncode < 0


@pytest.mark.slow  # several processes; tests/training/test_checkpoint.py damages checkpoints one by one
@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_killed_fit_ends_with_the_same_model(tmp_path):
    whole, interrupted = tmp_path / "whole", tmp_path / "interrupted"
    kills = [killed(interrupted, delay) for delay in (0.0, 0.02, 0.05)]
    assert any(kills)
    for folder in (whole, interrupted):
        child = start(folder)
        _, text = child.communicate()
        assert child.returncode == 0, text.decode()
    assert (interrupted / "model.tggm").read_bytes() == (whole / "model.tggm").read_bytes()
