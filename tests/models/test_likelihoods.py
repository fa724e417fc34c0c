"""Likelihoods of outputs against scipy, samples and a solver of least squares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, optimize, stats

from tests.models import small_models as small
from tests.models.sampling import truncated_draws
from tggm import formulas
from tggm.models import Incomplete, Probit
from tggm.models.layers import gaussian_log_density, many_outputs_log_density, training_nodes
from tggm.predictive.member_moments import class_mixture, measured_targets
from tggm.special.probit import default_nodes, log_probit

ROWS, N, M = 3, 7, 4


def test_gaussian_moments_are_those_of_the_units_and_the_noise(rng):
    model, X = small.random_model(rng), rng.standard_normal((4, 3))
    W0, b0, W1, b1, log_noise = small.numbers(model, "W0", "b0", "W1", "b1", "log_noise")
    h, v = small.truncated(X @ W0.T + b0, np.sqrt(small.S0))
    latent, outputs = model.at(jnp.asarray(X))[1], model.likelihood
    mean, cov = outputs.moments(latent)
    assert_allclose(mean, h @ W1.T + b1, rtol=1e-9)
    assert_allclose(cov, np.einsum("ik,bk,jk->bij", W1, v, W1) + np.diag(np.exp(log_noise)), rtol=1e-8)
    assert_allclose(outputs.variances(latent)[1], np.diagonal(cov, axis1=1, axis2=2), rtol=1e-12)
    y = rng.standard_normal((4, 2))
    want = [stats.multivariate_normal.logpdf(*row) for row in zip(y, mean, cov, strict=True)]
    assert_allclose(small.log_density(model, jnp.asarray(X), jnp.asarray(y)), want, rtol=1e-10)


@pytest.fixture
def many(rng):
    root = rng.standard_normal((ROWS, M, M))
    return rng.standard_normal((ROWS, N)), rng.standard_normal((N, M)), root @ root.transpose(0, 2, 1)


@pytest.mark.parametrize("singular", [False, True])
def test_density_and_gradients_of_many_outputs_are_those_of_the_whole_covariance(many, singular):
    """Also if a unit has no weights and another no variance, where R has no inverse."""
    e, A, C = many
    if singular:
        A[:, 1] = 0.0
        C[:, 2], C[:, :, 2] = 0.0, 0.0
    weight = jnp.arange(1.0, ROWS + 1)

    def whole(e, A, C):
        return gaussian_log_density(e, jnp.zeros_like(e), jnp.eye(N)[None] + A @ C @ A.T)

    (value, found), (exact, want) = (
        jax.jit(jax.value_and_grad(lambda *given, f=f: weight @ f(*given), argnums=(0, 1, 2)))(e, A, C)
        for f in (many_outputs_log_density, whole)
    )
    assert_allclose(value, exact, rtol=1e-12)
    for one, other in zip(found[:2], want[:2], strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    assert_allclose(found[2] + found[2].mT, want[2] + want[2].mT, rtol=1e-9, atol=1e-11)  # C is symmetric


def test_models_with_more_outputs_than_units_have_the_same_density(rng):
    model = small.drawn_model(rng, (4, 3), 5)
    X, y = rng.standard_normal((4, 3)), rng.standard_normal((4, 5))

    @jax.jit
    def both(model):
        latent = model.at(jnp.asarray(X))[1]
        whole = gaussian_log_density(y, *model.likelihood.moments(latent))
        return model.likelihood.log_density(jnp.asarray(y), latent), whole

    assert_allclose(*both(model), rtol=1e-10)


PLACES = np.array([[0.5], [-1.0], [0.2]])


def incomplete(n):
    """Return a model of n outputs, and the moments of its outputs."""
    model = small.random_model(np.random.default_rng(n), d=1, m=2, n=n)
    model = small.changed(model, {"likelihood.log_noise": np.log(np.linspace(0.3, 0.6, n))})
    return model, *map(np.asarray, model.likelihood.moments(model.at(jnp.asarray(PLACES))[1]))


def density(model, y):
    """Return the log-density of incomplete targets; its gradient must be finite."""
    targets = Incomplete(*map(jnp.asarray, y))

    def total(model):
        value = small.log_density(model, jnp.asarray(PLACES), targets)
        return value.sum(), value

    grad, value = jax.jit(jax.grad(total, has_aux=True))(model)
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(grad))
    return value


def test_censored_targets_contribute_the_probability_of_their_side(rng):
    model, mean, cov = incomplete(1)
    y, side = np.array([[0.4], [-0.3], [1.1]]), np.array([[1.0], [-1.0], [0.0]])
    law = stats.norm(mean[:, 0], np.sqrt(cov[:, 0, 0]))
    want = [law.logsf(y[:, 0])[0], law.logcdf(y[:, 0])[1], law.logpdf(y[:, 0])[2]]
    assert_allclose(density(model, (y, side)), want, rtol=1e-10)
    targets = Incomplete(jnp.asarray(y), jnp.asarray(side))
    small.assert_gradient(lambda m: small.log_density(m, jnp.asarray(PLACES), targets).sum(), model, rng)
    assert_array_equal(measured_targets(targets), [[np.nan], [np.nan], [1.1]])


def test_interval_targets_contribute_the_mean_density_of_the_interval(rng):
    model, mean, cov = incomplete(1)
    parts = [[[0.4], [-0.3], [1.1]], [[2.0], [1.0], [2.0]], [[0.7], [0.0], [1e-4]]]
    y, _, half = np.array(parts)[:, :, 0]
    laws = [stats.norm(m, np.sqrt(v)) for m, v in zip(mean[:, 0], cov[:, 0, 0], strict=True)]
    mass = [integrate.quad(law.pdf, a - h, a + h)[0] for law, a, h in zip(laws, y, half, strict=True) if h]
    want = np.log(mass) - np.log(2 * half[[0, 2]])
    found = np.asarray(density(model, [np.array(part) for part in parts]))
    assert_allclose(found[[0, 2]], want, rtol=1e-8)
    assert_allclose(found[1], laws[1].logsf(-0.3), rtol=1e-10)
    targets = Incomplete(*(jnp.asarray(part) for part in parts))
    small.assert_gradient(lambda m: small.log_density(m, jnp.asarray(PLACES), targets).sum(), model, rng)


def test_missing_targets_leave_the_marginal_of_the_others():
    model, mean, cov = incomplete(2)
    Y = np.array([[0.4, np.nan], [np.nan, -0.3], [1.1, 0.2]])
    want = [
        stats.norm.logpdf(0.4, mean[0, 0], np.sqrt(cov[0, 0, 0])),
        stats.norm.logpdf(-0.3, mean[1, 1], np.sqrt(cov[1, 1, 1])),
        stats.multivariate_normal(mean[2], cov[2]).logpdf(Y[2]),
    ]
    assert_allclose(density(model, (Y, np.zeros((3, 2)))), want, rtol=1e-10)
    single, *_ = incomplete(1)
    assert density(single, (Y[:, 1:], np.zeros((3, 1))))[0] == 0


def test_limits_of_several_outputs_have_probabilities_given_the_measured_ones():
    model, mean, cov = incomplete(2)
    Y, side = np.array([[0.4, 0.7], [np.nan, -0.3], [1.1, 0.2]]), np.array([[0, 1], [0, -1], [1, -1]])
    std = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    # ∫ N(y | mean, cov) dy₂ beyond the limit, by a sum
    y = np.linspace(0.7, 12, 40_001)
    joint = stats.multivariate_normal(mean[0], cov[0]).pdf(np.stack([np.full_like(y, 0.4), y], 1))
    want = [
        np.log(np.trapezoid(joint, y)),
        stats.norm.logcdf(-0.3, mean[1, 1], std[1, 1]),
        stats.norm.logsf(1.1, mean[2, 0], std[2, 0]) + stats.norm.logcdf(0.2, mean[2, 1], std[2, 1]),
    ]
    assert_allclose(density(model, (Y, side.astype(float))), want, rtol=1e-6)


def problem(rng, m=5, n=4):
    return small.random_model(rng, m=m, n=n, likelihood=Probit), jnp.asarray(rng.standard_normal((6, 3)))


def textbook(model, X):
    """Return W1, b1, and the moments of the units."""
    W0, b0, W1, b1 = small.numbers(model, "W0", "b0", "W1", "b1")
    return W1, b1, *small.truncated(np.asarray(X) @ W0.T + b0, np.sqrt(small.S0))


def scores(model, X, name="scores"):
    return map(np.asarray, jax.jit(lambda m: getattr(m.likelihood, name)(m.at(X)[1]))(model))


@pytest.mark.parametrize("n", [2, 4])
def test_differences_of_scores_in_training_have_the_exact_total_variance(rng, n):
    model, X = problem(rng, n=n)
    mean, std = scores(model, X)
    W1, b1, h, v = textbook(model, X)
    assert_allclose(mean, h @ W1.T + b1, rtol=1e-9)
    for D, own in zip(std**2, v, strict=True):
        C = W1 @ np.diag(own) @ W1.T + np.eye(n)
        pairs = np.diag(C)[:, None] + np.diag(C)[None, :] - 2 * C
        assert_allclose(2 * (n - 1) * D.sum(), pairs.sum(), rtol=1e-9)


@pytest.mark.parametrize("n", [2, 3])
def test_differences_of_two_or_three_classes_have_exact_variances_in_predictions(rng, n):
    model, X = problem(rng, n=n)
    _, std = scores(model, X, "contended_scores")
    W1, _, _, v = textbook(model, X)
    free = (std**2 > 1.001 * formulas.LEAST_VARIANCE).all(1)
    assert free.sum() >= 3
    for i in range(n):
        for j in range(i):
            exact = 2 + v @ (W1[i] - W1[j]) ** 2
            assert_allclose(((std**2)[:, i] + (std**2)[:, j])[free], exact[free], rtol=1e-9)


def test_contended_deviations_are_those_of_least_squares(rng):
    """Compare the closed form with a general solver, with the weights of the docstring."""
    model, X = problem(rng, n=5)
    mean, std = scores(model, X, "contended_scores")
    W1, _, _, v = textbook(model, X)
    pairs = [(i, j) for i in range(5) for j in range(i)]
    A = np.array([[float(k in pair) for k in range(5)] for pair in pairs])
    for row in range(len(mean)):
        c = mean[row].argmax()
        C = W1 @ np.diag(v[row]) @ W1.T
        spread = np.sqrt(2 + np.diag(C) + C[c, c])
        chance = np.where(np.arange(5) == c, 0, stats.norm.cdf((mean[row] - mean[row, c]) / spread) ** 2)
        w = 0.2 / 5 + 0.8 * np.where(np.arange(5) == c, 0.5, 0.5 * chance / chance.sum())
        t = np.array([2 + C[i, i] + C[j, j] - 2 * C[i, j] for i, j in pairs])
        root = np.sqrt([w[i] * w[j] for i, j in pairs])
        D = optimize.lsq_linear(A * root[:, None], t * root, (0.25, np.inf), method="bvls").x
        assert_allclose(std[row] ** 2, D, rtol=1e-8)


def test_predicted_probabilities_agree_with_samples(rng):
    model, X = problem(rng, m=30, n=6)
    X = X[:2]
    (W1, b1), (W0, b0) = textbook(model, X)[:2], small.numbers(model, "W0", "b0")
    got = np.exp(class_mixture(*(np.asarray(a)[None] for a in scores(model, X, "contended_scores"))))
    draws = 300_000
    for row, a in enumerate(np.asarray(X) @ W0.T + b0):
        h = truncated_draws(rng, np.broadcast_to(a, (draws // 10, 30)), small.S0)
        h = np.tile(h, (10, 1))  # the same units with ten draws of the noise
        z = h @ W1.T + b1 + rng.normal(size=(draws, 6))
        want = np.bincount(z.argmax(1), minlength=6) / draws
        # five standard errors of 3·10⁴ independent draws, and the error of the normal approximation
        assert np.abs(got[row] - want).max() < 5 * 0.5 / np.sqrt(draws // 10) + 0.005


def test_gradients_of_class_probabilities_are_differences(rng):
    model, X = problem(rng)
    label = jnp.asarray(rng.integers(0, 4, 6), jnp.int32)
    small.assert_gradient(lambda m: small.log_density(m, X, label).sum(), model, rng, rtol=1e-4)


@pytest.mark.parametrize("n", [2, 10, 101, 500])
def test_training_nodes_suffice(rng, n):
    eta = jnp.asarray(4 * rng.standard_normal((50, n)), jnp.float32)
    std = jnp.asarray(rng.uniform(1, 3, (50, n)), jnp.float32)
    label = jnp.asarray(rng.integers(0, n, 50), jnp.int32)
    assert training_nodes(n) < default_nodes(n, "float32")
    quick = log_probit(eta, std, label, n_nodes=training_nodes(n), n_steps=3)
    assert_allclose(quick, log_probit(eta, std, label), atol=2e-3)
