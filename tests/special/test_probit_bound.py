"""Expansions of the probit against differentiation, its factorised bound against the paper's matrices."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose
from scipy import special, stats

from tggm.special.probit import log_probit
from tggm.special.probit_bound import exact, factorised


def problem(rng, rows=6, n=5):
    return jnp.asarray(2 * rng.standard_normal((rows, n))), jnp.asarray(rng.integers(0, n, rows))


def test_exact_expansion_is_the_derivatives_of_log_probit(rng):
    eta, label = problem(rng)
    got = exact(eta, label, n_nodes=64, n_steps=6)

    def one(row, c):
        return log_probit(row[None], jnp.ones_like(row)[None], c[None])[0]

    both = jax.jit(jax.vmap(jax.value_and_grad(one)))
    value, gradient = both(eta, label)
    assert_allclose(got.value, value, rtol=1e-10)
    assert_allclose(got.gradient, gradient, rtol=1e-8, atol=1e-12)
    step = 1e-5
    for j in range(5):
        ends = [both(eta.at[:, j].add(e), label)[1] for e in (step, -step)]
        assert_allclose(got.hessian[:, j], (ends[0] - ends[1]) / (2 * step), atol=1e-8)
    assert np.all(np.linalg.eigvalsh(got.hessian) < 1e-10)  # concave
    assert np.all(np.linalg.eigvalsh(got.hessian) > -1 - 1e-10)  # Cov[z | c] = I + Hessian


def class_matrix(n, c):
    """T_c of the supplement: −I with the c-th column set to one."""
    T = -np.eye(n)
    T[:, c] = 1
    return T


def test_class_matrix_is_its_own_inverse():
    for c in range(4):
        assert_allclose(class_matrix(4, c) @ class_matrix(4, c), np.eye(4))


def mean_field_on_s(eta, c, cycles=400):
    """The supplement's q(s), s = T_c z, by cycling over its coordinates; E[z] and the bound on log P_c."""
    n = len(eta)
    T = class_matrix(n, c)
    P, gamma = np.linalg.inv(T @ T.T), np.linalg.inv(T).T @ eta
    mean = np.ones(n)
    p = np.diag(P)
    for _ in range(cycles):
        for k in range(n):
            theta = gamma[k] - P[k] @ mean + p[k] * mean[k]
            alpha = theta / np.sqrt(p[k])
            wall = 0.0 if k == c else np.exp(stats.norm.logpdf(alpha) - special.log_ndtr(alpha))
            mean[k] = (alpha + wall) / np.sqrt(p[k])
    theta = gamma - P @ mean + p * mean
    log_wall = np.where(np.arange(n) == c, 0.0, special.log_ndtr(theta / np.sqrt(p)))
    A = 0.5 * np.log(2 * np.pi / p) + theta**2 / (2 * p) + log_wall
    coupling = 0.5 * mean @ (P - np.diag(p)) @ mean
    bound = (A.sum() + coupling) - 0.5 * eta @ eta - 0.5 * n * np.log(2 * np.pi)  # |det T| = 1
    return np.linalg.inv(T) @ mean, bound


def test_factorised_bound_is_the_supplements(rng):
    eta, label = problem(rng, rows=5, n=4)
    got = factorised(eta, label, n_steps=12)
    for i in range(5):
        z, bound = mean_field_on_s(np.asarray(eta[i]), int(label[i]))
        assert_allclose(got.value[i], bound, rtol=1e-9)
        assert_allclose(eta[i] + got.gradient[i], z, rtol=1e-7, atol=1e-9)
    assert np.all(got.value < exact(eta, label, n_nodes=64, n_steps=6).value)


def test_factorised_derivatives(rng):
    eta, label = problem(rng)
    got = factorised(eta, label, n_steps=12)
    step = 1e-5
    for j in range(5):
        ends = [factorised(eta.at[:, j].add(e), label, n_steps=12) for e in (step, -step)]
        assert_allclose(got.gradient[:, j], (ends[0].value - ends[1].value) / (2 * step), atol=1e-8)
        assert_allclose(got.hessian[:, j], (ends[0].gradient - ends[1].gradient) / (2 * step), atol=1e-8)
