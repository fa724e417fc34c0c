"""Gaussian outputs against scipy and against integrals of the joint density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, special, stats
from tggm.models.likelihoods.gaussian import gaussian_log_density

from tests.models.small_models import EP, S0, numbers, random_model
from tests.models.textbook import truncated


def test_moments_are_those_of_the_units_and_the_noise(rng):
    model, X = random_model(rng), rng.standard_normal((4, 3))
    W0, b0, W1, b1, log_noise = numbers(model, "W0", "b0", "W1", "b1", "log_noise")
    h, v = truncated(X @ W0.T + b0, np.sqrt(S0))
    latent, outputs = model.latent(jnp.asarray(X), EP), model.likelihood
    mean, cov = outputs.moments(latent)
    assert_allclose(mean, h @ W1.T + b1, rtol=1e-9)
    assert_allclose(cov, np.einsum("ik,bk,jk->bij", W1, v, W1) + np.diag(np.exp(log_noise)), rtol=1e-8)
    assert_allclose(model.mean(jnp.asarray(X), EP), mean, rtol=1e-13)
    assert_allclose(outputs.variances(latent)[1], np.diagonal(cov, axis1=1, axis2=2), rtol=1e-12)
    y = rng.standard_normal((4, 2))
    want = [stats.multivariate_normal.logpdf(*row) for row in zip(y, mean, cov, strict=True)]
    assert_allclose(outputs.by_moments(jnp.asarray(y), latent), want, rtol=1e-10)
    want = stats.norm.logpdf(y, mean, np.exp(log_noise / 2)).sum(1)
    assert_allclose(outputs.by_mean(jnp.asarray(y), mean), want, rtol=1e-10)


def log_z(tg):
    """log ∫ exp(−½hᵀPh + γᵀh) over h ≥ 0 for m = 2, row by row."""
    P, out = np.asarray(tg.precision.dense()), []
    for gamma in np.asarray(tg.shift):
        top = gamma @ np.linalg.solve(P, gamma) / 2  # the largest exponent without truncation

        def f(a, b, gamma=gamma, top=top):
            h = np.array([a, b])
            return np.exp(-h @ P @ h / 2 + gamma @ h - top)

        out.append(top + np.log(integrate.dblquad(f, 0, 15, 0, 15, epsabs=1e-12, epsrel=1e-8)[0]))
    return jnp.asarray(out)


class Quadrature:
    """An engine that integrates."""

    def gain(self, hidden, psi, posterior):
        return log_z(posterior) - log_z(hidden.gaussian(psi))


def test_likelihood_integrates_the_joint_density(rng):
    model, s0 = random_model(rng, m=2), S0
    X, Y = rng.standard_normal((2, 3)), rng.standard_normal((2, 2))
    got = model.likelihood.by_engine(jnp.asarray(Y), model.hidden, jnp.asarray(X), Quadrature())
    W0, b0, W1, b1, log_noise = numbers(model, "W0", "b0", "W1", "b1", "log_noise")
    for x, y, value in zip(X, Y, got, strict=True):
        a = W0 @ x + b0
        log_constant = -special.log_ndtr(a / np.sqrt(s0)).sum() - np.log(2 * np.pi * s0)
        log_constant -= 0.5 * (np.log(2 * np.pi) + log_noise).sum()

        def joint(u, v, a=a, y=y, log_constant=log_constant):
            h = np.array([u, v])
            error = y - W1 @ h - b1
            squares = (h - a) @ (h - a) / (2 * s0) + 0.5 * error @ (error / np.exp(log_noise))
            return np.exp(log_constant - squares)

        want = np.log(integrate.dblquad(joint, 0, 12, 0, 12, epsabs=1e-12, epsrel=1e-7)[0])
        assert_allclose(value, want, atol=1e-6)


def test_an_output_is_a_sum_of_standard_units_and_noise(rng):
    """Its first two moments, from the terms and from the model."""
    model, X = random_model(rng, n=1), jnp.asarray(rng.standard_normal((4, 3)))
    alpha, coef, noise = map(np.asarray, model.likelihood.terms(model.hidden, X))
    g, omega2 = truncated(alpha, 1.0)
    mean, var = model.likelihood.variances(model.latent(X, EP))
    assert_allclose(model.likelihood.output.b1 + (coef * g).sum(1), mean[:, 0], rtol=1e-10)
    assert_allclose((coef**2 * omega2).sum(1) + noise, var[:, 0], rtol=1e-10)


def test_the_share_of_the_units_is_taken_out_of_the_noise(rng):
    outputs = random_model(rng, noise=2.0).likelihood
    share = jnp.asarray([0.5, 5.0])  # of the second nothing would be left: a hundredth stays
    assert_allclose(np.exp(outputs.finished(share).log_noise), [1.5, 0.02], rtol=1e-12)


@pytest.mark.parametrize("n", [1, 3])
def test_log_density(rng, n):
    Y, mean, root = rng.standard_normal((4, n)), rng.standard_normal((4, n)), rng.standard_normal((4, n, n))
    cov = root @ root.transpose(0, 2, 1) + np.eye(n)
    want = [stats.multivariate_normal.logpdf(y, m, c) for y, m, c in zip(Y, mean, cov, strict=True)]
    found = jax.jit(gaussian_log_density)(*map(jnp.asarray, (Y, mean, cov)))
    assert_allclose(found, want, rtol=1e-12)
