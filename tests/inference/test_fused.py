"""The GPU kernels, interpreted on the CPU, against the general path in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.cases import few
from tests.inference.problems import shallow
from tggm.gaussian import TruncatedGaussian
from tggm.inference import ep, fused, mean_field
from tggm.inference.fused_pieces import standard
from tggm.precision import Diagonal, LowRank
from tggm.special import standard_moments, truncated_log_z

STEPS = jnp.int32(100)
KERNELS = {
    "bound": (fused.mean_field_row, (STEPS,), mean_field),
    "estimate": (fused.ep_row, (STEPS, jnp.float32(1e-4)), ep),
}


def double(tg):
    P = LowRank(np.asarray(tg.precision.base, np.float64), np.asarray(tg.precision.weights, np.float64))
    return TruncatedGaussian(P, np.asarray(tg.shift, np.float64), tg.truncated)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("n", few([1, 2, 3, 10], "1", "3"))
@pytest.mark.parametrize("m", few([5, 16, 50], "16"))
def test_kernels_agree_with_the_general_path(kind, n, m, rng):
    mask = rng.uniform(size=m) < 0.8
    whole = shallow(rng, m=m, n=n, noise=0.1, rows=5, dtype=np.float32)
    tg = TruncatedGaussian(whole.precision, whole.shift, mask)
    row, numbers, engine = KERNELS[kind]
    got = fused.run(row, kind, tg, *numbers, interpret=True)
    want = engine(double(tg))
    assert got.kind == want.kind == kind
    assert got.converged.all()
    assert_allclose(
        (got.mean - want.mean.astype(np.float32)) / np.sqrt(want.var).astype(np.float32), 0, atol=5e-3
    )
    assert_allclose(got.var, want.var, rtol=5e-3)
    assert_allclose(got.log_z, want.log_z, rtol=1e-6, atol=2e-3)


def test_rows_one_after_another_are_the_same(rng, monkeypatch):
    tg = shallow(rng, m=5, n=2, rows=3, dtype=np.float32)
    alone = fused.run(fused.mean_field_row, "bound", tg, STEPS, interpret=True)
    monkeypatch.setattr(fused, "ROWS", 2)
    together = fused.run(fused.mean_field_row, "bound", tg, STEPS, interpret=True)
    assert_allclose(together.mean, alone.mean, rtol=1e-6)
    assert_allclose(together.log_z, alone.log_z, rtol=1e-6)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("n", [1, 10])
def test_kernels_are_in_the_language_of_gpus(kind, n):
    P = LowRank(np.ones(100, np.float32), np.ones((n, 100), np.float32))
    tg = TruncatedGaussian(P, np.zeros((3, 100), np.float32))
    row, numbers, _ = KERNELS[kind]
    traced = jax.jit(lambda tg, *numbers: fused.run(row, kind, tg, *numbers)).trace(tg, *numbers)
    assert "gpu.triton" in traced.lower(lowering_platforms=("cuda",)).as_text()


def test_moments_of_a_unit():
    alpha = np.linspace(-40, 40, 801, dtype=np.float32)
    alpha = np.concatenate([alpha, np.float32([-1e6, -1e3, 1e3, 1e6])])
    mean, var, log_z = standard(jnp.asarray(alpha), jnp.asarray(True))
    want = standard_moments(alpha.astype(np.float64))
    assert_allclose(mean, want[0], rtol=3e-7)
    assert_allclose(var, want[1], rtol=1.5e-6)
    assert_allclose(log_z, truncated_log_z(alpha.astype(np.float64), 1.0), rtol=3e-7, atol=3e-7)


def test_what_the_kernel_takes():
    def made(P):
        return TruncatedGaussian(P, np.zeros((1, P.size), np.float32))

    one = np.ones(4, np.float32)
    assert fused.suits(made(LowRank(one, one[None])))
    assert fused.suits(made(LowRank(one, np.ones((10, 4), np.float32))))
    assert not fused.suits(made(LowRank(one, np.ones((11, 4), np.float32))))
    assert not fused.suits(made(LowRank(np.ones(4), np.ones((1, 4)))))
    assert not fused.suits(made(Diagonal(one)))


@pytest.mark.parametrize("kind", KERNELS)
def test_rows_that_are_no_numbers_have_not_converged(kind):
    P = LowRank(np.full(5, 1e-30, np.float32), np.full((2, 5), 1e15, np.float32))
    tg = TruncatedGaussian(P, np.array([[1e20, -1e20, 1e20, 0, 0]], np.float32))
    row, numbers, _ = KERNELS[kind]
    got = fused.run(row, kind, tg, jnp.int32(5), *numbers[1:], interpret=True)
    assert not (np.isnan(got.log_z) & got.converged).any()


def test_a_precision_of_rank_0_takes_the_general_path():
    tg = TruncatedGaussian(LowRank(np.ones(4, np.float32), np.zeros((0, 4), np.float32)), np.ones((2, 4)))
    assert not fused.suits(tg)
    assert_allclose(mean_field(tg).mean, 1.2876, rtol=1e-4)  # 1 + φ(1) / Φ(1)
