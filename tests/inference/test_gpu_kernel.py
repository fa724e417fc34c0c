"""The GPU kernels, interpreted on the CPU, against the general path in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.cases import few
from tests.inference.references import shallow
from tggm.gaussian import TruncatedGaussian
from tggm.inference import _gpu_kernel, ep, mean_field
from tggm.precision import Diagonal, LowRank
from tggm.special import standard_moments, truncated_log_z

STEPS = jnp.int32(100)
KERNELS = {
    "bound": (_gpu_kernel.mean_field_row, (STEPS,), mean_field),
    "estimate": (_gpu_kernel.ep_row, (STEPS, jnp.float32(1e-4)), ep),
}


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("m", few([5, 16, 50], "16"))
def test_kernels_agree_with_the_general_path(kind, m, rng):
    whole = shallow(rng, m=m, n=1, noise=0.1, rows=5, dtype=np.float32)
    tg = TruncatedGaussian(whole.precision, whole.shift, rng.uniform(size=m) < 0.8)
    double = jax.tree.map(lambda a: a if a.dtype == bool else a.astype(np.float64), tg)
    row, numbers, engine = KERNELS[kind]
    got, want = _gpu_kernel.run(row, kind, tg, *numbers, interpret=True), engine(double)
    assert got.kind == want.kind == kind
    assert got.converged.all()
    assert_allclose((np.asarray(got.mean) - np.asarray(want.mean)) / np.sqrt(want.var), 0, atol=5e-3)
    assert_allclose(got.var, want.var, rtol=5e-3)
    assert_allclose(got.log_z, want.log_z, rtol=1e-6, atol=2e-3)


@pytest.mark.parametrize("kind", KERNELS)
def test_kernels_compile_to_triton(kind):
    P = LowRank(np.ones(100, np.float32), np.ones((1, 100), np.float32))
    tg = TruncatedGaussian(P, np.zeros((3, 100), np.float32))
    row, numbers, _ = KERNELS[kind]
    traced = jax.jit(lambda tg, *numbers: _gpu_kernel.run(row, kind, tg, *numbers)).trace(tg, *numbers)
    assert "gpu.triton" in traced.lower(lowering_platforms=("cuda",)).as_text()


def test_moments_of_a_unit():
    alpha = np.linspace(-40, 40, 801, dtype=np.float32)
    alpha = np.concatenate([alpha, np.float32([-1e6, -1e3, 1e3, 1e6])])
    mean, var, log_z = _gpu_kernel.unit_moments(jnp.asarray(alpha), jnp.asarray(True))
    want = standard_moments(alpha.astype(np.float64))
    assert_allclose(mean, want[0], rtol=3e-7)
    assert_allclose(var, want[1], rtol=1.5e-6)
    assert_allclose(log_z, truncated_log_z(alpha.astype(np.float64), 1.0), rtol=3e-7, atol=3e-7)


def test_kernel_takes_rank_one_in_single_precision_only():
    one = np.ones(4, np.float32)
    zero = LowRank(one, np.zeros((0, 4), np.float32))
    others = [LowRank(one, np.ones((2, 4), np.float32)), LowRank(np.ones(4), np.ones((1, 4)))]
    others += [Diagonal(one), zero]
    for P in (LowRank(one, one[None]), *others):
        suited = _gpu_kernel.is_supported(TruncatedGaussian(P, np.zeros((1, 4), np.float32)))
        assert suited == (P not in others)
    # rank zero takes the general path: 1 + φ(1) / Φ(1)
    assert_allclose(mean_field(TruncatedGaussian(zero, np.ones((2, 4)))).mean, 1.2876, rtol=1e-4)


@pytest.mark.parametrize("kind", KERNELS)
def test_rows_with_nan_have_not_converged(kind):
    P = LowRank(np.full(5, 1e-30, np.float32), np.full((1, 5), 1e15, np.float32))
    tg = TruncatedGaussian(P, np.array([[1e20, -1e20, 1e20, 0, 0]], np.float32))
    row, numbers, _ = KERNELS[kind]
    got = _gpu_kernel.run(row, kind, tg, jnp.int32(5), *numbers[1:], interpret=True)
    assert not (np.isnan(got.log_z) & got.converged).any()
