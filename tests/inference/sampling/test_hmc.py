import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, truncnorm

from tests.cases import few
from tests.inference.grid_witness import grid_moments, random_precision
from tests.inference.sampling.checks import assert_draws_match, assert_geweke
from tggm.gaussian import TruncatedGaussian
from tggm.inference.sampling.hmc import hmc
from tggm.precision import Dense, Diagonal

N_CHAINS = 1000


ALL = pytest.param((True, True, True), marks=pytest.mark.slow)


@pytest.mark.parametrize("truncated", [ALL, (True, False, True)])
def test_moments_match_a_grid(rng, truncated):
    P, shift = random_precision(rng, 3), rng.normal(0, 2, (3, 3))
    tg = TruncatedGaussian(Dense(P), shift, np.array(truncated))
    result = hmc(tg, jax.random.key(1), 10 * N_CHAINS, n_chains=N_CHAINS)
    draws = np.asarray(result.draws)
    for i in range(3):
        _, mean, var = grid_moments(P, shift[i], truncated)
        assert_draws_match(draws[:, i].reshape(10, N_CHAINS, 3), mean, var)
    assert_allclose(result.mean, draws.mean(0), rtol=1e-10)
    assert_allclose(result.var, draws.var(0), rtol=1e-8)
    assert (draws[..., np.array(truncated)] >= 0).all()
    assert bool(result.converged.all())
    assert result.kind == "sample"
    assert result.log_z is None


def test_moments_under_strong_correlation():
    rho = 0.98
    P = np.linalg.inv([[1.0, rho], [rho, 1.0]])
    gamma = P @ np.array([0.5, -0.3])
    result = hmc(TruncatedGaussian(Dense(P), gamma), jax.random.key(4), 5 * N_CHAINS, n_chains=N_CHAINS)
    _, mean, var = grid_moments(P, gamma, n_nodes=400)
    assert_draws_match(np.asarray(result.draws).reshape(5, N_CHAINS, 2), mean, var)


@pytest.mark.parametrize("alpha", [-5.0, -1.0, 3.0])
@pytest.mark.parametrize("dtype", few(["float32", "float64"], "float32"))
def test_one_variable_has_the_distribution_of_a_truncated_normal(alpha, dtype):
    dtype = np.dtype(dtype)
    tg = TruncatedGaussian(Diagonal(np.full(1, 4.0, dtype)), np.full(1, 2 * alpha, dtype))
    result = hmc(tg, jax.random.key(3), 10_000, n_chains=10_000, burn_in=10)
    assert result.draws.dtype == dtype
    draws = np.asarray(result.draws[:, 0], float)
    assert kstest(draws, truncnorm(-alpha, np.inf, loc=alpha / 2, scale=0.5).cdf).pvalue > 1e-3


def test_free_variables_are_drawn_independently():
    P, gamma = np.array([[2.0, 0.7], [0.7, 1.0]]), np.array([0.4, -1.0])
    tg = TruncatedGaussian(Dense(P), gamma, np.zeros(2, bool))
    draws = np.asarray(hmc(tg, jax.random.key(6), 20_000, n_chains=10_000, burn_in=0).draws)
    before, after = draws.reshape(2, 10_000, 2)
    covariance = np.linalg.inv(P)
    # 10 000 draws: correlations err by 1 %
    assert_allclose(np.corrcoef(before.T, after.T)[:2, 2:], 0, atol=0.045)
    assert_allclose(np.cov(draws.T), covariance, atol=0.05 * covariance.max())


def test_geweke_joint_distribution():
    def kernel(tg, key, h):
        return hmc(tg, key, 1, n_chains=1, burn_in=0, init=h).draws[0]

    assert_geweke(kernel)


def test_rejecting_long_trajectories_keeps_the_distribution():
    def kernel(tg, key, h):
        return hmc(tg, key, 1, n_chains=1, burn_in=0, max_bounces=1, init=h).draws[0]

    assert_geweke(kernel)


def test_shapes_and_reproducibility(rng):
    tg = TruncatedGaussian(Dense(random_precision(rng, 4)), rng.standard_normal((2, 3, 4)))
    result = hmc(tg, jax.random.key(5), 7, n_chains=2, burn_in=3)
    assert result.draws.shape == (7, 2, 3, 4)
    assert result.mean.shape == result.var.shape == (2, 3, 4)
    assert_array_equal(result.n_iter, np.full((2, 3), 3 + 4))
    assert_array_equal(hmc(tg, jax.random.key(5), 7, n_chains=2, burn_in=3).draws, result.draws)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"travel_time": 4.0}, r"`travel_time` must be in \(0, pi\]; got 4.0"),
        ({"max_bounces": 0}, "`max_bounces` must be at least 1; got 0"),
        ({"burn_in": -1}, "`burn_in` must be at least 0; got -1"),
    ],
)
def test_bad_arguments(arguments, message):
    tg = TruncatedGaussian(Diagonal(jnp.ones(2)), jnp.ones(2))
    with pytest.raises(ValueError, match=message):
        hmc(tg, jax.random.key(0), 4, **arguments)
