"""Methods for several layers against the supplement's gradients, corrected, written out in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.models.small_models import EP, S0, drawn_model, numbers
from tests.models.textbook import truncated
from tests.training.derivatives import assert_gradient
from tggm.training import METHODS, Options, Rows

S1 = 0.3
BEGIN = jnp.zeros(())  # of training


def cycles(P, gamma, free=()):
    """The paper's coordinate updates to the end: means and variances of the factors; `free` are Gaussian."""
    mean, sigma = np.ones(len(gamma)), 1 / np.sqrt(np.diag(P))
    for _ in range(5000):
        before = mean.copy()
        for k in range(len(gamma)):
            xi = (gamma[k] - P[k] @ mean + P[k, k] * mean[k]) / P[k, k]
            mean[k] = xi if k in free else truncated(xi, sigma[k])[0]
        if np.abs(mean - before).max() < 1e-13:
            break
    xi = (gamma - P @ mean + np.diag(P) * mean) / np.diag(P)
    var = np.where([k in free for k in range(len(mean))], sigma**2, truncated(xi, sigma)[1])
    return mean, var


def supplement(layers, x):
    """Q and β of the supplement for any number of hidden layers."""
    W, b = [np.asarray(w) for w in layers.W], [np.asarray(v) for v in layers.b]
    sizes = [len(layers.b0), *map(len, b)]
    ends = np.cumsum([0, *sizes])
    Q, beta = np.eye(ends[-1]), np.zeros(ends[-1])
    beta[: ends[1]] = np.asarray(layers.W0) @ x + np.asarray(layers.b0)
    for i in range(len(W)):
        low, high = slice(ends[i], ends[i + 1]), slice(ends[i + 1], ends[i + 2])
        Q[low, low] += W[i].T @ W[i]
        Q[high, low], Q[low, high] = -W[i], -W[i].T
        beta[low] -= W[i].T @ b[i]
        beta[high] += b[i]
    return Q / S0, beta / S0, ends


def moments(mean, var):
    return mean, np.outer(mean, mean) + np.diag(var)


def hidden_gradients(layers, x, prior, posterior, ends):
    """The supplement's ∂Q/∂W0, ∂b0 and those between hidden layers, of one row."""
    (m0, s0), (m1, s1) = prior, posterior
    first = slice(0, ends[1])
    found = {"W0": np.outer(m1[first] - m0[first], x) / S0, "b0": (m1[first] - m0[first]) / S0}
    W, b = [], []
    for i in range(len(layers.W)):
        low, high = slice(ends[i], ends[i + 1]), slice(ends[i + 1], ends[i + 2])
        w, v = np.asarray(layers.W[i]), np.asarray(layers.b[i])
        second = w @ (s1[low, low] - s0[low, low]) - (s1[high, low] - s0[high, low])
        W.append(-(np.outer(v, m1[low] - m0[low]) + second) / S0)
        b.append(-(w @ (m1[low] - m0[low]) - (m1[high] - m0[high])) / S0)
    return found, W, b


@pytest.mark.slow  # with classes, below
def test_regression_gradients_of_the_supplement(rng):
    """Its Eqs. for a deep model, with the output's own variance σ1² in the output's blocks."""
    params = drawn_model(rng, (3, 4, 2), form="undirected")
    X, Y = rng.standard_normal((2, 3)), rng.standard_normal((2, 2))
    objective = METHODS["meanfield"](Options(prior="same"))
    rows = Rows(jnp.asarray(X), jnp.asarray(Y))
    got = jax.jit(jax.grad(lambda p: objective(p, rows, BEGIN).sum()))(params)
    W2, b2 = numbers(params, "W1", "b1")
    total = None
    for x, y in zip(X, Y, strict=True):
        Q, beta, ends = supplement(params.hidden, x)
        last = slice(ends[-2], ends[-1])
        P, gamma = Q.copy(), beta.copy()
        P[last, last] += W2.T @ W2 / S1
        gamma[last] += W2.T @ (y - b2) / S1
        prior, posterior = moments(*cycles(Q, beta)), moments(*cycles(P, gamma))
        found, W, b = hidden_gradients(params.hidden, x, prior, posterior, ends)
        m, s = posterior[0][last], posterior[1][last, last]
        found |= {"W1": (np.outer(y - b2, m) - W2 @ s) / S1, "b1": (y - b2 - W2 @ m) / S1}
        row = [*found.values(), *W, *b]
        total = row if total is None else [a + r for a, r in zip(total, row, strict=True)]
    require_gradients(got, total)


