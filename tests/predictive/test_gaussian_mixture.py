"""Mixtures of Gaussians and lognormals against scipy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import lognorm, norm

from tggm.predictive import GaussianMixture, LognormalMixture, StudentPredictive
from tggm.predictive.gaussian_mixture import LogTransform, checked_transform


@pytest.fixture
def one():
    return GaussianMixture(np.array([[0.5, -1.0]]), np.array([[4.0, 0.25]]), loc=1.0, scale=2.0)


@pytest.fixture
def mixture():
    return GaussianMixture([[0.0, 1.0], [3.0, -1.0]], [[1.0, 0.04], [0.25, 9.0]])


def test_one_member_is_a_gaussian(one):
    want = norm([2.0, -1.0], [4.0, 1.0])
    y = np.array([5.0, -40.0])
    assert_allclose(one.mean(), want.mean())
    assert_allclose(one.std(), want.std())
    assert_allclose(one.logpdf(y), want.logpdf(y))
    assert_allclose(one.cdf(y), want.cdf(y))
    assert_allclose(one.logsf(y), want.logsf(y), atol=1e-300)
    assert_allclose(one.ppf(0.05), want.ppf(0.05), rtol=1e-10)
    assert_allclose(one.ppf(1e-50), want.ppf(1e-50), rtol=1e-10)
    assert_allclose(one.interval(0.9), want.interval(0.9), rtol=1e-9)
    # closed form of the score of a Gaussian
    u = (y - want.mean()) / want.std()
    score = want.std() * (u * (2 * norm.cdf(u) - 1) + 2 * norm.pdf(u) - 1 / np.sqrt(np.pi))
    assert_allclose(one.crps(y), score, rtol=1e-12)


def test_mixture_against_scipy(mixture):
    y = np.array([[-2.0, 0.1, 2.0]])
    parts = norm.pdf(y, 0, 1), norm.pdf(y, 3, 0.5)
    assert_allclose(mixture.pdf(y)[:1], 0.5 * parts[0] + 0.5 * parts[1], rtol=1e-13)
    grid = np.linspace(-40, 40, 160_001)
    F = 0.5 * norm.cdf(grid, 1, 0.2) + 0.5 * norm.cdf(grid, -1, 3)
    want = np.trapezoid((F - (grid >= 0.5)) ** 2, grid)
    assert_allclose(mixture.crps(0.5)[1], want, rtol=1e-3)  # error of the grid at the jump


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.logpdf(np.zeros(4)), r"`y` must be a scalar or have shape \(2,\).*got shape \(4,\)"),
        (lambda d: d.cdf(np.nan), "`y` must be finite; got nan"),
        (lambda d: d.ppf(1.5), "`q` must be probabilities between 0 and 1; got 1.5"),
        (lambda d: d.interval(90), "`level` must be between 0 and 1; got 90. For 90 % pass 0.9"),
        (lambda d: d.interval([0.5, 0.9]), r"`level` must be between 0 and 1; got \[0.5, 0.9\]"),
        (lambda d: d.rvs(-1), "`size` must be the number of draws per row, .*; got -1"),
        (lambda d: d.rvs(1.5), "`size` must be the number of draws per row, .*; got 1.5"),
        (lambda d: GaussianMixture([0.0], [1.0]), r"one shape \(members, rows\)"),
        (lambda d: GaussianMixture([[0.0]], [[0.0]]), "`var` must be positive; smallest is"),
        (lambda d: GaussianMixture([[0.0]], [[1.0]], scale=0.0), "`scale` positive"),
    ],
)
def test_errors_name_the_argument(mixture, call, message):
    with pytest.raises(ValueError, match=message):
        call(mixture)


def test_draws_depend_on_the_seed_alone(mixture):
    assert mixture.rvs(random_state=4).shape == (2,)
    assert_allclose(mixture.rvs(3, random_state=4), mixture.rvs(3, random_state=np.random.default_rng(4)))
    legacy = [mixture.rvs(3, random_state=np.random.RandomState(4)) for _ in range(2)]
    assert_allclose(*legacy)


def test_deviation_of_a_scale_whose_square_underflows():
    small = GaussianMixture(np.array([[0.5]]), np.array([[1e-120]]), loc=1.0, scale=1e-130)
    assert_allclose(small.std(), 1e-190, rtol=1e-12)


def test_one_gaussian_is_a_lognormal():
    mean, std = np.array([0.3, -2.0, 1.0]), np.array([0.5, 2.5, 5.0])  # the last has far tails
    dist = LognormalMixture(GaussianMixture(mean[None], std[None] ** 2))
    want = lognorm(std, scale=np.exp(mean))
    y = np.array([3.0, 1e-4, 1e3])
    for name in ("pdf", "logpdf", "cdf", "logcdf", "logsf"):
        assert_allclose(getattr(dist, name)(y), getattr(want, name)(y), rtol=1e-10)
    for name in ("mean", "std"):
        assert_allclose(getattr(dist, name)(), getattr(want, name)(), rtol=1e-10)
    # the score of a lognormal: Baran & Lerch (2015)
    w = (np.log(y) - mean) / std
    above = norm.cdf(w - std) + norm.cdf(std / np.sqrt(2)) - 1
    score = y * (2 * norm.cdf(w) - 1) - 2 * np.exp(mean + std**2 / 2) * above
    assert_allclose(dist.crps(y), score, rtol=1e-10)
    assert_allclose(dist.crps(-1.0) - dist.crps(-2.0), -1.0)
    assert dist.ppf(0.0).tolist() == [0.0, 0.0, 0.0]


def test_lognormal_moments_beyond_floats_are_finite():
    dist = LognormalMixture(GaussianMixture([[0.0, 400.0, -500.0]], [[900.0, 900.0, 1e-30]]))
    assert np.isfinite(dist.mean()).all()
    assert np.all((dist.var() > 0) & np.isfinite(dist.var()))
    assert np.isfinite(dist.logpdf(np.array([[-1.0, 0.0, 1e-300, 1e300]]))).all()


def test_log_and_exponential_are_inverse_and_finite():
    transform, y = LogTransform(), np.geomspace(1e-300, 1e300, 50)
    assert_allclose(transform.inverse(transform.forward(y)), y, rtol=1e-12)
    assert transform.forward(np.array([-1.0, 0.0])).tolist() == [-np.inf, -np.inf]
    assert np.isfinite(transform.inverse(np.array([-1e300, 800.0, 1e300]))).all()
    assert transform.inverse(np.array(np.inf)) == np.inf


def test_only_gaussians_have_a_mean_under_the_logarithm():
    assert isinstance(LogTransform().distribution(GaussianMixture([[0.0]], [[1.0]])), LognormalMixture)
    with pytest.raises(ValueError, match="no mean"):
        LogTransform().distribution(StudentPredictive(np.zeros(1), np.ones(1), 0.1))


def test_transforms_from_files_are_checked():
    assert checked_transform(0.5) == LogTransform(0.5)
    assert_allclose(LogTransform(0.5).inverse(LogTransform(0.5).forward(np.array([0.0, 7.0]))), [0.0, 7.0])
    with pytest.raises(ValueError, match="`shift of the transform` must be a number; got 'sqrt'"):
        checked_transform("sqrt")
