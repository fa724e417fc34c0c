"""Moments of a unit between two limits, and how they change."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import truncnorm

from tggm.models.hidden import box_unit, unit

A = np.array([-6.0, -1.5, 0.0, 0.7, 2.0, 9.0])
LOWER, UPPER = -0.4, 1.9


def truth(a, lower, upper):
    mean, var = truncnorm.stats(lower - a, upper - a, loc=a, moments="mv")
    return np.stack([mean, var])


def slope(k, step=1e-5):
    """Central differences of both moments by one of location, lower and upper limit."""
    at = [A, np.full_like(A, LOWER), np.full_like(A, UPPER)]
    up, down = ([x + (i == k) * sign * step for i, x in enumerate(at)] for sign in (1, -1))
    return (truth(*up) - truth(*down)) / (2 * step)


def test_moments_and_their_derivatives_are_those_of_a_truncated_normal():
    @jax.jit
    def found(a, lower, upper):
        given = (a, lower + jnp.zeros_like(a), upper + jnp.zeros_like(a))
        ones = [[jnp.full_like(a, float(i == k)) for i in range(3)] for k in range(3)]
        return box_unit.moments(*given), [jax.jvp(box_unit.moments, given, tuple(one))[1] for one in ones]

    value, slopes = found(A, LOWER, UPPER)
    assert_allclose(value, truth(A, LOWER, UPPER), rtol=1e-9)
    for k in range(3):
        assert_allclose(slopes[k], slope(k), rtol=1e-5, atol=1e-8)


def test_a_wide_box_is_the_half_line():
    for got, want in zip(jax.jit(lambda a: box_unit.moments(a, 0.0, 300.0))(A), unit.moments(A), strict=True):
        assert_allclose(got, want, rtol=1e-12)


def test_averages_are_integrals_over_the_location():
    spread, a = 0.6, np.array([-1.5, 0.7, 2.0])
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    g, omega2 = truth(a[:, None] + spread * z, LOWER, UPPER)
    weight = weight / weight.sum()
    mean = g @ weight
    want = mean, omega2 @ weight, (g - mean[:, None]) ** 2 @ weight
    for n_nodes, close in ((3, 0.03), (15, 1e-6)):
        found = jax.jit(partial(box_unit.averages, n_nodes, lower=LOWER, upper=UPPER))(a, np.full(3, spread))
        assert_allclose(found, want, rtol=close, atol=1e-3 * close)
