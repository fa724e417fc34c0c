"""Units between two limits against truncated normals, quadrature and differences."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import truncnorm

from tests.models.small_models import changed, drawn_model, log_density
from tggm.models import LearnedLimits
from tggm.models.layers import unit_moments
from tggm.models.limited_units import FARTHEST, MOST_LOG_WIDTH, averages, moments

A = np.array([-6.0, -1.5, 0.0, 0.7, 2.0, 9.0])
LOWER, UPPER = -0.4, 1.9


def truth(a, lower, upper):
    mean, var = truncnorm.stats(lower - a, upper - a, loc=a, moments="mv")
    return np.stack([mean, var])


def difference(k, step=1e-5):
    """Return central differences of both moments by location, lower or upper limit."""
    at = [A, np.full_like(A, LOWER), np.full_like(A, UPPER)]
    up, down = ([x + (i == k) * sign * step for i, x in enumerate(at)] for sign in (1, -1))
    return (truth(*up) - truth(*down)) / (2 * step)


def test_moments_and_their_derivatives_are_those_of_a_truncated_normal():
    @jax.jit
    def found(a, lower, upper):
        given = (a, lower + jnp.zeros_like(a), upper + jnp.zeros_like(a))
        ones = [[jnp.full_like(a, float(i == k)) for i in range(3)] for k in range(3)]
        return moments(*given), [jax.jvp(moments, given, tuple(one))[1] for one in ones]

    value, slopes = found(A, LOWER, UPPER)
    assert_allclose(value, truth(A, LOWER, UPPER), rtol=1e-9)
    for k in range(3):
        assert_allclose(slopes[k], difference(k), rtol=1e-5, atol=1e-8)


def test_units_with_a_distant_upper_limit_are_those_of_the_half_line():
    for got, want in zip(jax.jit(lambda a: moments(a, 0.0, 300.0))(A), unit_moments(A), strict=True):
        assert_allclose(got, want, rtol=1e-12)


def test_averages_are_integrals_over_the_location():
    spread, a = 0.6, np.array([-1.5, 0.7, 2.0])
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    g, omega2 = truth(a[:, None] + spread * z, LOWER, UPPER)
    weight = weight / weight.sum()
    mean = g @ weight
    want = mean, omega2 @ weight, (g - mean[:, None]) ** 2 @ weight
    for n_nodes, close in ((3, 0.03), (15, 1e-6)):
        found = jax.jit(partial(averages, n_nodes, lower=LOWER, upper=UPPER))(a, np.full(3, spread))
        assert_allclose(found, want, rtol=close, atol=1e-3 * close)


def test_learned_limits_start_wide_and_stay_in_a_finite_range(rng):
    model = drawn_model(rng, (3, 2), layers=LearnedLimits)
    assert_allclose(model.hidden.limits(1), (0.0, 12.0))
    model = changed(model, {"hidden.lower": np.full(2, 1e9), "hidden.log_width": np.full(2, 1e9)})
    assert_allclose(model.hidden.limits(0), (FARTHEST, FARTHEST + np.exp(MOST_LOG_WIDTH)))
    assert np.isfinite(log_density(model, jnp.ones((1, 3)), jnp.ones((1, 2)))).all()
