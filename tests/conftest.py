"""Settings of all tests.

Type and rank promotion are strict here (not in the package): an accidental float64 or broadcast is an error.
Double precision is on; tests of the default mode use `jax.enable_x64(False)`.
"""

import gc
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

from tggm.estimators import _class_predictions, _data
from tggm.paper import _estimators as paper
from tggm.predictive import member_moments
from tggm.training import rows

# Tests mostly trace and compile: record no source lines, and collect garbage rarely.
jax.config.update("jax_traceback_in_locations_limit", 0)
gc.set_threshold(100_000, 50, 100)
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> np.dtype:
    return np.dtype(request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20160619)


USUAL = rows.bucket
TRAINING = (rows, _data, paper)  # modules that pad tables
PREDICTION = (_class_predictions, member_moments)


@pytest.fixture(autouse=True, scope="session")
def few_shapes() -> Iterator[None]:
    """Pad small tables to common lengths, so that tests share compiled programs.

    Padding changes no result. Tests of padding, and tests that are slow per row, use `usual_shapes`.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in TRAINING:
            patch.setattr(module, "bucket", lambda size: max(USUAL(size), 128))
        for module in PREDICTION:
            patch.setattr(module, "bucket", lambda size: 128 if size <= 128 else max(USUAL(size), 1024))
        yield


@pytest.fixture
def usual_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pad tables as in normal use."""
    for module in (*TRAINING, *PREDICTION):
        monkeypatch.setattr(module, "bucket", USUAL)


MAPS = Path("/proc/self/maps")
MOST_MAPS = 25_000  # Linux allows a process 65,530


@pytest.fixture(autouse=True, scope="module")
def clear_programs() -> Iterator[None]:
    """Clear compiled programs before the process has too many memory maps, which crashes the compiler."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()
