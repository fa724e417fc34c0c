"""Units between two limits against truncated normals, quadrature and differences."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import truncnorm

from tggm.models.layers import unit_moments
from tggm.models.limited_units import averages, moments

A = np.array([-6.0, -1.5, 0.0, 0.7, 2.0, 9.0])
LIMITS = (-0.4, 1.9)


def truth(a):
    mean, var = truncnorm.stats(LIMITS[0] - a, LIMITS[1] - a, loc=a, moments="mv")
    return np.stack([mean, var])


def test_moments_and_their_derivatives_are_those_of_a_truncated_normal():
    found = jax.jit(lambda a: jax.jvp(partial(moments, LIMITS), (a,), (jnp.ones_like(a),)))
    value, slope = found(A)
    assert_allclose(value, truth(A), rtol=1e-9)
    assert_allclose(slope, (truth(A + 1e-5) - truth(A - 1e-5)) / 2e-5, rtol=1e-5, atol=1e-8)


def test_units_with_a_distant_upper_limit_are_those_of_the_half_line():
    found = jax.jit(partial(moments, (0.0, 300.0)))(A)
    for got, want in zip(found, unit_moments(A), strict=True):
        assert_allclose(got, want, rtol=1e-12)


def test_averages_are_integrals_over_the_location():
    spread, a = 0.6, np.array([-1.5, 0.7, 2.0])
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    g, omega2 = truth(a[:, None] + spread * z)
    weight = weight / weight.sum()
    mean = g @ weight
    want = mean, omega2 @ weight, (g - mean[:, None]) ** 2 @ weight
    for n_nodes, close in ((3, 0.03), (15, 1e-6)):
        found = jax.jit(partial(averages, LIMITS, n_nodes))(a, np.full(3, spread))
        assert_allclose(found, want, rtol=close, atol=1e-3 * close)
