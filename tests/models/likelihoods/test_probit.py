"""Scores of classes: their variances, and the probabilities that follow, against draws and solvers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats
from tggm.models.likelihoods.probit import contended_std, training_nodes

from tests.models.grid import answers
from tests.models.sampling import truncated_draws
from tests.models.small_models import EP, S0, numbers, random_model
from tests.models.textbook import truncated
from tggm.special.probit import default_nodes, log_probit, probit_all


def problem(rng, m=5, n=4):
    return random_model(rng, m=m, n=n, likelihood="probit"), jnp.asarray(rng.standard_normal((6, 3)))


def known(model, X):
    """W1, b1, and the moments of the units by the textbook."""
    W0, b0, W1, b1 = numbers(model, "W0", "b0", "W1", "b1")
    return W1, b1, *truncated(np.asarray(X) @ W0.T + b0, np.sqrt(S0))


def scores(model, X, name="scores"):
    return map(np.asarray, jax.jit(lambda m: getattr(m.likelihood, name)(m.latent(X, EP)))(model))


def test_contrast_variances_have_the_right_total(rng):
    """The pairwise differences of independent normals with these variances sum to the true variances."""
    model, X = problem(rng, m=5)
    mean, std = scores(model, X)
    W1, b1, h, v = known(model, X)
    assert_allclose(mean, h @ W1.T + b1, rtol=1e-9)
    assert_allclose(mean, jax.jit(lambda m: m.mean(X, EP))(model), rtol=1e-12)
    for i in range(len(v)):
        C = W1 @ np.diag(v[i]) @ W1.T + np.eye(4)
        pairs = np.diag(C)[:, None] + np.diag(C)[None, :] - 2 * C
        D = std[i] ** 2
        assert_allclose(2 * 3 * D.sum(), pairs.sum(), rtol=1e-9)


def test_two_classes_have_the_exact_variance_of_their_difference(rng):
    model, X = problem(rng, m=5, n=2)
    _, std = scores(model, X)
    W1, _, _, v = known(model, X)
    expected = 2 + v @ (W1[0] - W1[1]) ** 2
    assert_allclose((std**2).sum(1), expected, rtol=1e-9)


@pytest.mark.parametrize("n", [2, 3])
def test_differences_of_two_or_three_classes_have_their_exact_variances(rng, n):
    model, X = problem(rng, m=5, n=n)
    _, std = scores(model, X, "contended_scores")
    W1, _, _, v = known(model, X)
    for i in range(n):
        for j in range(i):
            assert_allclose((std**2)[:, i] + (std**2)[:, j], 2 + v @ (W1[i] - W1[j]) ** 2, rtol=1e-9)


def test_contended_deviations_are_those_of_least_squares(rng):
    """The closed form against a general solver, with the weights that the docstring describes."""
    model, X = problem(rng, m=5, n=5)
    mean, std = scores(model, X, "contended_scores")
    W1, _, _, v = known(model, X)
    pairs = [(i, j) for i in range(5) for j in range(i)]
    of_covariance = jax.jit(lambda mean, own, C: contended_std(mean, own, lambda w: w @ C))
    for row in range(len(mean)):
        c = mean[row].argmax()
        C = W1 @ np.diag(v[row]) @ W1.T
        spread = np.sqrt(2 + np.diag(C) + C[c, c])
        chance = np.where(np.arange(5) == c, 0, stats.norm.cdf((mean[row] - mean[row, c]) / spread) ** 2)
        w = 0.2 / 5 + 0.8 * np.where(np.arange(5) == c, 0.5, 0.5 * chance / chance.sum())
        t = np.array([2 + C[i, i] + C[j, j] - 2 * C[i, j] for i, j in pairs])
        A = np.array([[float(k in pair) for k in range(5)] for pair in pairs])
        root = np.sqrt([w[i] * w[j] for i, j in pairs])
        D = optimize.lsq_linear(A * root[:, None], t * root, (0.25, np.inf), method="bvls").x
        assert_allclose(std[row] ** 2, D, rtol=1e-8)
        whole = of_covariance(mean[[row]], np.diag(C)[None], C)
        assert_allclose(whole[0], std[row], rtol=1e-8)


def test_predicted_probabilities_agree_with_many_draws(rng):
    """Thirty latents and six classes; the simpler variances of training are further off."""
    model, X = problem(rng, m=30, n=6)
    X = X[:2]
    W1, b1, a = *known(model, X)[:2], model.hidden.locations(X)
    got = np.asarray(probit_all(*map(jnp.asarray, scores(model, X, "contended_scores"))))
    draws = 300_000
    for row in range(2):
        h = truncated_draws(rng, np.broadcast_to(a[row], (draws // 10, 30)), S0)
        h = np.tile(h, (10, 1))  # the same latents with ten draws of the noise
        z = h @ W1.T + b1 + rng.normal(size=(draws, 6))
        want = np.bincount(z.argmax(1), minlength=6) / draws
        # five standard errors of 3·10⁴ independent latents, and what the normal approximation errs by
        assert np.abs(got[row] - want).max() < 5 * 0.5 / np.sqrt(draws // 10) + 0.005


def test_moments_are_close_to_the_integral_and_ep_is_closer():
    """Two units are as far from normal as it gets."""
    rng = np.random.default_rng(5)
    model, X = problem(rng, m=2)
    label = jnp.asarray(rng.integers(0, 4, 6), jnp.int32)
    truth = [
        answers("shallow", "probit", model, x, c)["gaussian"]
        for x, c in zip(np.asarray(X), label, strict=True)
    ]
    by_moments = jax.jit(lambda m: m.likelihood.by_moments(label, m.latent(X, EP)))
    moments = by_moments(model) - np.array(truth)
    by_ep = jax.jit(lambda m: m.likelihood.by_engine(label, m.hidden, X, EP))(model) - np.array(truth)
    assert_allclose(moments, 0, atol=0.2)
    assert_allclose(by_ep, 0, atol=0.05)
    assert np.abs(by_ep).mean() < np.abs(moments).mean() / 2


@pytest.mark.parametrize("n", [2, 10, 30, 101, 500])
def test_training_nodes_suffice(rng, n):
    eta = jnp.asarray(4 * rng.standard_normal((50, n)), jnp.float32)
    std = jnp.asarray(rng.uniform(1, 3, (50, n)), jnp.float32)
    label = jnp.asarray(rng.integers(0, n, 50), jnp.int32)
    assert training_nodes(n) < default_nodes(n, "float32")
    quick = log_probit(eta, std, label, n_nodes=training_nodes(n), n_steps=3)
    assert_allclose(quick, log_probit(eta, std, label), atol=2e-3)
