"""Settings that hold for every test, and the one table of tolerances.

Promotion is strict here (not in the package): an accidental float64 or a silent broadcast is an error.
Double precision is switched on; a test that is about the default mode leaves it with `jax.enable_x64(False)`.
"""

import gc
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

from tggm.estimators import class_prediction, sources
from tggm.predictive import member_moments
from tggm.training import rows

# Tests trace and compile most of the time: where a program's lines come from is not asked, and its many small
# objects live long, so that looking for garbage among them is in vain.
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
TRAINING, PREDICTION = (rows, sources), (class_prediction, member_moments)  # modules that pad tables


@pytest.fixture(autouse=True, scope="session")
def few_shapes() -> Iterator[None]:
    """Small tables are padded more than users' are: those of different lengths share their programs.

    How many rows of padding there are changes no result; tests of that, or of something slow for each row,
    take `usual_shapes`.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in TRAINING:
            patch.setattr(module, "bucket", lambda size: max(USUAL(size), 128))
        for module in PREDICTION:
            patch.setattr(module, "bucket", lambda size: 128 if size <= 128 else max(USUAL(size), 1024))
        yield


@pytest.fixture
def usual_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are padded as users' are."""
    for module in (*TRAINING, *PREDICTION):
        monkeypatch.setattr(module, "bucket", USUAL)


MAPS = Path("/proc/self/maps")
MOST_MAPS = 25_000  # Linux allows a process 65,530


@pytest.fixture(autouse=True, scope="module")
def programs_are_let_go() -> Iterator[None]:
    """A compiled program takes a few maps of memory; the compiler crashes when there are no more to have."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()
