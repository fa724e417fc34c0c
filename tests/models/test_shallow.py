import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from tggm.models import (
    Shallow,
    gaussian_log_density,
    initial_parameters,
    latent_moments,
    log_likelihood,
    output_mean,
    output_moments,
    posterior,
    prior,
)


def random_model(rng, d=3, m=4, n=2):
    shapes = ((m, d), (m,), (n, m), (n,), (n,))
    return Shallow(*(jnp.asarray(rng.standard_normal(s)) for s in shapes))


def units(params, x, s0):
    """The prior of each hidden unit as scipy's truncated normal."""
    a, sigma = np.asarray(params.W0) @ x + np.asarray(params.b0), np.sqrt(s0)
    return stats.truncnorm(-a / sigma, np.inf, loc=a, scale=sigma)


def test_moments_are_those_of_independent_truncated_normals(rng):
    params, X, s0 = random_model(rng), rng.standard_normal((6, 3)), 0.7
    mean, cov = output_moments(params, X, s0)
    W1, noise = np.asarray(params.W1), np.exp(np.asarray(params.log_noise))
    for i, x in enumerate(X):
        h = units(params, x, s0)
        assert_allclose(mean[i], W1 @ h.mean() + params.b1, rtol=1e-9)
        assert_allclose(cov[i], W1 @ np.diag(h.var()) @ W1.T + np.diag(noise), rtol=1e-8)
    assert_allclose(output_mean(params, X, s0), mean, rtol=1e-13)
    assert_allclose(latent_moments(params, X, s0)[0][0], units(params, X[0], s0).mean(), rtol=1e-9)


def test_one_output_has_the_same_moments_as_one_of_two(rng):
    params, X = random_model(rng), rng.standard_normal((5, 3))
    one = params._replace(W1=params.W1[:1], b1=params.b1[:1], log_noise=params.log_noise[:1])
    (mean, cov), (mean1, cov1) = output_moments(params, X, 1.0), output_moments(one, X, 1.0)
    assert_allclose(mean1, mean[:, :1], rtol=1e-14)
    assert_allclose(cov1, cov[:, :1, :1], rtol=1e-13)


def test_gauge_leaves_the_moments_unchanged(rng):
    params, X, c = random_model(rng), rng.standard_normal((5, 3)), 3.0
    scaled = params._replace(W0=c * params.W0, b0=c * params.b0, W1=params.W1 / c)
    for a, b in zip(output_moments(params, X, 0.5), output_moments(scaled, X, 0.5 * c**2), strict=True):
        assert_allclose(a, b, rtol=1e-12)


def log_z_by_quadrature(tg):
    """log ∫ exp(−½hᵀPh + γᵀh) over h ≥ 0 for m = 2, row by row."""
    P, out = np.asarray(tg.precision.dense()), []
    for gamma in np.asarray(tg.shift):
        top = gamma @ np.linalg.solve(P, gamma) / 2  # the largest exponent without truncation

        def f(a, b, gamma=gamma, top=top):
            h = np.array([a, b])
            return np.exp(-h @ P @ h / 2 + gamma @ h - top)

        out.append(top + np.log(integrate.dblquad(f, 0, 15, 0, 15, epsabs=1e-12, epsrel=1e-8)[0]))
    return jnp.asarray(out)


def test_log_likelihood_integrates_the_joint_density(rng):
    params, s0 = random_model(rng, m=2), 0.8
    X, Y = rng.standard_normal((2, 3)), rng.standard_normal((2, 2))
    got = log_likelihood(params, X, Y, s0, log_z_by_quadrature)
    W0, b0, W1, b1, noise = (np.asarray(a) for a in params._replace(log_noise=jnp.exp(params.log_noise)))
    for x, y, value in zip(X, Y, got, strict=True):
        a = W0 @ x + b0
        log_constant = -special.log_ndtr(a / np.sqrt(s0)).sum() - np.log(2 * np.pi * s0)
        log_constant -= 0.5 * np.log(2 * np.pi * noise).sum()

        def joint(u, v, a=a, y=y, log_constant=log_constant):
            h = np.array([u, v])
            error = y - W1 @ h - b1
            return np.exp(log_constant - (h - a) @ (h - a) / (2 * s0) - 0.5 * error @ (error / noise))

        want = np.log(integrate.dblquad(joint, 0, 12, 0, 12, epsabs=1e-12, epsrel=1e-7)[0])
        assert_allclose(value, want, atol=1e-6)


def test_prior_and_posterior_are_the_exponents_of_the_joint(rng):
    """Up to a constant in h: log p(h|x) and log p(h, y|x), at random h."""
    params, s0 = random_model(rng), 0.8
    X, Y = rng.standard_normal((1, 3)), rng.standard_normal((1, 2))
    H = rng.exponential(size=(7, 4))
    a = X[0] @ np.asarray(params.W0).T + np.asarray(params.b0)
    log_prior = stats.norm.logpdf(H, a, np.sqrt(s0)).sum(1)
    means = H @ np.asarray(params.W1).T + np.asarray(params.b1)
    log_joint = log_prior + stats.norm.logpdf(Y, means, np.exp(np.asarray(params.log_noise) / 2)).sum(1)
    for tg, want in ((prior(params, X, s0), log_prior), (posterior(params, X, Y, s0), log_joint)):
        P, gamma = np.asarray(tg.precision.dense()), np.asarray(tg.shift[0])
        got = -0.5 * np.einsum("bi,ij,bj->b", H, P, H) + H @ gamma
        assert_allclose(np.diff(got), np.diff(want), rtol=1e-10)


@pytest.mark.parametrize("n", [1, 3])
def test_gaussian_log_density(rng, n):
    Y, mean, root = rng.standard_normal((4, n)), rng.standard_normal((4, n)), rng.standard_normal((4, n, n))
    cov = root @ root.transpose(0, 2, 1) + np.eye(n)
    want = [stats.multivariate_normal.logpdf(y, m, c) for y, m, c in zip(Y, mean, cov, strict=True)]
    assert_allclose(gaussian_log_density(*map(jnp.asarray, (Y, mean, cov))), want, rtol=1e-12)


def test_single_precision_stays_single(rng):
    params = jax.tree.map(lambda a: a.astype(np.float32), random_model(rng))
    mean, cov = output_moments(params, jnp.ones((2, 3), np.float32), jnp.float32(1.0))
    assert mean.dtype == cov.dtype == np.float32


def test_initial_parameters_have_the_stated_variances():
    rng = np.random.default_rng(0)
    paper = initial_parameters(rng, (200, 100, 50), init="paper")
    assert all(abs(a.std() - 0.1) < 0.02 for a in paper[:4])
    scaled = initial_parameters(rng, (200, 400, 5), s0=4.0, noise=0.25)
    assert_allclose([scaled.W0.std(), scaled.W1.std()], [2 / np.sqrt(200), 1 / np.sqrt(400 * 4)], rtol=0.05)
    assert_allclose(np.exp(scaled.log_noise), 0.25)


def test_scaled_start_is_the_same_model_in_every_gauge(rng):
    X = rng.standard_normal((5, 3))
    moments = []
    for s0 in (0.01, 1.0):
        params = initial_parameters(np.random.default_rng(1), (3, 8, 2), s0=s0)
        moments.append(output_moments(params, X, s0))
    for a, b in zip(*moments, strict=True):
        assert_allclose(a, b, rtol=1e-10)
