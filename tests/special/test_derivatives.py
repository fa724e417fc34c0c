"""Derivative rules: second derivatives by finite differences of the first, and JAX's transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.cases import few
from tggm import special
from tggm.special import kernels

ONE = ("log_ndtr", "hazard")
TWO = ("truncated_mean", "truncated_var", "truncated_entropy", "truncated_log_z")
# both sides of every change of form, and both tails
POINTS = np.array([-300.0, -20.0, -4.0, -1.1, -0.01, 0.01, 0.24, 0.26, 0.49, 0.51, 1.3, 4.0, 7.9, 8.2])


def central_difference(f, x, step):
    """Return the fourth-order difference quotient; errors are of order step^4 and 1e-15 / step."""
    h = step
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


@pytest.mark.parametrize("name", ONE)
def test_second_derivatives_of_one_argument(name):
    first = jax.jit(jax.vmap(jax.grad(getattr(special, name))))
    second = jax.jit(jax.vmap(jax.grad(jax.grad(getattr(special, name)))))(POINTS)
    step = 1e-3 * np.maximum(np.abs(POINTS), 1)
    assert_allclose(second, central_difference(first, POINTS, step), rtol=2e-8, atol=1e-18)


@pytest.mark.parametrize("name", few(TWO, "truncated_mean", "truncated_var", "truncated_log_z"))
def test_hessians(name):
    f = getattr(special, name)
    scale = np.full_like(POINTS, 0.7)
    location = scale * POINTS
    gradient = jax.jit(jax.vmap(jax.grad(f, (0, 1))))
    hessian = jax.jit(jax.vmap(jax.hessian(f, (0, 1))))(location, scale)
    steps = (1e-3 * np.maximum(np.abs(location), 0.7), 1e-3 * scale / np.maximum(np.abs(POINTS), 1))
    for j, base in enumerate((location, scale)):
        for i in range(2):

            def along(x, i=i, j=j):
                return gradient(x, scale)[i] if j == 0 else gradient(location, x)[i]

            want = central_difference(along, base, steps[j])
            # truncation of the quotient, and the rounding of the gradient divided by the step
            allowed = 3e-6 * np.abs(want) + 1e-14 * np.abs(along(base)) / steps[j]
            assert np.all(np.abs(hessian[i][j] - want) <= allowed)


def test_moments_and_their_jacobian():
    g, v = special.standard_moments(POINTS)
    _, (dg, dv) = jax.jit(lambda x: jax.jvp(special.standard_moments, (x,), (jnp.ones_like(x),)))(POINTS)
    assert_allclose(dg, v, rtol=1e-15)
    assert_allclose(dv, kernels.third(POINTS), rtol=1e-14)
    assert_allclose(g, special.truncated_mean(POINTS, 1.0), rtol=1e-15)


BOTH = [f"{name} {dtype}" for name in TWO for dtype in ("float32", "float64")]


# a rule of each kind, one in each precision
@pytest.mark.parametrize("case", few(BOTH, "truncated_mean float32", "truncated_log_z float64"))
def test_transformations_agree(case):
    name, dtype = case.split()
    f = getattr(special, name)
    mu = POINTS.astype(dtype)
    plain = f(mu, 1.5)
    sigma = np.full_like(mu, 1.5)
    eps = 4 * np.finfo(dtype).eps
    assert_allclose(jax.jit(f)(mu, 1.5), plain, rtol=eps, atol=eps)
    assert_allclose(jax.jit(jax.vmap(f))(mu, sigma), plain, rtol=eps, atol=eps)
    reverse = jax.jit(jax.vmap(jax.grad(f)))(mu, sigma)
    forward = jax.jit(lambda x, s: jax.jvp(lambda y: f(y, s), (x,), (jnp.ones_like(x),))[1])(mu, sigma)
    assert_allclose(forward, reverse, rtol=eps, atol=0)
