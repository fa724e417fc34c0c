"""Both samplers against grids, univariate distributions and Geweke's joint test."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, truncnorm

from tests.cases import few
from tests.inference.references import grid_moments, random_precision
from tggm.gaussian import TruncatedGaussian
from tggm.inference import gibbs, hmc
from tggm.precision import Dense, Diagonal

N_CHAINS = 1000
SAMPLERS = {"gibbs": gibbs, "hmc": hmc}
ALL = pytest.param((True, True, True), marks=pytest.mark.slow)


def assert_draws_match(draws, mean, var, limit=4.5):
    """Compare moments of draws (steps, chains, m) with their true values, in standard errors over the chains.

    Chains are independent, so the standard error of an average is the spread of the chains' averages divided
    by the square root of their number, for any correlation within chains.
    """
    draws = np.asarray(draws, float)
    for statistic, truth in ((draws, mean), ((draws - mean) ** 2, var)):
        per_chain = statistic.mean(0)
        error = per_chain.std(0, ddof=1) / np.sqrt(per_chain.shape[0])
        z = (per_chain.mean(0) - truth) / error
        assert np.abs(z).max() < limit, z


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("truncated", [ALL, (True, False, True)])
def test_moments_match_a_grid(rng, name, truncated):
    P, shift = random_precision(rng, 3), rng.normal(0, 2, (3, 3))
    tg = TruncatedGaussian(Dense(P), shift, np.array(truncated))
    result = SAMPLERS[name](tg, jax.random.key(1), 10 * N_CHAINS, n_chains=N_CHAINS, burn_in=30)
    for i in range(3):
        _, mean, var = grid_moments(P, shift[i], truncated)
        assert_draws_match(result.draws[:, i].reshape(10, N_CHAINS, 3), mean, var)
        assert_allclose(result.mean[i], mean, atol=5 * np.sqrt(var.max() / N_CHAINS))
        assert_allclose(result.var[i], var, rtol=5 * 2 / np.sqrt(N_CHAINS))
    assert bool((result.draws[..., np.array(truncated)] >= 0).all())
    assert bool(result.converged.all())
    assert result.kind == "sample"
    assert result.log_z is None


def test_hmc_moments_under_strong_correlation():
    rho = 0.98
    P = np.linalg.inv([[1.0, rho], [rho, 1.0]])
    gamma = P @ np.array([0.5, -0.3])
    result = hmc(TruncatedGaussian(Dense(P), gamma), jax.random.key(4), 5 * N_CHAINS, n_chains=N_CHAINS)
    _, mean, var = grid_moments(P, gamma, n_nodes=400)
    assert_draws_match(np.asarray(result.draws).reshape(5, N_CHAINS, 2), mean, var)


def test_gibbs_with_means_far_below_the_limit():
    mean = np.array([-5.0, -40.0, -1e5])
    tg = TruncatedGaussian(Diagonal(np.ones(3)), mean)
    result = gibbs(tg, jax.random.key(2), 20_000, n_chains=10_000, burn_in=0)
    mp.mp.dps = 50
    want = np.array([mp.mpf(a) + mp.npdf(a) / (mp.erfc(-a / mp.sqrt(2)) / 2) for a in mean], float)
    assert_allclose(result.mean, want, rtol=1e-10)  # conditional means are exact for independent variables
    assert_allclose(result.draws.mean(0), want, rtol=0.035)  # five standard errors


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("alpha", [-5.0, -1.0, 3.0])
@pytest.mark.parametrize("dtype", few(["float32", "float64"], "float32"))
def test_one_variable_has_the_distribution_of_a_truncated_normal(name, alpha, dtype):
    dtype = np.dtype(dtype)
    tg = TruncatedGaussian(Diagonal(np.full(1, 4.0, dtype)), np.full(1, 2 * alpha, dtype))
    result = SAMPLERS[name](tg, jax.random.key(3), 10_000, n_chains=10_000, burn_in=10)
    assert result.draws.dtype == dtype
    draws = np.asarray(result.draws[:, 0], float)
    assert kstest(draws, truncnorm(-alpha, np.inf, loc=alpha / 2, scale=0.5).cdf).pvalue > 1e-3


def test_hmc_draws_free_variables_independently():
    P, gamma = np.array([[2.0, 0.7], [0.7, 1.0]]), np.array([0.4, -1.0])
    tg = TruncatedGaussian(Dense(P), gamma, np.zeros(2, bool))
    draws = np.asarray(hmc(tg, jax.random.key(6), 20_000, n_chains=10_000, burn_in=0).draws)
    before, after = draws.reshape(2, 10_000, 2)
    covariance = np.linalg.inv(P)
    assert_allclose(np.corrcoef(before.T, after.T)[:2, 2:], 0, atol=0.045)
    assert_allclose(np.cov(draws.T), covariance, atol=0.05 * covariance.max())


@pytest.mark.parametrize(
    ("name", "options"), [("gibbs", {}), ("hmc", {}), ("hmc", {"max_bounces": 1})], ids=str
)
def test_geweke_joint_distribution(name, options):
    """Compare successive-conditional with marginal-conditional simulation (Geweke, 2004).

    The joint is p(h, y) = N_T(h | mu, P⁻¹) N(y | h, I). Walkers start with h drawn from the prior by
    rejection and alternate y | h with one step of the sampler for h | y, whose precision is P + I and shift γ
    + y. If the sampler leaves p(h | y) invariant, also with rejected long trajectories, h keeps its prior
    distribution.
    """
    rng, n_walkers, n_rounds = np.random.default_rng(7), 20_000, 8
    P = np.array([[1.5, 0.9], [0.9, 1.2]])
    mu = np.array([0.3, -0.2])
    root = np.linalg.cholesky(np.linalg.inv(P))

    def prior(n):
        h = mu + rng.standard_normal((12 * n, 2)) @ root.T
        h = h[(h >= 0).all(1)]
        assert len(h) >= n
        return h[:n]

    posterior, gamma = Dense(P + np.eye(2)), P @ mu
    h = jnp.asarray(prior(n_walkers))
    for key in jax.random.split(jax.random.key(11), n_rounds):
        tg = TruncatedGaussian(posterior, gamma + np.asarray(h) + rng.standard_normal(h.shape))
        h = SAMPLERS[name](tg, key, 1, n_chains=1, burn_in=0, init=h, **options).draws[0]

    def statistics(h):
        h = np.asarray(h)
        return np.column_stack([h, h**2, h.prod(1), np.exp(-h), (h < 0.2), (h > 1.0)])

    ours, theirs = statistics(h), statistics(prior(n_walkers))
    error = np.sqrt((ours.var(0) + theirs.var(0)) / n_walkers)
    z = (ours.mean(0) - theirs.mean(0)) / error
    assert np.abs(z).max() < 4.5, z


@pytest.mark.parametrize("name", SAMPLERS)
def test_shapes_thinning_and_reproducibility(rng, name):
    sample = SAMPLERS[name]
    tg = TruncatedGaussian(Dense(random_precision(rng, 4)), rng.standard_normal((2, 3, 4)))
    key = jax.random.key(5)
    every = sample(tg, key, 7, n_chains=2, burn_in=3)
    assert every.draws.shape == (7, 2, 3, 4)
    assert every.mean.shape == every.var.shape == (2, 3, 4)
    assert_array_equal(every.n_iter, np.full((2, 3), 3 + 4))
    assert_array_equal(sample(tg, key, 7, n_chains=2, burn_in=3).draws, every.draws)
    other = sample(tg, key, 7, n_chains=2, burn_in=3, thin=2)
    assert_array_equal(other.n_iter, np.full((2, 3), 3 + 8))
    # with two chains the first draw after two steps is the second after one
    assert_allclose(other.draws[:2], every.draws[2:4], rtol=1e-12)


def test_chains_that_disagree_or_do_not_move_have_not_converged():
    P = np.linalg.inv([[1, 0.9999], [0.9999, 1]])  # a nearly singular pair mixes slowly
    tg, start = TruncatedGaussian(Dense(P), np.zeros((1, 2))), np.array([[[0.0, 0.0]], [[30.0, 30.0]]])
    assert not gibbs(tg, jax.random.key(0), 20, n_chains=2, burn_in=0, init=start).converged.any()
    stuck = TruncatedGaussian(Diagonal(np.ones(1)), np.zeros(1), np.full(1, 3.0), np.full(1, 3 + 1e-9))
    result = hmc(stuck, jax.random.key(0), 1000)  # too many reflections
    assert not (result.converged | np.isfinite(result.mean_error)).any()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("gibbs", {"n": 0}, "`n` must be an integer of at least 1; got 0"),
        ("gibbs", {"n_chains": 0}, "`n_chains` must be an integer of at least 1; got 0"),
        ("hmc", {"burn_in": -1}, "`burn_in` must be an integer of at least 0; got -1"),
        ("hmc", {"max_bounces": 0}, "`max_bounces` must be an integer of at least 1; got 0"),
        ("gibbs", {"init": np.ones((2, 2))}, r"`init` must have the shape of the shift.*got shape \(2, 2\)"),
    ],
)
def test_bad_arguments(name, arguments, message):
    tg = TruncatedGaussian(Diagonal(jnp.ones(2)), jnp.ones((3, 2)))
    with pytest.raises(ValueError, match=message):
        SAMPLERS[name](tg, jax.random.key(0), **({"n": 4} | arguments))
