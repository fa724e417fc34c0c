"""Mixtures of Gaussians against scipy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest, norm

from tggm.predictive import MomentPredictive


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
