"""Settings that hold for every test, and the one table of tolerances.

Promotion is strict here (not in the package): an accidental float64 or a silent broadcast is an error.
Double precision is switched on; a test that is about the default mode leaves it with `jax.enable_x64(False)`.
"""

import gc

import jax
import numpy as np
import pytest

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
