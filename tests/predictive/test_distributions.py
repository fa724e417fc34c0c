"""Density, distribution function, quantiles, moments, scores and draws of every distribution agree."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest
from scipy.stats import t as student_t

from tggm.predictive import GaussianMixture, LognormalMixture, MultivariateGaussianMixture
from tggm.predictive.calibration import Calibration, pooled
from tggm.predictive.neighbors import add_kernels

LOC, SCALE = 2.0, 3.0
MEMBERS = GaussianMixture(
    [[0.0, 1.0], [0.8, -1.0], [-0.5, 0.2]], [[1.0, 0.3], [0.25, 2.0], [0.5, 0.5]], loc=LOC, scale=SCALE
)
LOGS = GaussianMixture([[0.0, 1.0], [0.6, 0.2]], [[0.3, 0.1], [0.2, 0.5]], loc=0.5, scale=1.5)
WEIGHT, SHARE = np.array([[0.2, 0.7], [0.8, 0.3]]), np.array([0.9, 0.3])
KERNELS = GaussianMixture(
    [[0.5, 2.0], [-1.0, 2.2]], [[0.02, 0.03], [0.02, 0.03]], weight=WEIGHT, loc=LOC, scale=SCALE
)
CASES = {
    "mixture": MEMBERS,
    "student": pooled(Calibration("student", (0.7, 0.5, 0.25)), MEMBERS),
    "scales": pooled(Calibration("scales", (0.7, 0.5, 0.25, 1.0)), MEMBERS),
    "gaussian": pooled(Calibration("student", (0.7, 2.0, 0.0)), MEMBERS),
    "shaped": pooled(Calibration("shaped", (0.7, 0.5, 0.25, *np.linspace(-1, 1, 17))), MEMBERS),
    "light shaped": pooled(Calibration("shaped", (0.7, 2.0, 1e-3, *np.sin(np.arange(17)))), MEMBERS),
    "lognormal": LognormalMixture(LOGS),
    "kernels": add_kernels(pooled(Calibration("student", (0.7, 0.5, 0.25)), MEMBERS), KERNELS, SHARE),
    "shaped and kernels": add_kernels(
        pooled(Calibration("shaped", (0.7, 0.5, 0.25, *np.linspace(-1, 1, 17))), MEMBERS), KERNELS, SHARE
    ),
    "gaussian and kernels": add_kernels(
        pooled(Calibration("student", (0.7, 2.0, 0.0)), MEMBERS), KERNELS, SHARE
    ),
    "shifted lognormal": LognormalMixture(LOGS, loc=-1.3),
    "one lognormal": LognormalMixture(GaussianMixture([[0.3, -1.0]], [[0.25, 1.0]])),
}


def test_a_distribution_is_printed_as_one_line():
    one = GaussianMixture([[3.0, 5.0]], [[4.0, 4.0]])
    assert repr(one) == "GaussianMixture, rows: 2, average mean ± standard deviation: 4 ± 2"
    four = MultivariateGaussianMixture(np.arange(4.0)[None, None], np.eye(4)[None, None])
    assert repr(four).endswith("rows: 1, average mean ± standard deviation: 0 ± 1, 1 ± 1, 2 ± 1, ...")
    assert repr(one[np.zeros(0, int)]) == "GaussianMixture, rows: 0"


@pytest.fixture(params=CASES, ids=str)
def pool(request):
    return CASES[request.param]


def grid_of(pool, n=100_001):
    """Return points of each row, evenly spaced in the inverse hyperbolic sine, between far quantiles."""
    t = np.linspace(-11, 11, n)
    middle, spread = pool.ppf(0.5)[:, None], (pool.ppf(0.7) - pool.ppf(0.3))[:, None]
    return np.clip(middle + spread * np.sinh(t), pool.ppf(1e-18)[:, None], pool.ppf(1 - 1e-16)[:, None])


def test_density_is_the_derivative_of_a_cdf_from_0_to_1(pool):
    y = grid_of(pool)
    F, f = pool.cdf(y), pool.pdf(y)
    assert np.all(np.diff(F, axis=1) >= -1e-15)
    assert_allclose(F[:, 0], 0, atol=1e-6)
    assert_allclose(F[:, -1], 1, atol=1e-6)
    assert_allclose(np.trapezoid(f, y, axis=1), 1, rtol=1e-6)
    inner = pool.ppf(np.linspace(0.01, 0.99, 25)[None])
    h = 1e-5 * (pool.ppf(0.7) - pool.ppf(0.3))[:, None]
    assert_allclose((pool.cdf(inner + h) - pool.cdf(inner - h)) / (2 * h), pool.pdf(inner), rtol=1e-6)
    assert_allclose(pool.logpdf(inner), np.log(pool.pdf(inner)), rtol=1e-9, atol=1e-9)


def test_moments_and_scores_against_a_grid(pool):
    y = grid_of(pool)
    f, F = pool.pdf(y), pool.cdf(y)
    mean = np.trapezoid(y * f, y, axis=1)
    assert_allclose(pool.mean(), mean, rtol=1e-6)
    # a Student of four degrees of freedom has 1e-5 of its variance beyond the grid
    assert_allclose(pool.var(), np.trapezoid((y - mean[:, None]) ** 2 * f, y, axis=1), rtol=1e-4)
    apart = np.trapezoid(F * (1 - F), y, axis=1)
    for q in (0.001, 0.3, 0.9):
        at = pool.ppf(q)
        to_y = np.trapezoid(np.abs(y - at[:, None]) * f, y, axis=1)
        assert_allclose(pool.crps(at), to_y - apart, rtol=1e-5)


def test_quantiles_invert_the_cdf(pool):
    q = np.array([[1e-12, 1e-7, 0.01, 0.3, 0.5, 0.9, 1 - 1e-7, 1 - 1e-12]])
    y = pool.ppf(q)
    assert np.all(np.diff(y, axis=1) > 0)
    assert_allclose(pool.cdf(y), np.tile(q, (2, 1)), rtol=1e-9)
    assert_allclose(np.exp(pool.logsf(y))[:, -2:], np.tile(1 - q[:, -2:], (2, 1)), rtol=1e-9)
    assert_allclose(pool.ppf(pool.cdf(y[:, 2:6])), y[:, 2:6], rtol=1e-10)


def test_log_densities_are_finite_far_out(pool):
    far = np.array([[-1e300, -1e100, -1e6, 1e6, 1e100, 1e300]])
    assert np.all(np.isfinite(pool.logpdf(far)))
    assert np.all(pool.logpdf(far) < 0)
    assert np.all(np.isfinite(pool.crps(np.array([[-1e10, 0.0, 1e10]]))))
    near = np.concatenate([-np.geomspace(1e8, 50, 40), np.geomspace(50, 1e8, 40)])[None]
    assert np.all(np.diff(pool.logcdf(near), axis=1) >= -1e-15)  # rounding near 0
    assert np.all(np.diff(pool.logsf(near), axis=1) <= 1e-15)


def test_draws_follow_the_distribution(pool):
    draws = pool.rvs(3000, random_state=1)
    assert draws.shape == (3000, 2)
    for row in pool.cdf(draws.T):
        assert kstest(row, "uniform").pvalue > 1e-3
    assert pool.rvs(random_state=0).shape == (2,)


def test_rows_can_be_selected(pool):
    y = np.array([1.0, -4.0])
    assert len(pool[1:]) == 1
    assert_allclose(pool[1:].logpdf(y[1:]), pool.logpdf(y)[1:])
    assert_allclose(pool[np.array([1, 0])].crps(y[::-1]), pool.crps(y)[::-1])


def test_student_pool_against_scipy():
    f, g, nu = 0.7, 1.9, 3.3
    pool = pooled(Calibration("student", (f, g, 1 / nu)), MEMBERS)
    mean, std, _ = MEMBERS.components
    width = np.sqrt(f**2 * (std**2).mean(0) + g**2 * mean.var(0, ddof=1))
    want = student_t(nu, LOC + SCALE * mean.mean(0), SCALE * width)
    y = np.array([5.0, -300.0])
    assert_allclose(pool.logpdf(y), want.logpdf(y), rtol=1e-12)
    assert_allclose(pool.logcdf(y), want.logcdf(y), rtol=1e-10)
    assert_allclose(pool.interval(0.9), want.interval(0.9), rtol=1e-10)
    assert_allclose(pool.std(), want.std(), rtol=1e-12)
    assert pooled(Calibration(), MEMBERS) is MEMBERS
