import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import log_ndtr as reference_log_ndtr

from tests.inference.grid_witness import random_precision
from tggm.inference.orthant.ordering import ordered_cholesky
from tggm.inference.orthant.tilting import minimax_tilt


def psi(z, mu, U, c):
    below = U - jnp.eye(len(c))
    return (mu * mu / 2 - mu * z + reference_log_ndtr(-(c - below @ z - mu))).sum()


slopes = jax.jit(jax.grad(psi, argnums=(0, 1)))
ordered, tilt = jax.jit(ordered_cholesky), jax.jit(minimax_tilt)


@jax.jit
def _ascend(z, mu, U, c):
    slope, curvature = jax.grad(psi)(z, mu, U, c), jax.hessian(psi)(z, mu, U, c)
    return z.at[:-1].add(
        -jnp.linalg.solve(curvature[:-1, :-1], slope[:-1])
    )  # psi does not depend on the last


@pytest.mark.parametrize("level", [-3.0, 0.0, 2.0, 6.0])
def test_tilt_is_the_saddle_point(rng, level):
    m = 12
    covariance = np.linalg.inv(random_precision(rng, m))
    L = np.asarray(ordered(covariance, np.full(m, -level), np.ones(m, bool))[0])
    U, c = L / np.diag(L)[:, None], level / np.diag(L)
    mu = tilt(U, c, np.ones(m, bool))
    # z maximises psi at this mu: Newton on the concave inner problem, by automatic differentiation
    z = mu
    for _ in range(20):
        z = _ascend(z, mu, U, c)
    g_z, g_mu = map(np.asarray, slopes(z, mu, U, c))
    assert np.abs(g_z[:-1]).max() < 1e-8
    assert np.abs(g_mu[:-1]).max() < 1e-4 * (1 + abs(level))
    assert abs(float(mu[-1])) < 1e-12 * (1 + abs(level))  # the last variable has nothing after it to tilt for


def test_ordered_cholesky_factorises_and_leaves_free_variables_to_the_end(rng):
    m = 7
    covariance = np.linalg.inv(random_precision(rng, m))
    truncated = np.array([1, 0, 1, 1, 0, 1, 1], bool)
    L, order = ordered_cholesky(
        jnp.asarray(covariance), jnp.asarray(rng.standard_normal(m)), jnp.asarray(truncated)
    )
    assert sorted(order.tolist()) == list(range(m))
    assert not truncated[np.asarray(order)[-2:]].any()
    np.testing.assert_allclose(L @ L.T, covariance[np.ix_(order, order)], rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(jnp.triu(L, 1), 0)


def test_least_likely_variable_comes_first():
    mean = jnp.asarray([1.0, -2.0, 0.5])
    _, order = ordered_cholesky(jnp.eye(3), mean, jnp.ones(3, bool))
    assert order.tolist() == [1, 2, 0]
