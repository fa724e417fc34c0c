"""Exact predictive distributions against closed forms, quadrature and their own draws."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate
from scipy.special import log_ndtr
from scipy.stats import kstest, norm

from tggm.paper import ExactPredictive


def random_predictive(rng, K=3, N=6, m=5):
    locations, weights, bias = rng.normal(size=(K, N, m)), rng.normal(size=(K, m)), rng.normal(size=K)
    s0, s1 = rng.uniform(0.5, 2, K), rng.uniform(0.05, 0.5, K)
    return ExactPredictive(locations, weights, bias, s0, s1, loc=3.0, scale=2.5)


def one_unit_logpdf(y, a, w, b, s0, s1):
    """Return the closed form of one unit: a Gaussian times a quotient of two Phis."""
    v = s1 + w * w * s0
    posterior = (a + w * s0 * (y - b - w * a) / v) / np.sqrt(s0 * s1 / v)
    return norm.logpdf(y, b + w * a, np.sqrt(v)) + log_ndtr(posterior) - log_ndtr(a / np.sqrt(s0))


@pytest.fixture(scope="module")
def dist():
    return random_predictive(np.random.default_rng(3))


def test_members_are_mixed_in_logs():
    a, w, b = np.array([0.4, -1.0]), np.array([-1.3, 0.8]), np.array([0.2, -0.5])
    d = ExactPredictive(a[:, None, None], w[:, None], b, 0.7, 0.1, loc=-1.0, scale=3.0)
    for y in (-300.0, -40.0, -1.0, 0.1, 250.0):
        parts = [one_unit_logpdf((y + 1) / 3, a[k], w[k], b[k], 0.7, 0.1) for k in range(2)]
        assert_allclose(d.logpdf(y), np.logaddexp(*parts) - np.log(2) - np.log(3), rtol=1e-12)


def test_density_has_its_moments(dist):
    t, weight = np.polynomial.legendre.leggauss(600)
    mean, std = dist.mean(), dist.std()
    y = mean[:, None] + 14 * std[:, None] * t[None, :]
    f = dist.pdf(y) * 14 * std[:, None] * weight[None, :]
    assert_allclose(f.sum(1), 1, rtol=1e-11)
    assert_allclose((f * y).sum(1), mean, rtol=1e-11)
    assert_allclose((f * (y - mean[:, None]) ** 2).sum(1), std**2, rtol=1e-10)


def test_tails_of_many_points_keep_their_digits(dist):
    """Use densities a millionth of the peak, which the series, with errors of 1e-15 of it, cannot compute."""
    y = dist.mean()[:, None] + np.linspace(-9, 9, 37)[None, :] * dist.std()[:, None]
    one_by_one = np.stack([dist.logpdf(column) for column in y.T], 1)
    tail = dist.std()[:, None] * np.exp(one_by_one)
    assert np.any((tail > 1e-11) & (tail < 1e-8))  # where the series would have too few digits
    assert_allclose(dist.logpdf(y), one_by_one, rtol=0, atol=1e-10)


def test_cdf_is_the_integral_of_the_density(dist):
    y = dist.mean() + np.array([-7.0, -2.0, -0.5, 0.0, 1.0, 3.0]) * dist.std()
    for i in range(len(dist)):
        row = dist[i : i + 1]
        edges = np.linspace(-20, 0, 9) * dist.std()[i] + y[i]
        total = sum(
            integrate.fixed_quad(lambda v, row=row: row.pdf(v[None, :])[0], lo, hi, n=40)[0]
            for lo, hi in itertools.pairwise(edges)
        )
        assert_allclose(dist.cdf(y)[i], total, atol=1e-12)
    assert_allclose(np.exp(dist.logcdf(y)), dist.cdf(y), rtol=1e-9)
    assert_allclose(np.exp(dist.logsf(y)), 1 - dist.cdf(y), atol=1e-12)


def test_quantiles_invert_the_cdf(dist):
    q = np.array([[1e-9, 1e-4, 0.03, 0.5, 0.9, 1 - 1e-5]])
    y = dist.ppf(q)
    assert y.shape == (len(dist), 6)
    assert_allclose(dist.cdf(y), np.tile(q, (len(dist), 1)), rtol=1e-8, atol=1e-12)
    assert np.all(np.diff(y, axis=1) > 0)
    assert_allclose(dist.logcdf(dist.ppf(1e-200)), np.log(1e-200), rtol=1e-10)
    assert_allclose(dist.ppf([0.0, 1.0, 0.5, 0.5, 0.5, 0.5])[:2], [-np.inf, np.inf])
    low, high = dist.interval(0.8)
    assert_allclose(dist.cdf(high) - dist.cdf(low), 0.8, atol=1e-10)


def test_crps_is_the_integral_of_squared_differences(dist):
    y = dist.mean() + np.array([-3.0, -1.0, 0.0, 0.3, 2.0, 30.0]) * dist.std()
    t, weight = np.polynomial.legendre.leggauss(200)
    got = dist.crps(y)
    for i in range(len(dist)):
        row, std = dist[i : i + 1], dist.std()[i]
        total = 0.0
        for lo, hi, step in (
            (min(y[i], dist.mean()[i]) - 12 * std, y[i], 0.0),
            (y[i], max(y[i], dist.mean()[i]) + 12 * std, 1.0),
        ):
            v = lo + 0.5 * (hi - lo) * (t + 1)
            total += 0.5 * (hi - lo) * (weight * (row.cdf(v[None, :])[0] - step) ** 2).sum()
        assert_allclose(got[i], total, rtol=1e-7)
    far = dist.mean() + 1e6 * dist.std()
    assert np.all(dist.crps(far) < 1e6 * dist.std())


def test_draws_follow_the_distribution():
    # the probability integral transform of draws of the true model is uniform, 2,500 rows
    rng = np.random.default_rng(5)
    d = random_predictive(rng, K=2, N=2_500, m=4)
    y = d.rvs(random_state=11)
    assert kstest(d.cdf(y), "uniform").pvalue > 0.01
    many = d[:2].rvs(10_000, random_state=1)
    assert many.shape == (10_000, 2)
    assert np.all(np.abs(many.mean(0) - d[:2].mean()) < 4.5 * d[:2].std() / 100)


def test_tiny_noise_gives_finite_values():
    rng = np.random.default_rng(2)
    d = ExactPredictive(rng.normal(size=(1, 2, 3)), rng.normal(size=(1, 3)), 0.0, 1.0, 1e-10)
    q = np.linspace(0.01, 0.99, 9)[None, :]
    y = d.ppf(q)
    assert_allclose(d.cdf(y), np.tile(q, (2, 1)), atol=1e-8)
    empirical = (d.rvs(20_000, random_state=0)[:, :, None] <= y[None]).mean(0)
    assert_allclose(empirical, np.tile(q, (2, 1)), atol=4.5 * 0.5 / np.sqrt(20_000))


def test_errors_name_the_argument():
    locations, weights = np.zeros((1, 2, 3)), np.zeros((1, 3))
    with pytest.raises(ValueError, match=r"got \(1, 2, 3\) and \(1, 2\)"):
        ExactPredictive(locations, weights[:, :2], 0, 1, 1)
    with pytest.raises(ValueError, match="`s1` is a variance"):
        ExactPredictive(locations, weights, 0, 1, -1)
