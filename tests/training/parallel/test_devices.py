"""Mini-batches cut over eight virtual devices of a CPU give the parameters that one device gives."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from tggm.training.parallel import crew
from tggm.training.parallel.crew import devices_for, one_each
from tggm.training.parallel.processes import use_devices

from tests.cases import few
from tests.training.small_fits import ALL, fitted

ROOT = Path(__file__).parents[3]
CLOSE = {"float64": 1e-9, "float32": 1e-4}


def on_eight(out, name):
    """The parameters of a fit on eight devices, which another process has."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    words = [sys.executable, "-W", "error", "-m", "tests.training.small_fits", str(out), name]
    subprocess.run(words, cwd=ROOT, env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}, check=True)
    return np.load(out)[name]


# numbers are fitted by two processes in tests/cli/test_distributed.py
@pytest.mark.parametrize("name", few(ALL, "classifier float32"))
def test_eight_devices_give_what_one_gives(tmp_path, name):
    close = CLOSE[name.split()[1]]
    assert_allclose(on_eight(tmp_path / "eight.npz", name), fitted(name), rtol=close, atol=close)


class Device:
    def __init__(self, process_index):
        self.process_index = process_index


def test_many_devices_are_used_where_each_has_rows_enough(monkeypatch):
    several = [Device(0) for _ in range(4)]
    monkeypatch.setattr(crew.jax, "devices", lambda: several)
    assert devices_for(4 * 2048 - 1) == []
    assert devices_for(4 * 2048) == several
    with jax.default_device(jax.local_devices()[0]):  # where to compute was chosen already
        assert devices_for(4 * 2048) == []


def test_one_device_of_each_process():
    a, b, c, d = (Device(k) for k in (0, 0, 1, 1))
    assert one_each([a, b, c, d]) == [a, c]


def test_devices_are_chosen_by_name():
    with use_devices(jax.devices()):
        assert devices_for(1) == jax.devices()
    assert devices_for(1) == []
    with (
        pytest.raises(ValueError, match=r"`devices` must be a list of JAX devices.*got \[\]"),
        use_devices([]),
    ):
        pass
