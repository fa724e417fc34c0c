"""Deep objectives against the supplement's gradients, misprints corrected, written out in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special, stats
from tggm.models.deep import initial_deep
from tggm.training.classification import ClassContext, Labelled
from tggm.training.deep import DEEP_METHODS
from tggm.training.deep_classification import DEEP_CLASS_METHODS, UndirectedProbitMeanField

from tggm.training import Context, Rows

S0, S1 = 0.7, 0.3


def model(rng, hidden, n=2):
    drawn = initial_deep(rng, (3, *hidden, n), form="undirected", s0=S0, noise=S1)
    biases = tuple(0.5 * rng.standard_normal(b.shape) for b in drawn.b)
    return jax.tree.map(jnp.asarray, drawn._replace(b=biases))


def truncated(mu, sigma):
    alpha = mu / sigma
    r = np.exp(stats.norm.logpdf(alpha) - special.log_ndtr(alpha))
    return mu + sigma * r, sigma**2 * (1 - alpha * r - r**2)


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


def supplement(params, x):
    """Q and β of the supplement for any number of hidden layers."""
    W, b = [np.asarray(w) for w in params.W], [np.asarray(v) for v in params.b]
    sizes = [len(params.b0), *map(len, b)]
    ends = np.cumsum([0, *sizes])
    Q, beta = np.eye(ends[-1]), np.zeros(ends[-1])
    beta[: ends[1]] = np.asarray(params.W0) @ x + np.asarray(params.b0)
    for i in range(len(W)):
        low, high = slice(ends[i], ends[i + 1]), slice(ends[i + 1], ends[i + 2])
        Q[low, low] += W[i].T @ W[i]
        Q[high, low], Q[low, high] = -W[i], -W[i].T
        beta[low] -= W[i].T @ b[i]
        beta[high] += b[i]
    return Q / S0, beta / S0, ends


def moments(mean, var):
    return mean, np.outer(mean, mean) + np.diag(var)


def hidden_gradients(params, x, prior, posterior, ends):
    """The supplement's ∂Q/∂W0, ∂b0 and those between hidden layers, of one row."""
    (m0, s0), (m1, s1) = prior, posterior
    first = slice(0, ends[1])
    found = {"W0": np.outer(m1[first] - m0[first], x) / S0, "b0": (m1[first] - m0[first]) / S0}
    W, b = [], []
    for i in range(len(params.W)):
        low, high = slice(ends[i], ends[i + 1]), slice(ends[i + 1], ends[i + 2])
        w, v = np.asarray(params.W[i]), np.asarray(params.b[i])
        second = w @ (s1[low, low] - s0[low, low]) - (s1[high, low] - s0[high, low])
        W.append(-(np.outer(v, m1[low] - m0[low]) + second) / S0)
        b.append(-(w @ (m1[low] - m0[low]) - (m1[high] - m0[high])) / S0)
    return found, W, b


