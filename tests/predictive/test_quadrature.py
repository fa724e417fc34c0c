"""Integrals over lognormals so wide that far tails matter, against closed forms."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import lognorm, norm

from tggm.predictive.quadrature import Quadrature

STD = np.array([0.2, 2.0, 5.0])
GRID = Quadrature(np.zeros(3), STD)


def test_distances_hold_what_is_far_out():
    asked = []

    def bulk(rows, z):
        F = norm.cdf(z / STD[rows])
        return np.round(F, 14), norm.pdf(z, 0, STD[rows])  # known to absolute accuracy alone

    def log_tails(rows, z):
        asked.append(rows)
        return norm.logcdf(z / STD[rows]), norm.logsf(z / STD[rows])

    rows, y = np.arange(3), np.array([1.5, 0.2, 30.0])
    to_y, apart = GRID.distances(bulk, log_tails, np.exp, np.exp, rows, np.log(y), y)
    mean, w = np.exp(STD**2 / 2), np.log(y) / STD
    assert_allclose(to_y, y * (2 * norm.cdf(w) - 1) - mean * (2 * norm.cdf(w - STD) - 1), rtol=1e-6)
    assert_allclose(apart, 2 * mean * (2 * norm.cdf(STD / np.sqrt(2)) - 1), rtol=1e-6)  # Gini's difference
    assert set(np.concatenate(asked).tolist()) == {1, 2}  # a narrow one needs none
    assert sum(map(len, asked)) < 3 * 241 / 4


def test_moments_hold_what_is_far_out():
    std = np.array([0.5, 1.0, 2.0])

    def density(rows, z):
        return np.round(norm.pdf(z, 0, std[rows]), 14)

    def log_density(rows, z):
        return norm.logpdf(z, 0, std[rows])

    grid = Quadrature(np.zeros(3), std)
    mean, var = grid.moments(density, log_density, np.exp, lambda rows, q: np.zeros((len(rows), len(q))))
    assert_allclose(mean, lognorm.mean(std), rtol=1e-6)
    assert_allclose(var, lognorm.var(std), rtol=1e-6)


def test_moments_of_members_far_apart():
    """Three quarters near −1 and a quarter near 2, in the units of y; nothing between them."""
    share, at, width = np.array([0.75, 0.25]), np.array([-1.0, 2.0]), 0.15

    def density(rows, z):
        return norm.pdf(z[:, None], at, width) @ share

    def log_density(rows, z):
        return np.log(density(rows, z) + 1e-300)

    grid = Quadrature(np.array([-0.95]), np.array([1.0]))
    mean, var = grid.moments(density, log_density, lambda z: z, lambda rows, q: np.zeros((1, len(q))))
    assert_allclose(mean, -0.25, rtol=1e-6)
    assert_allclose(var, 0.75 * 0.75**2 + 0.25 * 2.25**2 + width**2, rtol=1e-6)


def test_no_variance_is_less_than_rounding():
    """A member too narrow for floats around its mean: all quantiles are one number, and no node is inside."""
    at = np.array([0.0, 1e15, -40.0])
    nothing = Quadrature(at, np.zeros(3)).moments(
        lambda rows, z: np.zeros(len(z)),
        lambda rows, z: np.full(len(z), -np.inf),
        lambda z: z,
        lambda rows, q: np.broadcast_to(at[rows, None], (len(rows), len(q))),
    )
    assert_allclose(nothing[0], at)
    assert_allclose(np.sqrt(nothing[1][1:]), [0.125, 2.0**-47], rtol=1e-12)  # 50 and 5 bits before the point
    assert 0 < nothing[1][0] < 1e-300
