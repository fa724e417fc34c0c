"""The GPU kernel, interpreted on the CPU, against the general path in double precision."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.cases import few
from tests.inference.problems import shallow
from tggm.gaussian import TruncatedGaussian
from tggm.inference import ep, mean_field, rank_one
from tggm.precision import Diagonal, LowRank


def double(tg):
    P = LowRank(np.asarray(tg.precision.base, np.float64), np.asarray(tg.precision.weights, np.float64))
    return TruncatedGaussian(P, np.asarray(tg.shift, np.float64), tg.truncated)


@pytest.mark.parametrize("m", few([5, 16, 50], "16"))
@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_kernels_agree_with_the_general_path(m, noise, rng):
    mask = rng.uniform(size=m) < 0.8
    whole = shallow(rng, m=m, noise=noise, rows=7, dtype=np.float32)
    tg = TruncatedGaussian(whole.precision, whole.shift, mask)
    steps = jnp.int32(100)
    runs = {
        "bound": (rank_one.mean_field_block, (steps,), mean_field),
        "estimate": (rank_one.ep_block, (steps, jnp.float32(1e-4)), ep),
    }
    for kind, (block, numbers, engine) in runs.items():
        got = rank_one.run(block, kind, tg, *numbers, interpret=True)
        want = engine(double(tg))
        assert got.kind == want.kind == kind
        assert got.converged.all()
        assert_allclose(
            (got.mean - want.mean.astype(np.float32)) / np.sqrt(want.var).astype(np.float32), 0, atol=5e-3
        )
        assert_allclose(got.var, want.var, rtol=5e-3)
        assert_allclose(got.log_z, want.log_z, rtol=1e-6, atol=2e-3)


def test_what_the_kernel_takes():
    def made(P):
        return TruncatedGaussian(P, np.zeros((1, P.size), np.float32))

    one = np.ones(4, np.float32)
    assert rank_one.suits(made(LowRank(one, one[None])))
    assert not rank_one.suits(made(LowRank(one, np.ones((2, 4), np.float32))))
    assert not rank_one.suits(made(LowRank(np.ones(4), np.ones((1, 4)))))
    assert not rank_one.suits(made(Diagonal(one)))
