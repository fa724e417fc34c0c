import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, truncnorm

from tests.cases import few
from tests.inference.grid_witness import grid_moments, random_precision
from tests.inference.sampling.checks import assert_draws_match, assert_geweke
from tggm.gaussian import TruncatedGaussian
from tggm.inference.sampling.gibbs import gibbs
from tggm.precision import Dense, Diagonal

N_CHAINS = 1000


ALL = pytest.param((True, True, True), marks=pytest.mark.slow)


@pytest.mark.parametrize("truncated", [ALL, (True, False, True)])
def test_moments_match_a_grid(rng, truncated):
    P, shift = random_precision(rng, 3), rng.normal(0, 2, (3, 3))
    tg = TruncatedGaussian(Dense(P), shift, np.array(truncated))
    result = gibbs(tg, jax.random.key(1), 10 * N_CHAINS, n_chains=N_CHAINS, burn_in=30)
    for i in range(3):
        _, mean, var = grid_moments(P, shift[i], truncated)
        assert_draws_match(result.draws[:, i].reshape(10, N_CHAINS, 3), mean, var)
        # integrating a variable out given the others only lowers the error: the draws' own bounds hold
        assert_allclose(result.mean[i], mean, atol=5 * np.sqrt(var.max() / N_CHAINS))
        assert_allclose(result.var[i], var, rtol=5 * 2 / np.sqrt(N_CHAINS))
    assert bool((result.draws[..., np.array(truncated)] >= 0).all())
    assert bool(result.converged.all())
    assert result.kind == "sample"
    assert result.log_z is None


def test_far_behind_the_wall():
    mean = np.array([-5.0, -40.0, -1e5])
    tg = TruncatedGaussian(Diagonal(np.ones(3)), mean)
    result = gibbs(tg, jax.random.key(2), 20_000, n_chains=10_000, burn_in=0)
    mp.mp.dps = 50
    want = [mp.mpf(a) + mp.npdf(a) / (mp.erfc(-a / mp.sqrt(2)) / 2) for a in mean]
    assert_allclose(
        result.mean, np.array(want, float), rtol=1e-10
    )  # exact given the others, of which there are none
    # standard deviation near the mean: 20 000 draws err by 0.7 %
    assert_allclose(result.draws.mean(0), np.array(want, float), rtol=0.035)


@pytest.mark.parametrize("alpha", [-6.0, -1.0, 3.0])
@pytest.mark.parametrize("dtype", few(["float32", "float64"], "float32"))
def test_one_variable_has_the_distribution_of_a_truncated_normal(alpha, dtype):
    dtype = np.dtype(dtype)
    tg = TruncatedGaussian(Diagonal(np.full(1, 4.0, dtype)), np.full(1, 2 * alpha, dtype))
    result = gibbs(tg, jax.random.key(3), 20_000, n_chains=20_000, burn_in=0)
    assert result.draws.dtype == dtype
    draws = np.asarray(result.draws[:, 0], float)
    assert kstest(draws, truncnorm(-alpha, np.inf, loc=alpha / 2, scale=0.5).cdf).pvalue > 1e-3


def test_geweke_joint_distribution():
    def kernel(tg, key, h):
        return gibbs(tg, key, 1, n_chains=1, burn_in=0, init=h).draws[0]

    assert_geweke(kernel)


def test_shapes_thinning_and_reproducibility(rng):
    tg = TruncatedGaussian(Dense(random_precision(rng, 4)), rng.standard_normal((2, 3, 4)))
    key = jax.random.key(5)
    every = gibbs(tg, key, 7, n_chains=2, burn_in=3)
    assert every.draws.shape == (7, 2, 3, 4)
    assert every.mean.shape == every.var.shape == (2, 3, 4)
    assert_array_equal(every.n_iter, np.full((2, 3), 3 + 4))
    assert_array_equal(gibbs(tg, key, 7, n_chains=2, burn_in=3).draws, every.draws)
    other = gibbs(tg, key, 7, n_chains=2, burn_in=3, thin=2)
    assert_array_equal(other.n_iter, np.full((2, 3), 3 + 8))
    # two chains, draws of both side by side: the first kept draw after two sweeps is the second after one
    assert_allclose(other.draws[:2], every.draws[2:4], rtol=1e-12)


def test_chains_that_disagree_have_not_converged():
    rho = 0.9999  # the chains of a nearly singular pair creep
    P = np.linalg.inv([[1.0, rho], [rho, 1.0]])
    start = np.array([[0.0, 0.0], [30.0, 30.0]])[:, None, :]
    result = gibbs(
        TruncatedGaussian(Dense(P), np.zeros((1, 2))),
        jax.random.key(0),
        20,
        n_chains=2,
        burn_in=0,
        init=start,
    )
    assert not bool(result.converged.any())


@pytest.mark.parametrize("name", ["n", "n_chains", "thin"])
def test_counts_must_be_positive(name):
    arguments = {"n": 2, "n_chains": 2, "thin": 1} | {name: 0}
    n = arguments.pop("n")
    with pytest.raises(ValueError, match=f"`{name}` must be at least 1; got 0"):
        gibbs(TruncatedGaussian(Diagonal(jnp.ones(2)), jnp.ones(2)), jax.random.key(0), n, **arguments)


def test_bad_start():
    tg = TruncatedGaussian(Diagonal(jnp.ones(2)), jnp.ones((3, 2)))
    with pytest.raises(ValueError, match=r"`init` must have the shape of the shift.*got shape \(2, 2\)"):
        gibbs(tg, jax.random.key(0), 4, init=jnp.ones((2, 2)))
    with pytest.raises(ValueError, match="`init` must be nonnegative where truncated; smallest is -1"):
        gibbs(tg, jax.random.key(0), 4, init=-jnp.ones((3, 2)))
