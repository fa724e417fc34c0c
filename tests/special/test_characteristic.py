"""The truncated normal at complex arguments against mpmath."""

from functools import partial

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.special.characteristic import laplace, log_mass, mass, numerator, numerator_moments

ALPHAS = [-1e8, -3e3, -40.0, -31.0, -8.0, -2.0, -1e-3, 0.0, 0.7, 1.9, 2.5, 6.0, 9.0, 31.0, 40.0, 1e3, 1e8]
TAUS = [0.0, 1e-6, 0.3, -2.8, 7.3, 35.0, -1e3, 1e6]


def log_erfcx(x: mp.mpc) -> mp.mpc:
    if x.real < 0:
        a, b = log_erfcx(-x), x * x + mp.log(2)
        top = max(a.real, b.real)
        return top + mp.log(mp.exp(b - top) - mp.exp(a - top))
    if abs(x) < 12:
        with mp.workdps(40 + int(abs(x) ** 2)):
            return mp.log(mp.exp(x * x) * mp.erfc(x))
    series = sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(60))
    return mp.log(series / x / mp.sqrt(mp.pi))


def reference(alpha: float, tau: float) -> tuple[complex, complex, complex]:
    """Return the numerator, g and ω² by the textbook formulas in 80 digits."""
    with mp.workdps(80):
        z = mp.mpc(alpha, tau)
        log = log_erfcx(-z / mp.sqrt(2))
        r = mp.sqrt(2 / mp.pi) * mp.exp(-log)
        g = z + r
        if alpha > 0:  # E[e^{iτh}] = e^{L(z) − L(α)}, e^L = ½ erfcx(−z/√2), times e^{−iτα} Φ(α)
            log = log - mp.log(2) - mp.mpf(alpha) ** 2 / 2 - mp.mpc(0, mp.mpf(alpha) * tau)
        return mp.exp(log), g, 1 - r * g


@pytest.fixture(scope="module")
def table():
    alpha, tau = (a.ravel() for a in np.meshgrid(ALPHAS, TAUS))
    want = [[complex(x) for x in reference(a, t)] for a, t in zip(alpha, tau, strict=True)]
    return alpha, tau, *np.array(want).T


def test_numerator_matches_mpmath(table):
    alpha, tau, want, _, _ = table
    got = np.asarray(jax.jit(numerator)(alpha, tau))
    # on the right it is a difference of terms of at most 1, on the left one term
    assert_allclose(np.abs(got - want) / np.where(alpha > 0, 1, np.abs(want)), 0, atol=4e-15)


def test_moments_match_mpmath(table):
    alpha, tau, _, g, omega2 = table
    centre = np.maximum(alpha, 0) + 0.1
    N, first, second = map(np.asarray, jax.jit(numerator_moments)(alpha, tau, centre))
    assert_allclose(N, np.asarray(jax.jit(numerator)(alpha, tau)), rtol=1e-15, atol=1e-15)
    # far from the real line N is negligible on the right, where only products with it have digits
    weight = np.minimum(np.abs(N), 1)
    assert_allclose(np.abs(first - g) / (1 + np.abs(g)) * weight, 0, atol=1e-12)
    away = omega2 + (g - centre) ** 2
    assert_allclose(np.abs(second - away) / (1 + np.abs(away)) * weight, 0, atol=2e-12)


def test_mass_is_the_numerator_at_zero():
    alpha = np.array(ALPHAS)
    at_zero = np.asarray(jax.jit(numerator)(alpha, np.zeros_like(alpha))).real
    got, log = (np.asarray(jax.jit(f)(alpha)) for f in (mass, log_mass))
    assert_allclose(got, at_zero, rtol=4e-15)
    assert_allclose(log, np.log(np.where(alpha > 0, 1, 0.5) * at_zero), rtol=1e-14, atol=1e-15)


def test_kernel_has_relative_accuracy():
    # J_n = (-1)^n / 2^n d^n/dx^n erfcx, along rays into the far right half-plane
    kernel = jax.jit(partial(laplace, order=2))
    for x, y in [(0.0, 0.0), (0.0, 4.0), (3.0, -9.0), (0.0, 1e5), (1e7, 1e7), (1e-9, 40.0)]:
        with mp.workdps(120):
            X = mp.mpc(x, y)
            e = mp.exp(log_erfcx(X))
            J1 = 1 / mp.sqrt(mp.pi) - X * e
            J2 = e / 2 - X * J1
        got = kernel(jnp.float64(x), jnp.float64(y))
        for a, b, tol in zip(got, (e, J1, J2), (4e-15, 4e-14, 2e-12), strict=True):
            assert abs(complex(a) / complex(b) - 1) < tol


def test_single_precision_agrees_with_double():
    alpha, tau = np.meshgrid(np.float32([-1e6, -50, -3, 0, 1, 4, 30, 1e6]), np.float32([0, 0.1, 2, 9, 100]))
    got = np.asarray(jax.jit(numerator)(alpha, tau))
    assert got.dtype == np.complex64
    want = np.asarray(jax.jit(numerator)(alpha.astype(float), tau.astype(float)))
    assert_allclose(np.abs(got - want) / np.where(alpha > 0, 1, np.abs(want)), 0, atol=3e-6)
