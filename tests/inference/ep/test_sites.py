"""Damping, where updates of all sites at once need it."""

import numpy as np
import pytest

from tggm.gaussian import TruncatedGaussian
from tggm.inference import ep


@pytest.mark.parametrize(("m", "scale", "seed"), [(6, 5, 4), (10, 3, 4)])
def test_strong_couplings_need_damping(m, scale, seed):
    """22 sweeps; undamped, one or two rows are thousands of deviations off and never settle."""
    rng = np.random.default_rng(seed)
    W = scale * rng.normal(size=(m, m))
    P = np.block([[np.eye(m) + W.T @ W, -W.T], [-W, np.eye(m)]])
    found = ep(TruncatedGaussian(P, 30 * rng.normal(size=(60, 2 * m))))
    assert found.converged.all()
    assert np.isfinite(found.log_z).all()
