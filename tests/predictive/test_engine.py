"""Densities by an engine, here scipy's skew normals: rows, slices and columns say the same."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, skewnorm

from tggm.predictive import EnginePredictive

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
