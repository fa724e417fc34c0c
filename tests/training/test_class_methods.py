"""Methods for classes against the supplement's gradients (corrected) and against their own values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.cases import few
from tests.models.small_models import S0, numbers, random_model
from tests.models.textbook import truncated
from tests.training.derivatives import assert_gradient
from tggm.special.probit import log_probit
from tggm.training import METHODS, Options, Rows

BEGIN = jnp.zeros(())  # of training


def problem(rng, rows=5, m=4, n=3):
    X, label = rng.standard_normal((rows, 3)), rng.integers(0, n, rows)
    return random_model(rng, m=m, n=n, likelihood="probit"), Rows(jnp.asarray(X), jnp.asarray(label))


def gradient(objective, model, rows):
    """By the names of the arrays."""
    grad = jax.jit(jax.grad(lambda m: objective(m, rows, BEGIN).sum()))(model)
    return {name.rpartition(".")[2]: a for name, a in grad.arrays().items()}


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


@pytest.mark.parametrize("solver", few(["newton", "cyclic"], "newton"))  # both: test_methods.py
def test_factorised_gradients_are_the_supplements(rng, solver):
    model, rows = problem(rng)
    W0, b0, W1, b1 = numbers(model, "W0", "b0", "W1", "b1")
    X, label = map(np.asarray, rows)
    a = X @ W0.T + b0[None, :]
    parts = [supplement_posterior(W1, b1, a[i], label[i]) for i in range(len(X))]
    h, v, z = (np.array(part) for part in zip(*parts, strict=True))
    prior_h = truncated(a, np.sqrt(S0))[0]
    hh = h.T @ h + np.diag(v.sum(0))
    options = Options(solver, (500, 500), factorised=True)
    got = gradient(METHODS["meanfield"](options), model, rows)
    assert_allclose(got["W0"], (h - prior_h).T @ X / S0, rtol=1e-5, atol=1e-7)
    assert_allclose(got["b0"], (h - prior_h).sum(0) / S0, rtol=1e-5, atol=1e-7)
    assert_allclose(got["W1"], (z - b1[None, :]).T @ h - W1 @ hh, rtol=1e-5, atol=1e-7)
    assert_allclose(got["b1"], (z - b1[None, :] - h @ W1.T).sum(0), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", ["bp", "moments", "meanfield", "ep"])
def test_gradients_are_those_of_the_values(rng, method):
    model, rows = problem(rng)
    objective = METHODS[method](Options())
    assert_gradient(lambda m: objective(m, rows, BEGIN).sum(), model, rng, eps=1e-4, rtol=1e-4, atol=1e-5)


@pytest.mark.slow  # its gradients are those of its values, above
def test_back_propagation_treats_units_as_known(rng):
    model, rows = problem(rng)
    W0, b0, W1, b1 = numbers(model, "W0", "b0", "W1", "b1")
    X = np.asarray(rows.X)
    h, v = truncated(X @ W0.T + b0, np.sqrt(S0))
    eta = jnp.asarray(h @ W1.T + b1)
    want = log_probit(eta, jnp.ones_like(eta), rows.y)
    bp = METHODS["bp"](Options())
    assert_allclose(jax.jit(bp)(model, rows, BEGIN), want, atol=1e-4)
    # and the gradient is that of the chain rule: E[z | c] − η through the derivative ω² of the activation
    error = np.asarray(jax.jit(jax.grad(lambda e: log_probit(e, jnp.ones_like(e), rows.y).sum()))(eta))
    got = gradient(bp, model, rows)
    assert_allclose(got["W0"], ((error @ W1) * v / S0).T @ X, atol=2e-3)
    assert_allclose(got["W1"], error.T @ h, atol=2e-3)


def test_held_out_rows_are_judged_by_the_moments(rng):
    model, rows = problem(rng)
    want = jax.jit(METHODS["moments"](Options()))(model, rows, BEGIN)
    for method in ("meanfield", "ep"):
        assert_allclose(jax.jit(METHODS[method](Options()).score)(model, rows), want)


def test_finish_has_no_noise_to_correct(rng):
    model, rows = problem(rng)
    members = jax.tree.map(lambda a: a[None], model)
    finished = METHODS["bp"](Options()).finish(members, lambda: rows)
    for name, a in members.arrays().items():
        assert_array_equal(finished.arrays()[name], a)
