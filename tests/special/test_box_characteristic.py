"""The characteristic function of a normal between two limits, against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad

from tggm.special.box_characteristic import box_characteristic

ALPHA = np.array([0.3, -3.9, -9.0, 7.0, 0.5, 25.0])
LOWER = np.array([-4.0, -4.0, -4.0, -4.0, 0.0, -2.0])
UPPER = np.array([4.0, 4.0, 4.0, 4.0, 0.5, 2.0])
TAU = np.array([0.0, 0.7, -2.5, 9.0])


def by_quadrature(alpha, lower, upper, tau):
    q = np.clip(alpha, lower, upper)
    top = 0.5 * (q - alpha) ** 2

    def part(f):
        def integrand(h):
            return np.exp(top - 0.5 * (h - alpha) ** 2) * f(tau * (h - q))

        return quad(integrand, lower, upper, points=[q], epsabs=1e-13, epsrel=1e-13, limit=400)[0]

    return (part(np.cos) + 1j * part(np.sin)) / part(lambda x: 1.0 + 0 * x)


def test_characteristic_by_quadrature():
    with jax.enable_x64(True):
        tau = jnp.broadcast_to(jnp.asarray(TAU), (len(ALPHA), len(TAU)))
        got = np.asarray(jax.jit(box_characteristic)(*map(jnp.asarray, (ALPHA, LOWER, UPPER)), tau))
    want = [[by_quadrature(*row, t) for t in TAU] for row in zip(ALPHA, LOWER, UPPER, strict=True)]
    np.testing.assert_allclose(got, np.array(want), rtol=0, atol=2e-12)
    np.testing.assert_allclose(got[:, 0], 1, rtol=1e-12)
