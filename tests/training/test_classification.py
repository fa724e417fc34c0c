"""Objectives for classes against the supplement's gradients (corrected) and against their own values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special, stats
from tggm.training.classification import CLASS_METHODS, ClassContext, Labelled, training_nodes

from tggm.models import Shallow
from tggm.special.probit import default_nodes, log_probit

S0 = 0.7


def problem(rng, rows=5, d=3, m=4, n=3):
    shapes = ((m, d), (m,), (n, m), (n,))
    params = Shallow(*(jnp.asarray(rng.standard_normal(s)) for s in shapes), jnp.zeros(n))
    return params, Labelled(
        jnp.asarray(rng.standard_normal((rows, d))), jnp.asarray(rng.integers(0, n, rows))
    )


def context(cycles=500.0):
    return ClassContext(jnp.asarray(S0), jnp.asarray(cycles), jnp.asarray(cycles))


def gradient(objective, params, rows):
    return jax.jit(jax.grad(lambda p: objective(p, rows, context()).sum()))(params)


def truncated(mu, sigma):
    """Mean and variance of N_T(mu, sigma²) by the textbook, with scipy."""
    alpha = mu / sigma
    r = np.exp(stats.norm.logpdf(alpha) - special.log_ndtr(alpha))
    return mu + sigma * r, sigma**2 * (1 - alpha * r - r**2)


def class_matrix(n, c):
    """T_c of the supplement: −I with the c-th column set to one."""
    T = -np.eye(n)
    T[:, c] = 1
    return T


def supplement_posterior(W1, b1, a, c, cycles=2000):
    """E[h], Var[h] and E[z] of one row by the supplement's cyclic updates of v = (h, s).

    P_i with −W1ᵀ T_i⁻¹ off the diagonal (the paper prints −W1ᵀ); every v_k is truncated but s_c.
    """
    n, m = W1.shape
    T = class_matrix(n, c)
    inverse = np.linalg.inv(T)
    P = np.block([[np.eye(m) / S0 + W1.T @ W1, -W1.T @ inverse], [-inverse.T @ W1, np.linalg.inv(T @ T.T)]])
    gamma = np.r_[a / S0 - W1.T @ b1, inverse.T @ b1]
    p, mean = np.diag(P), np.ones(m + n)
    for _ in range(cycles):
        before = mean.copy()
        for k in range(m + n):
            xi = (gamma[k] - P[k] @ mean + p[k] * mean[k]) / p[k]
            mean[k] = xi if k == m + c else truncated(xi, 1 / np.sqrt(p[k]))[0]
        if np.abs(mean - before).max() < 1e-13:
            break
    xi = (gamma - P @ mean + p * mean) / p
    return mean[:m], truncated(xi, 1 / np.sqrt(p))[1][:m], inverse @ mean[m:]


@pytest.mark.parametrize("solver", ["newton", "cyclic"])
def test_factorised_gradients_are_the_supplements(rng, solver):
    params, rows = problem(rng)
    W0, b0, W1, b1, _ = map(np.asarray, params)
    X, label = map(np.asarray, rows)
    a = X @ W0.T + b0[None, :]
    parts = [supplement_posterior(W1, b1, a[i], label[i]) for i in range(len(X))]
    h, v, z = (np.array(part) for part in zip(*parts, strict=True))
    prior_h = truncated(a, np.sqrt(S0))[0]
    hh = h.T @ h + np.diag(v.sum(0))
    got = gradient(CLASS_METHODS["meanfield"](factorised=True, solver=solver), params, rows)
    assert_allclose(got.W0, (h - prior_h).T @ X / S0, rtol=1e-5, atol=1e-7)
    assert_allclose(got.b0, (h - prior_h).sum(0) / S0, rtol=1e-5, atol=1e-7)
    assert_allclose(got.W1, (z - b1[None, :]).T @ h - W1 @ hh, rtol=1e-5, atol=1e-7)
    assert_allclose(got.b1, (z - b1[None, :] - h @ W1.T).sum(0), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", ["bp", "moments", "meanfield", "ep"])
def test_gradients_are_those_of_the_values(rng, method):
    params, rows = problem(rng)
    objective = CLASS_METHODS[method]()
    both = jax.jit(jax.value_and_grad(lambda p: objective(p, rows, context()).sum()))
    got = both(params)[1]
    way = jax.tree.map(lambda a: jnp.asarray(rng.standard_normal(a.shape)), params)._replace(
        log_noise=jnp.zeros(3)
    )
    eps = 1e-4
    ends = [both(jax.tree.map(lambda p, u, e=e: p + e * u, params, way))[0] for e in (eps, -eps)]
    slope = sum(jnp.vdot(g, u) for g, u in zip(got, way, strict=True))
    assert_allclose(slope, (ends[0] - ends[1]) / (2 * eps), rtol=1e-4, atol=1e-5)


def test_back_propagation_treats_latents_as_known(rng):
    params, rows = problem(rng)
    a = np.asarray(rows.X @ params.W0.T + params.b0[None, :])
    h, v = truncated(a, np.sqrt(S0))
    eta = jnp.asarray(h) @ params.W1.T + params.b1[None, :]
    want = log_probit(eta, jnp.ones_like(eta), rows.label)
    assert_allclose(CLASS_METHODS["bp"]()(params, rows, context()), want, atol=1e-4)
    # and the gradient is that of the chain rule: E[z | c] − η through the derivative ω² of the activation
    error = jax.jit(jax.grad(lambda e: log_probit(e, jnp.ones_like(e), rows.label).sum()))(eta)
    got = gradient(CLASS_METHODS["bp"](), params, rows)
    assert_allclose(
        got.W0, ((np.asarray(error) @ np.asarray(params.W1)) * v / S0).T @ np.asarray(rows.X), atol=2e-3
    )
    assert_allclose(got.W1, np.asarray(error).T @ h, atol=2e-3)


def test_held_out_rows_are_judged_by_what_is_predicted(rng):
    params, rows = problem(rng)
    want = CLASS_METHODS["moments"]()(params, rows, context())
    for method in ("meanfield", "ep"):
        assert_allclose(CLASS_METHODS[method]().score(params, rows, context()), want)


@pytest.mark.parametrize("n", [2, 10, 30])
def test_training_nodes_suffice(rng, n):
    eta = jnp.asarray(4 * rng.standard_normal((50, n)), jnp.float32)
    std = jnp.asarray(rng.uniform(1, 3, (50, n)), jnp.float32)
    label = jnp.asarray(rng.integers(0, n, 50), jnp.int32)
    assert training_nodes(n) < default_nodes(n, "float32")
    quick = log_probit(eta, std, label, n_nodes=training_nodes(n), n_steps=3)
    assert_allclose(quick, log_probit(eta, std, label), atol=2e-3)


def test_cycles_fall_evenly():
    at = ClassContext(jnp.asarray(1.0), jnp.asarray(30.0), jnp.asarray(5.0)).at
    assert_allclose([at(jnp.asarray(p)).n_cycles for p in (0.0, 0.5, 1.0)], [30, 17.5, 5])