def require_gradients(got, total):
    """Those of all arrays are what the supplement's formulas add up to."""
    hidden, output = got.hidden, got.likelihood.output
    leaves = [hidden.W0, hidden.b0, output.W1, output.b1, *hidden.W, *hidden.b]
    for have, want in zip(leaves, total, strict=True):
        assert_allclose(have, want, rtol=1e-6, atol=1e-7)


def test_class_gradients_of_the_supplement(rng):
    """q(s) factorised, s = T z: P_i and γ_i with the output's blocks not divided by σ0²."""
    params = drawn_model(rng, (3, 4, 2), 3, likelihood="probit", form="undirected")
    X, label = rng.standard_normal((2, 3)), np.array([2, 0])
    objective = METHODS["meanfield"](Options(prior="same", factorised=True))
    rows = Rows(jnp.asarray(X), jnp.asarray(label, jnp.int32))
    got = jax.jit(jax.grad(lambda p: objective(p, rows, BEGIN).sum()))(params)
    W2, b2 = numbers(params, "W1", "b1")
    total = None
    for x, c in zip(X, label, strict=True):
        Q, beta, ends = supplement(params.hidden, x)
        M, last = ends[-1], slice(ends[-2], ends[-1])
        T = -np.eye(3)
        T[:, c] = 1  # s_c = z_c, s_j = z_c − z_j: its own inverse
        P = np.zeros((M + 3, M + 3))
        P[:M, :M] = Q
        P[last, last] += W2.T @ W2
        P[M:, last] = -T.T @ W2
        P[last, M:] = P[M:, last].T
        P[M:, M:] = T.T @ T  # (T Tᵀ)⁻¹, T being its own inverse
        gamma = np.concatenate([beta, T.T @ b2])
        gamma[last] -= W2.T @ b2
        v, var = cycles(P, gamma, free=(M + c,))
        prior, posterior = moments(*cycles(Q, beta)), moments(v[:M], var[:M])
        found, W, b = hidden_gradients(params.hidden, x, prior, posterior, ends)
        z, m, s = T @ v[M:], v[last], posterior[1][last, last]
        found |= {"W1": np.outer(z - b2, m) - W2 @ s, "b1": z - b2 - W2 @ m}
        row = [*found.values(), *W, *b]
        total = row if total is None else [a + r for a, r in zip(total, row, strict=True)]
    require_gradients(got, total)


@pytest.mark.slow  # of one layer: test_methods.py
def test_back_propagation_through_the_prior(rng):
    """No iteration is differentiated, yet the derivative of E[y|x] is right."""
    model = drawn_model(rng, (4, 3), form="undirected")
    rows = Rows(jnp.asarray(rng.standard_normal((3, 3))), jnp.asarray(rng.standard_normal((3, 2))))
    objective = METHODS["bp"](Options())
    assert_gradient(lambda m: objective(m, rows, BEGIN).sum(), model, rng)


def test_gradient_of_ep_for_classes(rng):
    model = drawn_model(rng, (4, 3), 3, likelihood="probit", form="undirected")
    rows = Rows(jnp.asarray(rng.standard_normal((3, 3))), jnp.asarray([0, 2, 1], jnp.int32))
    objective = METHODS["ep"](Options())
    assert_gradient(lambda m: objective(m, rows, BEGIN).sum(), model, rng)


def test_held_out_rows_are_judged_by_what_is_predicted(rng):
    """By the moments of the engine that trains."""
    model = drawn_model(rng, (4, 3), form="undirected")
    rows = Rows(jnp.asarray(rng.standard_normal((3, 3))), jnp.asarray(rng.standard_normal((3, 2))))
    got = jax.jit(METHODS["ep"](Options()).score)(model, rows)
    want = jax.jit(lambda m: m.likelihood.by_moments(rows.y, m.latent(rows.X, EP)))(model)
    assert_allclose(got, want, rtol=1e-10)
