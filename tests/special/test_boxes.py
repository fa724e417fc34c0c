"""The normal truncated to a box: SciPy, laws, limits. The table is in test_box_reference.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, truncnorm, uniform

from tests.cases import few
from tggm import special
from tggm.special import (
    box_entropy,
    box_log_z,
    box_mean,
    box_moments,
    box_quantile,
    box_var,
    log_ndtr_interval,
)

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
    finite = np.isfinite(a) & np.isfinite(b)  # SciPy's entropy is not a number elsewhere
    entropy = truncnorm(a[finite], b[finite], loc=mu, scale=sigma).entropy()
    tol = 1e-10
    assert_allclose(value(box_mean, *arguments), law.mean(), rtol=tol)
    assert_allclose(value(box_var, *arguments), law.var(), rtol=tol)
    assert_allclose(value(box_entropy, *arguments)[finite], entropy, rtol=tol)
    assert_allclose(value(log_ndtr_interval, a, b), np.log(norm.cdf(b) - norm.cdf(a)), rtol=tol)
    for q in (0.01, 0.4, 0.97):
        assert_allclose(value(box_quantile, q, *arguments), law.ppf(q), rtol=tol)


def test_half_line_is_a_box():
    mu, tol = np.linspace(-20, 20, 41), VALUE
    for ours, half in ((box_mean, special.truncated_mean), (box_log_z, special.truncated_log_z)):
        assert_allclose(value(ours, mu, 1.7, 0.0, INF), half(mu, 1.7), rtol=4 * tol, atol=tol)


def test_no_limits_is_a_normal():
    assert_allclose(value(box_mean, 3.0, 2.0, -INF, INF), 3.0)
    assert_allclose(value(box_var, 3.0, 2.0, -INF, INF), 4.0)
    assert value(log_ndtr_interval, -INF, INF) == 0
    assert_allclose(jax.jit(jax.grad(box_mean))(3.0, 2.0, -INF, INF), 1.0)
    assert_allclose(value(box_quantile, 0.1, 3.0, 2.0, -INF, INF), norm(3, 2).ppf(0.1))


def test_narrow_box_is_uniform():
    law = uniform(5.0, 1e-9)
    arguments = (5.1, 1.0, 5.0, 5.0 + 1e-9)
    width = arguments[3] - arguments[2]
    assert_allclose(value(box_var, *arguments), width**2 / 12, rtol=1e-9)
    assert_allclose(value(box_entropy, *arguments), np.log(width), rtol=1e-12)
    assert_allclose(value(box_quantile, 0.25, *arguments) - 5.0, law.ppf(0.25) - 5.0, rtol=1e-6)
    assert_allclose(value(box_log_z, 0.0, 1.0, -5e-13, 5e-13), np.log(1e-12), rtol=1e-14)


def test_bounds(dtype):
    # variances below that of the normal and of the uniform: sites of EP are then not negative
    rng = np.random.default_rng(0)
    lower = (rng.normal(size=3000) * 10 ** rng.uniform(-3, 2, 3000)).astype(dtype)
    upper = lower + (10 ** rng.uniform(-3, 2, 3000)).astype(dtype)
    mean, var = (np.asarray(x) for x in box_moments(np.asarray(0.5, dtype), lower, upper))
    assert np.all((mean >= lower) & (mean <= upper))
    ulp = 8 * np.finfo(dtype).eps
    assert np.all((var > 0) & (var <= 1 + ulp) & (var <= (upper - lower) ** 2 / 12 * (1 + ulp)))


def test_quantile_inverts_the_distribution():
    # P(h <= x) = mass of [lower, x] over that of [lower, upper]
    rng = np.random.default_rng(1)
    lower = np.concatenate([rng.uniform(-8, 8, 300), np.full(40, -INF)])
    upper = np.where(lower == -INF, rng.uniform(-9, 9, 340), lower + 10 ** rng.uniform(-3, 1.2, 340))
    q = rng.uniform(1e-6, 1 - 1e-6, 340)
    x = value(box_quantile, q, 0.0, 1.0, lower, upper)
    got = np.exp(log_ndtr_interval(lower, x) - log_ndtr_interval(lower, upper))
    # an error of the quantile of one unit in its last place
    slack = np.exp(norm.logpdf(x) - log_ndtr_interval(lower, upper)) * np.abs(x) * 2.0**-52
    assert np.all(np.abs(got - q) <= 4e-14 + 4 * slack)


def differences(f, points, step=1e-3):
    """Return fourth-order difference quotients by each argument at each row of points; errors near 1e-10."""
    steps = step * np.eye(points.shape[1])[None, :, None, :] * np.array([-2, -1, 1, 2])[None, None, :, None]
    moved = (points[:, None, None, :] + steps).reshape(-1, points.shape[1])
    at = value(f, *moved.T).reshape(len(points), points.shape[1], 4)
    return (at[..., 0] - 8 * at[..., 1] + 8 * at[..., 2] - at[..., 3]) / (12 * step)


def test_quantile_derivatives():
    points = np.array([[0.3, 0.2, 1.4, -0.7, 2.9], [0.3, -5.8, 1.4, -0.7, 2.9]])  # in the middle, in a tail
    got = np.stack(jax.jit(lambda *x: jax.vjp(box_quantile, *x)[1](jnp.ones(2)))(*points.T), 1)
    assert_allclose(got, differences(box_quantile, points), rtol=1e-7, atol=1e-9)


def test_second_derivatives():
    # of log Z: derivatives of the mean and of the densities at the limits
    points = np.array([[0.4, 1.7, -0.6, 1.1]])
    hessian = np.asarray(jax.jit(jax.hessian(lambda x: box_log_z(*x)))(points[0]))
    assert_allclose(hessian, hessian.T, rtol=1e-12)
    gradient = jax.jit(lambda *x: jax.vjp(box_log_z, *x)[1](jnp.ones(SIZE)))
    for k in range(4):
        want = differences(lambda *x, k=k: gradient(*x)[k], points)[0]
        assert_allclose(hessian[k], want, rtol=1e-8, atol=1e-9)


def test_bad_arguments_give_nan():
    bad = np.array([(NAN, 1.0, 0.0, 1.0), (0.0, -1.0, 0.0, 1.0), (0.0, 1.0, 1.0, 0.0), (0.0, 1.0, 1.0, 1.0)])
    for f in (box_mean, box_log_z):
        assert np.isnan(value(f, *bad.T)).all()
    assert np.isnan(value(log_ndtr_interval, 1.0, 0.0))


# in single precision the same branches are taken
@pytest.mark.parametrize("dtype", few(["float32", "float64"], "float64"))
def test_locations_on_a_limit_whose_other_side_is_open(dtype):
    """Checks half-normals and their derivative by the location."""
    dtype = np.dtype(dtype)
    inf = dtype.type(np.inf)
    a, b = np.asarray([0, -inf], dtype), np.asarray([inf, 0], dtype)
    mean, var = box_moments(np.zeros(2, dtype), a, b)
    eps = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(mean, np.sqrt(2 / np.pi) * np.array([1, -1]), rtol=eps)
    np.testing.assert_allclose(var, 1 - 2 / np.pi, rtol=eps)
    slope = jax.jit(jax.vmap(jax.grad(lambda x, low, high: box_moments(x, low, high)[0])))
    np.testing.assert_allclose(slope(np.zeros(2, dtype), a, b), 1 - 2 / np.pi, rtol=eps)
