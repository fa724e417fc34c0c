import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from tests.inference.problems import deep, shallow
from tests.tolerances import SOLVER
from tggm.gaussian import TruncatedGaussian
from tggm.inference import exact, mean_field


def stationarity(tg, moments):
    """Drift |θ − γ + P̃m| of every variable, from the means alone and formulas of our own here."""
    P = np.asarray(tg.precision.dense())
    p = np.diag(P)
    target = (np.asarray(tg.shift) - np.asarray(moments.mean) @ (P - np.diag(p))) / np.sqrt(
        p
    )  # α it should have
    t = np.maximum(-target, 1)  # used below -5 only
    # mean of N(α, 1) truncated: α + φ/Φ; its far tail by the continued fraction 1/(t + 2/(t + 3/(t + ...)))
    tail = np.zeros_like(t)
    for k in range(60, 1, -1):
        tail = k / (t + tail)
    left = 1 / (t + tail)
    right = target + np.exp(norm.logpdf(target) - norm.logcdf(target))
    g = np.where(target < -5, left, right)
    # in units of the residual: a mean that is off by δ means θ is off by δ / v, v <= 1/p
    return np.abs(g - np.asarray(moments.mean) * np.sqrt(p)) / np.maximum(np.asarray(moments.var) * p, 1e-300)


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(
    ("n", "m"), [(1, 50), *(pytest.param(n, 10 * n, marks=pytest.mark.slow) for n in (10, 20))]
)
def test_newton_is_stationary_from_a_cold_start(scale, n, m, rng):
    tg = shallow(rng, m=m, n=n, scale=scale)
    got = mean_field(tg)
    assert got.converged.all()
    drift = stationarity(tg, got)
    assert drift.max() <= 1e-9 * max(1.0, float(jnp.abs(tg.shift).max()))


@pytest.mark.parametrize("m", [100, pytest.param(200, marks=pytest.mark.slow)])
def test_newton_is_stationary_for_layers(m, rng):
    tg = deep(rng, m=m)
    got = mean_field(tg)
    assert got.converged.all()
    assert stationarity(tg, got).max() <= 1e-9


def test_float32_converges(rng):
    got = mean_field(shallow(rng, m=50, dtype=np.float32))
    want = mean_field(shallow(np.random.default_rng(20160619), m=50))
    assert got.converged.all()
    assert_allclose(got.mean, want.mean, atol=50 * SOLVER[np.dtype("float32")])


def test_cycles_end_where_newton_does(rng):
    tg = shallow(rng, m=50, scale=0.5)
    newton, few, many = mean_field(tg), mean_field(tg, solver="cyclic", n_cycles=3), None
    many = mean_field(tg, solver="cyclic", n_cycles=500)
    assert_allclose(many.mean, newton.mean, atol=1e-7)
    assert_allclose(many.log_z, newton.log_z, atol=1e-9)
    assert np.all(few.log_z <= newton.log_z + 1e-9)  # any q gives a bound, the optimum the best
    assert many.converged.all()


def test_cycles_of_any_structure_agree(rng):
    tg = shallow(rng, m=50, scale=0.5)
    same = TruncatedGaussian(tg.precision.dense(), tg.shift)
    a, b = (mean_field(t, solver="cyclic", n_cycles=7) for t in (tg, same))
    assert_allclose(a.mean, b.mean, rtol=1e-9)
    assert_allclose(mean_field(tg).mean, mean_field(same).mean, rtol=1e-7)


@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_it_is_a_bound(noise, rng):
    tg = shallow(rng, m=50, noise=noise)
    assert np.all(mean_field(tg).log_z <= exact(tg).log_z + 1e-8)


def test_a_good_start_saves_iterations(rng):
    tg = deep(rng, m=100)
    cold = mean_field(tg)
    warm = mean_field(tg, start=cold.mean)
    assert warm.n_iter.max() < cold.n_iter.max()
    assert_allclose(warm.mean, cold.mean, atol=1e-9)


def test_a_strongly_coupled_unit_is_not_thrown_out(rng):
    # one hundred units for outputs with very little noise, from a cold start
    tg = shallow(rng, m=100, n=5, scale=3.0, noise=0.05)
    got = mean_field(tg)
    assert stationarity(tg, got).max() <= 1e-9 * max(1.0, float(np.abs(tg.shift).max()))
    assert got.converged.all()
    assert np.isfinite(got.log_z).all()


def test_bad_arguments_and_failure_are_told(rng):
    tg = shallow(rng, m=50, scale=3.0)
    with pytest.raises(ValueError, match="`solver` must be one of"):
        mean_field(tg, solver="gauss")
    with pytest.raises(ValueError, match="`n_cycles` must be at least 1; got 0"):
        mean_field(tg, solver="cyclic", n_cycles=0)
    with pytest.warns(RuntimeWarning, match="raise `max_iter`"):
        assert not mean_field(tg, max_iter=1).converged.all()