@pytest.mark.parametrize("hidden", [(4, 3), (3, 4, 2)])
def test_regression_gradients_of_the_supplement(rng, hidden):
    """Its Eqs. for a deep model, with the output's own variance σ1² in the output's blocks."""
    params = model(rng, hidden)
    X, Y = rng.standard_normal((2, 3)), rng.standard_normal((2, 2))
    objective = DEEP_METHODS["undirected"]["meanfield"](prior="same")
    rows = Rows(jnp.asarray(X), jnp.asarray(Y))
    got = jax.jit(jax.grad(lambda p: objective(p, rows, Context(jnp.asarray(S0))).sum()))(params)
    W2, b2 = np.asarray(params.W1), np.asarray(params.b1)
    total = None
    for x, y in zip(X, Y, strict=True):
        Q, beta, ends = supplement(params, x)
        last = slice(ends[-2], ends[-1])
        P, gamma = Q.copy(), beta.copy()
        P[last, last] += W2.T @ W2 / S1
        gamma[last] += W2.T @ (y - b2) / S1
        prior, posterior = moments(*cycles(Q, beta)), moments(*cycles(P, gamma))
        found, W, b = hidden_gradients(params, x, prior, posterior, ends)
        m, s = posterior[0][last], posterior[1][last, last]
        found |= {"W1": (np.outer(y - b2, m) - W2 @ s) / S1, "b1": (y - b2 - W2 @ m) / S1}
        row = [*found.values(), *W, *b]
        total = row if total is None else [a + r for a, r in zip(total, row, strict=True)]
    leaves = [got.W0, got.b0, got.W1, got.b1, *got.W, *got.b]
    for have, want in zip(leaves, total, strict=True):
        assert_allclose(have, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("hidden", [(4, 3), (3, 4, 2)])
def test_class_gradients_of_the_supplement(rng, hidden):
    """q(s) factorised, s = T z: P_i and γ_i with the output's blocks not divided by σ0²."""
    params = model(rng, hidden, n=3)
    X, label = rng.standard_normal((2, 3)), np.array([2, 0])
    objective = UndirectedProbitMeanField(prior="same", factorised=True)
    rows = Labelled(jnp.asarray(X), jnp.asarray(label, jnp.int32))
    context = ClassContext(*map(jnp.asarray, (S0, 30.0, 30.0)))
    got = jax.jit(jax.grad(lambda p: objective(p, rows, context).sum()))(params)
    W2, b2 = np.asarray(params.W1), np.asarray(params.b1)
    total = None
    for x, c in zip(X, label, strict=True):
        Q, beta, ends = supplement(params, x)
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
        found, W, b = hidden_gradients(params, x, prior, posterior, ends)
        z, m, s = T @ v[M:], v[last], posterior[1][last, last]
        found |= {"W1": np.outer(z - b2, m) - W2 @ s, "b1": z - b2 - W2 @ m}
        row = [*found.values(), *W, *b]
        total = row if total is None else [a + r for a, r in zip(total, row, strict=True)]
    leaves = [got.W0, got.b0, got.W1, got.b1, *got.W, *got.b]
    for have, want in zip(leaves, total, strict=True):
        assert_allclose(have, want, rtol=1e-6, atol=1e-7)


def directional(value, params, rng, eps=1e-5):
    """Derivative along a random direction, by the gradient and by a central difference; one program."""
    along = jax.tree.map(lambda a: jnp.asarray(rng.standard_normal(a.shape)), params)
    both = jax.jit(jax.value_and_grad(value))
    grad = both(params)[1]
    slope = sum(jax.tree.leaves(jax.tree.map(lambda g, u: float(jnp.vdot(g, u)), grad, along)))
    ends = [both(jax.tree.map(lambda p, u, e=e: p + e * u, params, along))[0] for e in (eps, -eps)]
    return slope, float(ends[0] - ends[1]) / (2 * eps)


def test_back_propagation_through_the_prior(rng):
    """No iteration is differentiated, yet the derivative of E[y|x] is right."""
    params = model(rng, (4, 3))
    rows = Rows(jnp.asarray(rng.standard_normal((3, 3))), jnp.asarray(rng.standard_normal((3, 2))))
    objective = DEEP_METHODS["undirected"]["bp"]()
    context = Context(jnp.asarray(S0))
    slope, difference = directional(lambda p: objective(p, rows, context).sum(), params, rng)
    assert_allclose(slope, difference, rtol=1e-5)


def test_gradient_of_ep_for_classes(rng):
    params = model(rng, (4, 3), n=3)._replace(log_noise=jnp.zeros(3))
    rows = Labelled(jnp.asarray(rng.standard_normal((3, 3))), jnp.asarray([0, 2, 1], jnp.int32))
    objective, context = (
        DEEP_CLASS_METHODS["undirected"]["ep"](),
        ClassContext(*map(jnp.asarray, (S0, 1.0, 1.0))),
    )
    slope, difference = directional(lambda p: objective(p, rows, context).sum(), params, rng)
    assert_allclose(slope, difference, rtol=1e-5)
