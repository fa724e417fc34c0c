"""The normal truncated to a box: SciPy, laws, limits. The table is in test_box_reference.py."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, truncnorm, uniform

from tests.cases import few
from tggm import special

INF, NAN = float("inf"), float("nan")
VALUE = 5e-15  # of values in double precision: test_box_reference.py
SIZE = 340  # of every argument in double precision: each function is compiled once


def value(function, *arguments):
    """Evaluate a function with arguments repeated to SIZE."""
    arguments = np.broadcast_arrays(*(np.asarray(x, float) for x in arguments))
    found = function(*(np.resize(x, SIZE) for x in arguments))
    return np.asarray(found)[: arguments[0].size].reshape(arguments[0].shape)


def test_scipy():
    a, b = np.array([-2.0, -0.5, 0.3, -3.0, -INF, 1.0]), np.array([1.0, 0.7, 2.2, 4.0, 1.5, INF])
    mu, sigma = 0.7, 1.3
    law = truncnorm(a, b, loc=mu, scale=sigma)
    arguments = (mu, sigma, mu + sigma * a, mu + sigma * b)
    tol = 1e-10
    assert_allclose(value(special.truncated_mean, *arguments), law.mean(), rtol=tol)
    assert_allclose(value(special.truncated_var, *arguments), law.var(), rtol=tol)
    assert_allclose(value(special.log_ndtr_interval, a, b), np.log(norm.cdf(b) - norm.cdf(a)), rtol=tol)
    for q in (0.01, 0.4, 0.97):
        assert_allclose(value(special.truncated_quantile, q, *arguments), law.ppf(q), rtol=tol)


def test_half_line_is_a_box():
    mu, tol = np.linspace(-20, 20, 41), VALUE
    for function in (special.truncated_mean, special.truncated_var, special.truncated_log_z):
        assert_allclose(value(function, mu, 1.7, 0.0, INF), function(mu, 1.7), rtol=4 * tol, atol=tol)
    limits = np.zeros(41), np.full(41, INF)
    third, fourth = jax.jit(special.box_kernels.high_cumulants)(mu, np.ones(41), *limits)
    assert_allclose(third, special.kernels.third(mu), rtol=1e-12)
    assert_allclose(fourth, special.kernels.fourth(mu), rtol=1e-9, atol=1e-14)


def test_no_limits_is_a_normal():
    assert_allclose(value(special.truncated_mean, 3.0, 2.0, -INF, INF), 3.0)
    assert_allclose(value(special.truncated_var, 3.0, 2.0, -INF, INF), 4.0)
    assert value(special.log_ndtr_interval, -INF, INF) == 0
    assert_allclose(jax.jit(jax.grad(special.truncated_mean))(3.0, 2.0, -INF, INF), 1.0)
    assert_allclose(value(special.truncated_quantile, 0.1, 3.0, 2.0, -INF, INF), norm(3, 2).ppf(0.1))


def test_narrow_box_is_uniform():
    law = uniform(5.0, 1e-9)
    arguments = (5.1, 1.0, 5.0, 5.0 + 1e-9)
    width = arguments[3] - arguments[2]
    assert_allclose(value(special.truncated_var, *arguments), width**2 / 12, rtol=1e-9)
    assert_allclose(value(special.truncated_quantile, 0.25, *arguments) - 5.0, law.ppf(0.25) - 5.0, rtol=1e-6)
    assert_allclose(value(special.truncated_log_z, 0.0, 1.0, -5e-13, 5e-13), np.log(1e-12), rtol=1e-14)


def test_bounds(dtype):
    # variances below that of the normal and of the uniform: sites of EP are then not negative
    rng = np.random.default_rng(0)
    lower = (rng.normal(size=3000) * 10 ** rng.uniform(-3, 2, 3000)).astype(dtype)
    upper = lower + (10 ** rng.uniform(-3, 2, 3000)).astype(dtype)
    mean, var = (np.asarray(x) for x in special.standard_moments(np.asarray(0.5, dtype), lower, upper))
    assert np.all((mean >= lower) & (mean <= upper))
    ulp = 8 * np.finfo(dtype).eps
    assert np.all((var > 0) & (var <= 1 + ulp) & (var <= (upper - lower) ** 2 / 12 * (1 + ulp)))


def test_quantile_inverts_the_distribution():
    # P(h <= x) = mass of [lower, x] over that of [lower, upper]
    rng = np.random.default_rng(1)
    lower = np.concatenate([rng.uniform(-8, 8, 300), np.full(40, -INF)])
    upper = np.where(lower == -INF, rng.uniform(-9, 9, 340), lower + 10 ** rng.uniform(-3, 1.2, 340))
    q = rng.uniform(1e-6, 1 - 1e-6, 340)
    x = value(special.truncated_quantile, q, 0.0, 1.0, lower, upper)
    got = np.exp(special.log_ndtr_interval(lower, x) - special.log_ndtr_interval(lower, upper))
    # an error of the quantile of one unit in its last place
    slack = np.exp(norm.logpdf(x) - special.log_ndtr_interval(lower, upper)) * np.abs(x) * 2.0**-52
    assert np.all(np.abs(got - q) <= 4e-14 + 4 * slack)


def test_bad_arguments_give_nan():
    bad = np.array([(NAN, 1.0, 0.0, 1.0), (0.0, -1.0, 0.0, 1.0), (0.0, 1.0, 1.0, 0.0), (0.0, 1.0, 1.0, 1.0)])
    for f in (special.truncated_mean, special.truncated_log_z):
        assert np.isnan(value(f, *bad.T)).all()
    assert np.isnan(value(special.log_ndtr_interval, 1.0, 0.0))


# in single precision the same branches are taken
@pytest.mark.parametrize("dtype", few(["float32", "float64"], "float64"))
def test_locations_on_the_only_limit(dtype):
    """Check half-normals and their derivative by the location."""
    dtype = np.dtype(dtype)
    inf = dtype.type(np.inf)
    a, b = np.asarray([0, -inf], dtype), np.asarray([inf, 0], dtype)
    mean, var = special.standard_moments(np.zeros(2, dtype), a, b)
    eps = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(mean, np.sqrt(2 / np.pi) * np.array([1, -1]), rtol=eps)
    np.testing.assert_allclose(var, 1 - 2 / np.pi, rtol=eps)
    slope = jax.jit(jax.vmap(jax.grad(lambda x, low, high: special.standard_moments(x, low, high)[0])))
    np.testing.assert_allclose(slope(np.zeros(2, dtype), a, b), 1 - 2 / np.pi, rtol=eps)
