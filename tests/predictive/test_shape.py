"""A bent density: closed forms against quadrature, and what is learned from draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from tggm.predictive.shape import KNOTS, PLACES, Shape, most_likely


@pytest.fixture
def logs(rng):
    return rng.normal(0, 1.5, KNOTS)


def test_cdf_is_the_integral_of_the_density(logs):
    shape = Shape(logs)
    knots = PLACES
    assert_allclose(np.diff(np.log(shape.density(knots))), np.diff(logs), rtol=1e-10)
    for u in (1e-9, 0.03, 0.4, 0.77, 1.0):
        inner = knots[(knots > 0) & (knots < u)]
        area = quad(lambda x: float(shape.density(np.array(x))), 0, u, points=inner, limit=200)[0]
        assert_allclose(shape.cdf(np.array(u)), area, rtol=1e-10)


def test_both_tails_are_inverted(logs):
    shape = Shape(logs)
    p = np.concatenate([np.geomspace(1e-300, 1e-3, 20), np.linspace(0.01, 1, 40)])
    assert_allclose(shape.cdf(shape.lower(p)), p, rtol=1e-12)
    with np.errstate(divide="ignore"):
        low, high = np.log(1 - shape.upper(p)), np.log(shape.upper(p))
    assert_allclose(shape.log_tails(low, high)[1], np.log(p), rtol=1e-12, atol=1e-12)


def test_tails_of_probabilities_too_small_for_numbers(logs):
    shape = Shape(logs)
    low, _ = shape.log_tails(np.array([-1e4]), np.array([0.0]))
    assert_allclose(low, -1e4 + np.log(shape.ends[0]), rtol=1e-12)


def test_a_known_density_is_found(rng):
    """Of 20,000 draws; a height is told by a thousand of them, to a thirtieth or so."""
    true = Shape(0.8 * np.sin(np.arange(KNOTS) / 2))
    draws = true.lower(rng.random(20_000))
    found = Shape(most_likely(draws, np.ones(len(draws))))
    u = np.linspace(0.05, 0.95, 50)
    assert_allclose(found.density(u), true.density(u), rtol=0.2)
    assert np.log(found.density(draws)).mean() > np.log(true.density(draws)).mean() - 1e-3


def test_few_draws_say_little(rng):
    found = Shape(most_likely(rng.random(5), np.ones(5)))
    assert_allclose(found.density(np.linspace(0, 1, 9)), 1, atol=0.6)
