"""Mixtures of Gaussians against scipy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest, norm, skewnorm

from tggm.predictive import EnginePredictive, MomentPredictive


@pytest.fixture
def one():
    return MomentPredictive(np.array([[0.5, -1.0]]), np.array([[4.0, 0.25]]), loc=1.0, scale=2.0)


@pytest.fixture
def mixture():
    return MomentPredictive([[0.0, 1.0], [3.0, -1.0]], [[1.0, 0.04], [0.25, 9.0]], member_weights=[1, 3])


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


def test_mixture(mixture):
    y = np.array([[-2.0, 0.1, 2.0]])
    parts = norm.pdf(y, 0, 1), norm.pdf(y, 3, 0.5)
    assert_allclose(mixture.pdf(y)[:1], 0.25 * parts[0] + 0.75 * parts[1], rtol=1e-13)
    q = np.linspace(0.001, 0.999, 50)[None, :]
    assert_allclose(mixture.cdf(mixture.ppf(q)), np.tile(q, (2, 1)), atol=1e-12)
    grid = np.linspace(-40, 40, 160_001)
    F = 0.25 * norm.cdf(grid, 1, 0.2) + 0.75 * norm.cdf(grid, -1, 3)
    want = np.trapezoid((F - (grid >= 0.5)) ** 2, grid)
    assert_allclose(mixture.crps(0.5)[1], want, rtol=1e-3)  # the grid errs by its step at the jump
    draws = mixture.rvs(4000, random_state=0)
    assert kstest(mixture.cdf(draws.T)[0], "uniform").pvalue > 0.01
    assert len(mixture[1:]) == 1
    assert_allclose(mixture[1:].mean(), mixture.mean()[1:])


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"one shape \(members, rows\)"):
        MomentPredictive([0.0], [1.0])
    with pytest.raises(ValueError, match="`var` must be positive; smallest is"):
        MomentPredictive([[0.0]], [[0.0]])
    with pytest.raises(ValueError, match="must be 1 nonnegative numbers"):
        MomentPredictive([[0.0]], [[1.0]], member_weights=[1, 2])


def test_a_small_scale_leaves_a_deviation():
    """Its square is 0."""
    small = MomentPredictive(np.array([[0.5]]), np.array([[1e-120]]), loc=1.0, scale=1e-130)
    assert_allclose(small.std(), 1e-190, rtol=1e-12)


SKEW = np.array([[4.0], [-2.0]])  # of two members
PLACE = np.array([[0.0, 1.0, -3.0, 0.5], [0.3, -1.0, 2.0, 0.0]])  # (members, rows)
WIDTH = np.array([[1.0, 0.5, 2.0, 3.0], [0.7, 1.5, 1.0, 0.2]])
LOC, SCALE = 2.0, 3.0


def log_density(rows, z):
    return skewnorm.logpdf(z[None, :], SKEW, PLACE[:, rows], WIDTH[:, rows])


@pytest.fixture(scope="module")
def dist():
    mean, var = skewnorm.stats(SKEW, PLACE, WIDTH)
    return EnginePredictive(mean, var, log_density, loc=LOC, scale=SCALE)


def witness(rows, y):
    """The density of the mixture at y, (rows, k)."""
    parts = skewnorm.pdf(
        y[None], SKEW[:, :, None], LOC + SCALE * PLACE[:, rows, None], SCALE * WIDTH[:, rows, None]
    )
    return parts.mean(0)


def test_densities_are_the_engines(dist):
    y = np.array([2.0, 4.0, -5.0, 3.0])
    want = np.log(witness(np.arange(4), y[:, None])[:, 0])
    assert_allclose(dist.logpdf(y), want, rtol=1e-12)
    assert_allclose(dist.pdf(y), np.exp(want), rtol=1e-12)


def test_several_values_a_row_are_each_value_by_itself(dist):
    y = np.array([2.0, 4.0, -5.0, 3.0])[:, None] + np.linspace(-4, 4, 5)[None, :]
    whole = dist.pdf(y)
    assert_allclose(whole, witness(np.arange(4), y), rtol=1e-12)
    for k in range(5):
        assert_allclose(whole[:, k], dist.pdf(y[:, k]), rtol=1e-12)
        assert_allclose(dist.logpdf(y)[:, k], dist.logpdf(y[:, k]), rtol=1e-12)
    assert_allclose(dist.pdf(y[:1]), np.stack([dist.pdf(value) for value in y[0]], 1), rtol=1e-12)


@pytest.mark.parametrize(
    "rows", [slice(0, 2), slice(None, None, -1), np.array([3, 1]), np.array([False, True, True, False])],
    ids=["first", "reversed", "numbers", "mask"],
)  # fmt: skip
def test_a_slice_is_the_same_distribution(dist, rows):
    y = np.array([2.0, 4.0, -5.0, 3.0])
    part = dist[rows]
    assert isinstance(part, EnginePredictive)
    assert_allclose(part.logpdf(y[rows]), dist.logpdf(y)[rows], rtol=1e-12)
    assert_allclose(part.pdf(y[rows][:, None]), dist.pdf(y[:, None])[rows], rtol=1e-12)
    for of in (lambda d: d.mean(), lambda d: d.std(), lambda d: d.ppf(0.1)):
        assert_allclose(of(part), of(dist)[rows], rtol=1e-12)
    half = part[:1]  # a slice of a slice
    assert_allclose(half.logpdf(y[rows][:1]), dist.logpdf(y)[rows][:1], rtol=1e-12)


def test_all_else_is_that_of_gaussians_with_the_moments(dist):
    mean, var = skewnorm.stats(SKEW, PLACE, WIDTH)
    low, high = dist.interval(0.8)
    for end, level in ((low, 0.1), (high, 0.9)):
        z = (end - LOC) / SCALE
        assert_allclose(norm.cdf(z[None], mean, np.sqrt(var)).mean(0), level, atol=1e-10)
        assert_allclose(dist.cdf(end), level, atol=1e-10)
