"""Literals, laws and limits of the truncated-normal functions. The table tests are in test_reference.py."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from tests.tolerances import SPECIAL
from tggm.special import (
    hazard,
    kernels,
    log_ndtr,
    standard_moments,
    truncated_entropy,
    truncated_log_z,
    truncated_mean,
    truncated_var,
)

ONE = (log_ndtr, hazard)
TWO = (truncated_mean, truncated_var, truncated_entropy, truncated_log_z)
INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("alpha", [-6.0, -0.7, 0.3, 2.5])
def test_quadrature(alpha):
    def integral(f):
        return quad(
            lambda h: f(h) * np.exp(-0.5 * h * h + alpha * h), 0, 12 + max(alpha, 0), epsabs=0, epsrel=1e-12
        )[0]

    z = integral(lambda h: 1.0)
    m = integral(lambda h: h) / z
    assert_allclose(truncated_log_z(alpha, 1.0), np.log(z), rtol=1e-11, atol=1e-11)
    assert_allclose(truncated_mean(alpha, 1.0), m, rtol=1e-11)
    assert_allclose(truncated_var(alpha, 1.0), integral(lambda h: (h - m) ** 2) / z, rtol=1e-11)
    assert_allclose(kernels.third(alpha), integral(lambda h: (h - m) ** 3) / z, rtol=1e-9)
    kurtosis = integral(lambda h: (h - m) ** 4) / z - 3 * truncated_var(alpha, 1.0) ** 2
    assert_allclose(kernels.fourth(alpha), kurtosis, rtol=1e-6)
    entropy = np.log(z) - integral(lambda h: -0.5 * h * h + alpha * h) / z
    assert_allclose(truncated_entropy(alpha, 1.0), entropy, rtol=1e-10)


def test_relu_limit():
    mu = np.linspace(-50, 50, 201)
    assert_allclose(truncated_mean(mu, 1e-8), np.maximum(mu, 0), atol=1e-8)
    assert truncated_mean(np.float32(1e10), np.float32(1e-30)) == np.float32(1e10)  # alpha overflows


def test_bounds_and_monotonicity(dtype):
    a = np.linspace(-30, 6, 2001).astype(dtype)
    g, v = (np.asarray(x) for x in standard_moments(a))
    assert np.all(g >= np.maximum(a, 0))
    assert np.all((g > 0) & (v > 0) & (v <= 1))
    for values, sign in ((g, 1), (v, 1), (log_ndtr(a), 1), (hazard(a), -1), (truncated_entropy(a, 1.0), 1)):
        y = np.asarray(values)
        assert np.all(sign * np.diff(y) >= -SPECIAL[dtype] * np.abs(y[1:]))  # up to rounding


def test_not_a_number(dtype):
    bad, one = np.full(3, NAN, dtype), np.ones(3, dtype)
    assert all(np.isnan(f(bad)).all() for f in ONE)
    assert all(np.isnan(x).all() for x in standard_moments(bad))
    for f in TWO:
        assert np.isnan(f(bad, one)).all()
        assert np.isnan(f(one, bad)).all()


@pytest.mark.parametrize("f", TWO, ids=lambda f: f.__name__)
def test_scale_must_be_positive(f, dtype):
    mu = np.array([-2.0, 0.0, 3.0], dtype)
    for scale in (0.0, -1.0, -INF):
        assert np.isnan(f(mu, np.full(3, scale, dtype))).all()


def test_limits(dtype):
    ends, two = np.array([-INF, INF, INF], dtype), np.full(3, 2.0, dtype)
    assert list(log_ndtr(ends)) == [-INF, 0, 0]
    assert list(hazard(ends)) == [INF, 0, 0]
    for f, left, right in ((truncated_mean, 0, INF), (truncated_var, 0, 4), (truncated_log_z, -INF, INF)):
        assert list(f(ends, two)) == [left, right, right]
    low, high, _ = truncated_entropy(ends, two)
    assert low == -INF
    assert_allclose(high, 0.5 * np.log(2 * np.pi * np.e * 4), rtol=SPECIAL[dtype])
    slopes = jax.jit(jax.vmap(lambda x, s: (jax.grad(truncated_mean)(x, s), jax.grad(hazard)(x))))
    of_mean, of_hazard = slopes(ends, two)
    assert list(of_mean) == [0, 1, 1]
    assert of_hazard[0] == -1


def test_far_tail_does_not_overflow(dtype):
    # exponential of rate t: log Z = -log t, also where alpha^2 or alpha itself is out of range
    theta = np.array([-1e25, -1e35], dtype)
    assert_allclose(truncated_log_z(theta, 1e-20), -np.log(-theta.astype(float)), rtol=SPECIAL[dtype])
    # exponential of mean sigma^2 / |mu|: the standard deviation is the mean, so both grow alike in sigma
    slope = jax.grad(truncated_mean, 1)(np.array(-1e12, dtype), np.array(1.0, dtype))
    assert_allclose(slope, 2e-12, rtol=SPECIAL[dtype])
    entropy = truncated_entropy(np.array(-1.0, dtype), np.array(1e-25, dtype))
    assert_allclose(entropy, 1 + 2 * np.log(1e-25), rtol=SPECIAL[dtype])


def test_dtypes():
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        x = jax.ShapeDtypeStruct((2,), dtype)  # traced only: not every processor has instructions for float16
        assert all(jax.eval_shape(f, x).dtype == x.dtype for f in ONE)
        assert all(jax.eval_shape(lambda a, f=f: f(a, 1.5), x).dtype == x.dtype for f in TWO)
        assert all(y.dtype == x.dtype for y in jax.eval_shape(standard_moments, x))
    assert hazard(np.array([1, 2])).dtype == np.float64
    assert truncated_mean(np.array([1, 2]), np.float32(2)).dtype == np.float32
    assert truncated_mean(1, 2) == truncated_mean(1.0, 2.0)
    assert truncated_mean([1.0, 2.0], 2).shape == (2,)
    with jax.enable_x64(False):
        assert hazard(1).dtype == np.float32
        assert truncated_mean(np.array([1.0]), 1.0).dtype == np.float32


def test_complex_arguments_raise():
    with pytest.raises(TypeError, match=r"`mu` must be real, got dtype complex128"):
        truncated_mean(np.array(1j), 1.0)
