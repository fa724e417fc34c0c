"""The truncated normal at complex arguments against mpmath."""

from functools import partial

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.special import complex_moments, log_characteristic
from tggm.special.characteristic import laplace, mass, numerator, numerator_moments

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
    return mp.log(
        sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(60)) / x / mp.sqrt(mp.pi)
    )


def reference(alpha: float, tau: float) -> tuple[complex, complex, complex]:
    """Return log characteristic function, g and omega^2, by the textbook formulas in 80 digits."""
    with mp.workdps(80):
        z = mp.mpc(alpha, tau)
        log = log_erfcx(-z / mp.sqrt(2))
        r = mp.sqrt(2 / mp.pi) * mp.exp(-log)
        g = z + r
        return log - log_erfcx(-mp.mpc(alpha) / mp.sqrt(2)), g, 1 - r * g


@pytest.fixture(scope="module")
def table():
    alpha, tau = (a.ravel() for a in np.meshgrid(ALPHAS, TAUS))
    return alpha, tau, [reference(a, t) for a, t in zip(alpha, tau, strict=True)]


def test_log_characteristic_matches_mpmath(table):
    alpha, tau, want = table
    got = np.asarray(log_characteristic(alpha, tau))
    for a, t, g, (w, _, _) in zip(alpha, tau, got, want, strict=True):
        d = mp.mpc(g) - w
        turn = (d.imag + mp.pi) % (2 * mp.pi) - mp.pi  # the branch is free
        scale = max(
            1.0, abs(a * t), float(abs(w))
        )  # one rounding of the phase a t, or of the logarithm itself
        assert float(abs(mp.mpc(d.real, turn))) <= 2e-14 * scale, (a, t)


def test_complex_moments_match_mpmath(table):
    alpha, tau, want = table
    g, v = (np.asarray(x) for x in complex_moments(alpha, tau))
    assert_allclose(g, np.array([complex(w[1]) for w in want]), rtol=1e-12)
    # omega^2 passes near zeros of its own; there its error is relative to 1 + |g|^2
    want_v = np.array([complex(w[2]) for w in want])
    assert_allclose(np.abs(v - want_v) / np.abs(want_v), 0, atol=2e-12)


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


def test_numerator_is_the_characteristic_function_times_mass():
    alpha, tau = np.array([-20.0, -1.0, 0.5, 3.0, 8.0]), np.array([1.3, -4.0, 2.0, 3.0, 0.1])
    psi = np.exp(np.asarray(log_characteristic(alpha, tau)))
    shifted = psi * np.exp(-1j * np.maximum(alpha, 0) * tau) * np.asarray(jax.jit(mass)(alpha))
    assert_allclose(np.asarray(jax.jit(numerator)(alpha, tau)), shifted, rtol=1e-13)
    g, v = complex_moments(alpha, tau)
    c = np.array([0.1, 0.0, 1.0, 3.0, 8.0])
    N, first, second = jax.jit(numerator_moments)(alpha, tau, c)
    assert_allclose(np.asarray(N), shifted, rtol=1e-13)
    assert_allclose(np.asarray(first), np.asarray(g), rtol=1e-12)
    assert_allclose(np.asarray(second), np.asarray(v) + (np.asarray(g) - c) ** 2, rtol=1e-11, atol=1e-12)


def test_derivatives_are_finite_differences():
    def parts(a, t):
        log = log_characteristic(a, t)
        return jnp.stack([log.real, log.imag])

    value = jax.jit(parts)
    forward, reverse = (jax.jit(way(parts, argnums=(0, 1))) for way in (jax.jacfwd, jax.jacrev))
    for a, t in [(-30.0, 4.0), (-0.5, 1.0), (0.4, -2.0), (2.0, 1.0), (12.0, 3.0)]:
        h = 1e-5
        got, back = forward(a, t), reverse(a, t)
        ends = ((a + h, t), (a - h, t), (a, t + h), (a, t - h))
        right, left, up, down = (np.asarray(value(*end)) for end in ends)
        want = [(right - left) / (2 * h), (up - down) / (2 * h)]
        assert_allclose(np.array(got), np.array(want), rtol=1e-7, atol=1e-8)
        assert_allclose(np.array(back), np.array(got), rtol=1e-12, atol=1e-14)


def test_single_precision_agrees_with_double():
    alpha, tau = np.meshgrid(np.float32([-1e6, -50, -3, 0, 1, 4, 30, 1e6]), np.float32([0, 0.1, 2, 9, 100]))
    got = np.asarray(log_characteristic(alpha, tau))
    assert got.dtype == np.complex64
    want = np.asarray(log_characteristic(alpha.astype(float), tau.astype(float)))
    scale = np.maximum(1, np.maximum(np.abs(alpha * tau), np.abs(want)))
    assert np.all(np.isfinite(got))
    assert_allclose((got.real - want.real) / scale, 0, atol=3e-6)
    assert_allclose(np.abs(np.exp(1j * (got.imag - want.imag)) - 1) / scale, 0, atol=3e-6)
