"""The exact predictive distribution of units with two limits, against a grid over the units."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from tggm.predictive.exact import Predictive

K, N = 2, 3
RNG = np.random.default_rng(0)
ALPHA, W, BIAS = 4 * RNG.standard_normal((K, N, 2)), RNG.standard_normal((K, 2)), np.array([0.3, -0.2])
NOISE, LIMITS = np.array([0.3, 0.05]), np.array([[-4.0, 0.0], [4.0, 2.5]])
Y = np.linspace(-15, 15, 9)


@pytest.fixture(scope="module")
def law():
    return Predictive(ALPHA, W, BIAS, 1.0, NOISE, limits=LIMITS)


def by_grid(function):
    """Log of the average of a function of the residual y − signal over both units and members; (N, 9)."""
    x, weights = np.polynomial.legendre.leggauss(300)
    found = np.empty((K, N, len(Y)))
    for k, n in np.ndindex(K, N):
        h = LIMITS[0, k] + (x + 1) * (LIMITS[1, k] - LIMITS[0, k]) / 2
        log_p = np.log(weights)[:, None] - 0.5 * (h[:, None] - ALPHA[k, n]) ** 2
        log_p -= logsumexp(log_p, 0)
        signal = BIAS[k] + W[k, 0] * h[:, None] + W[k, 1] * h[None, :]
        log_w = log_p[:, 0][:, None] + log_p[:, 1][None, :]
        found[k, n] = [logsumexp(log_w + function((y - signal) / np.sqrt(NOISE[k]), k)) for y in Y]
    return logsumexp(found, axis=0) - np.log(K)


def test_log_density_far_into_the_tails(law):
    want = by_grid(lambda z, k: norm.logpdf(z) - 0.5 * np.log(NOISE[k]))
    assert want.min() < -40
    np.testing.assert_allclose(law.logpdf(np.tile(Y, (N, 1))), want, rtol=0, atol=1e-9)


@pytest.mark.slow  # tails with one limit: test_exact.py
def test_tails(law):
    y = np.tile(Y, (N, 1))
    np.testing.assert_allclose(law.logcdf(y), by_grid(lambda z, k: norm.logcdf(z)), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(law.logsf(y), by_grid(lambda z, k: norm.logsf(z)), rtol=1e-8, atol=1e-9)


@pytest.mark.slow  # draws of units with one limit: test_exact.py
def test_draws_have_the_moments(law):
    draws = law.rvs(400, random_state=0)
    error = law.std() / np.sqrt(400)
    assert np.all(np.abs(draws.mean(0) - law.mean()) < 5 * error)
    assert np.all(np.abs(law[1:].mean() - law.mean()[1:]) < 1e-12)
