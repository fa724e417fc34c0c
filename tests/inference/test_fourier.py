"""Tilted Fourier inversion against closed forms, high-precision integrals and Monte Carlo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr
from scipy.stats import norm

from tggm.inference.fourier import averages, log_density, log_tails
from tggm.inference.saddle import Sum, saddle

from .log_concave import log_integral

density = jax.jit(log_density)
tails = jax.jit(log_tails)


def sums(alpha, coef, noise, rows):
    spread = [jnp.tile(jnp.asarray(v, float)[None, :], (rows, 1)) for v in (alpha, coef)]
    return Sum(*spread, jnp.full(rows, float(noise)))


def one_unit(y, alpha, c, noise):
    """Log density of c x + eps in closed form: a Gaussian times a quotient of two Phis."""
    v = noise + c * c
    posterior = (alpha + c * (y - c * alpha) / v) * np.sqrt(v / noise)
    return norm.logpdf(y, c * alpha, np.sqrt(v)) + log_ndtr(posterior) - log_ndtr(alpha)


def truncated_logpdf(x, alpha):
    return norm.logpdf(x, alpha) - log_ndtr(alpha)


ONE = [
    (0.0, 1.0, 1.0),
    (-3.0, 2.0, 0.3),
    (3.0, -1.0, 0.1),
    (-20.0, 10.0, 0.5),
    (1.0, 1.0, 1e-3),
    (8.0, 1.0, 0.5),
]
FAR = np.array([-1e4, -100.0, -30.0, -5.0, -1.0, 0.0, 0.01, 0.5, 1.0, 3.0, 10.0, 40.0, 1e4])


@pytest.mark.parametrize(("alpha", "c", "noise"), ONE)
def test_density_of_one_unit(alpha, c, noise):
    got = np.asarray(density(sums([alpha], [c], noise, len(FAR)), jnp.asarray(FAR)))
    want = one_unit(FAR, alpha, c, noise)
    assert_allclose((got - want) / np.maximum(1, np.abs(want)), 0, atol=1e-13)


@pytest.mark.parametrize(("alpha", "c", "noise"), ONE)
def test_tails_of_one_unit(alpha, c, noise):
    # P(c x + eps > y) = E Phi((c x - y) / sd), one-dimensional
    low, high = (np.asarray(t) for t in tails(sums([alpha], [c], noise, len(FAR)), jnp.asarray(FAR)))
    for i, y in enumerate(FAR):
        sign = (
            1 if high[i] < low[i] else -1
        )  # the smaller tail has relative accuracy, the other is its complement

        def log_f(x, y=y, sign=sign):
            return truncated_logpdf(x, alpha) + log_ndtr(sign * (c * x - y) / np.sqrt(noise))

        want = log_integral(log_f, 0.0, max(alpha, 0) + 2 * abs(y / c) + 40)
        assert abs(min(low[i], high[i]) - want) < 2e-12 * max(1, abs(want)), y
    assert_allclose(np.exp(low) + np.exp(high), 1, rtol=1e-13)


@pytest.mark.parametrize("noise", [1.0, 0.05, 1e-4])
def test_density_of_two_units(noise):
    # f(y) is the integral of the closed form of one unit against the other
    alpha, coef = [0.4, -2.0], [1.0, -1.7]
    y = np.array([-60.0, -8.0, -1.0, 0.0, 0.4, 2.0, 9.0, 60.0])
    got = np.asarray(density(sums(alpha, coef, noise, len(y)), jnp.asarray(y)))
    for v, g in zip(y, got, strict=True):
        want = log_integral(
            lambda x, v=v: (
                truncated_logpdf(x, alpha[1]) + one_unit(v - coef[1] * x, alpha[0], coef[0], noise)
            ),
            0.0,
            150.0,
        )
        assert abs(g - want) < 1e-12 * max(1, abs(want)), v


def random_sums(rng, rows, m, noise=0.3, dtype=float):
    alpha, coef = rng.normal(size=(rows, m)) * 2, rng.normal(size=(rows, m))
    out = Sum(*(jnp.asarray(v, dtype) for v in (alpha, coef, np.full(rows, noise))))
    mean, var = out.mean_var()
    return out, mean, jnp.sqrt(var)


def test_fifty_units_against_monte_carlo(rng):
    s, mean, std = random_sums(rng, 3, 50)
    n = 200_000
    y = mean + std * jnp.asarray([0.3, -1.2, 2.0])
    f = np.exp(np.asarray(density(s, y)))
    F = np.exp(np.asarray(tails(s, y)[0]))
    for i in range(3):
        alpha, coef = np.asarray(s.alpha[i]), np.asarray(s.coef[i])
        u = rng.uniform(size=(n, 50)) * norm.cdf(alpha)
        signal = (coef * (alpha - norm.ppf(u))).sum(1)
        kernel = norm.pdf(float(y[i]), signal, np.sqrt(0.3))  # averaging over the noise in closed form
        smooth = norm.cdf((float(y[i]) - signal) / np.sqrt(0.3))
        assert abs(kernel.mean() - f[i]) < 4.5 * kernel.std() / np.sqrt(n)
        assert abs(smooth.mean() - F[i]) < 4.5 * smooth.std() / np.sqrt(n)


def test_chunks_do_not_matter(rng):
    s, mean, std = random_sums(rng, 800, 40)  # more rows than one chunk holds
    y = mean + std * jnp.asarray(rng.normal(size=800))
    whole = np.asarray(density(s, y))
    part = np.asarray(density(jax.tree.map(lambda a: a[700:703], s), y[700:703]))
    assert_allclose(whole[700:703], part, rtol=1e-13, atol=1e-13)


def test_integrates_to_one_and_tails_are_its_integral(rng):
    s, mean, std = random_sums(rng, 1, 12, noise=0.05)
    t, w = np.polynomial.legendre.leggauss(400)
    y = mean + std * jnp.asarray(14 * t)
    many = Sum(*(jnp.tile(a, (400,) + (1,) * (a.ndim - 1)) for a in s))
    f = np.exp(np.asarray(density(many, y)))
    assert_allclose((f * w).sum() * 14 * float(std[0]), 1, rtol=1e-12)
    h = 1e-4 * float(std[0])
    slope = (np.exp(np.asarray(tails(many, y + h)[0])) - np.exp(np.asarray(tails(many, y - h)[0]))) / (2 * h)
    assert_allclose(slope, f, atol=1e-8 * f.max())


def test_gradient_is_finite_difference(rng):
    s, mean, std = random_sums(rng, 4, 6)
    y = mean + std * jnp.asarray([-12.0, -1.0, 0.2, 15.0])
    grads = jax.jit(jax.grad(lambda s, y: log_density(s, y).sum(), argnums=(0, 1)))(s, y)
    flat, tree = jax.tree.flatten((s, y))
    for k, g in enumerate(jax.tree.leaves(grads)):
        direction = jnp.asarray(rng.normal(size=g.shape))
        h = 1e-5

        def moved(step, k=k, direction=direction):
            leaves = list(flat)
            leaves[k] = leaves[k] + step * direction * (leaves[k] if k == 2 else 1.0)
            return np.asarray(density(*jax.tree.unflatten(tree, leaves)))

        want = (moved(h) - moved(-h)) / (2 * h)
        got = g * direction * (flat[k] if k == 2 else 1.0)
        got = np.asarray(got if got.ndim == 1 else got.sum(1))
        assert_allclose(got, want, rtol=2e-7, atol=1e-7)


def test_posterior_moments_of_one_unit():
    # given y, x is again a truncated normal: alpha' and variance by completing the square
    alpha, c, noise = -1.5, 2.0, 0.4
    y = np.array([-3.0, -1.0, 0.5, 3.0, 40.0])
    got = jax.jit(averages)(sums([alpha], [c], noise, len(y)), jnp.asarray(y))
    var = noise / (noise + c * c)
    mean = var * (alpha + c * y / noise)
    z = mean / np.sqrt(var)
    r = np.exp(norm.logpdf(z) - log_ndtr(z))
    assert_allclose(np.asarray(got.mean[:, 0]), mean + np.sqrt(var) * r, rtol=1e-10)
    assert_allclose(np.asarray(got.var[:, 0]), var * (1 - r * (z + r)), rtol=1e-10)


@pytest.mark.parametrize("noise", [1e-4, 1e-8, 1e-16])
def test_tiny_noise_degrades_gracefully(noise):
    # many units smooth each other: exact however small the noise
    rng = np.random.default_rng(1)
    s, mean, std = random_sums(rng, 3, 20, noise=noise)
    y = mean + std * jnp.asarray([-1.0, 0.0, 1.5])
    limit = np.asarray(density(s._replace(noise=jnp.full(3, 1e-20)), y))
    assert_allclose(np.asarray(density(s, y)), limit, atol=10 * noise + 1e-11)
    # one unit has an edge at zero that no number of nodes resolves: right away from it, finite at it
    y = np.array([-1.0, 0.0, 0.5, 2.0])
    got = np.asarray(density(sums([0.3], [1.0], noise, 4), jnp.asarray(y)))
    want = one_unit(y, 0.3, 1.0, noise)
    assert np.all(np.isfinite(got))
    assert_allclose(got[2:], want[2:], atol=2e-5)


def test_saddle_point_is_where_it_says(rng):
    s, mean, std = random_sums(rng, 200, 5, noise=1e-3)
    y = mean + std * jnp.asarray(rng.normal(size=200) * 10.0 ** rng.integers(-3, 5, size=200))
    lam = jax.jit(saddle)(s, y)
    k1, k2 = s.tilted(lam).mean_var()
    assert float((jnp.abs(k1 + s.noise * lam - y) / jnp.sqrt(k2)).max()) < 0.05


def test_single_precision(rng):
    s, mean, std = random_sums(rng, 20, 30)
    y = mean + std * jnp.asarray(np.linspace(-20, 20, 20))
    want = np.asarray(density(s, y))
    single = jax.tree.map(lambda a: a.astype(jnp.float32), (s, y))
    value, grad = jax.jit(jax.value_and_grad(lambda s, y: log_density(s, y).sum()))(*single)
    got = np.asarray(density(*single))
    assert got.dtype == np.float32
    assert_allclose(got, want, rtol=1e-5, atol=2e-4)
    assert_allclose(float(value), want.sum(), rtol=1e-5)
    exact = jax.jit(jax.grad(lambda s, y: log_density(s, y).sum()))(s, y)
    for a, b in zip(grad, exact, strict=True):
        assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-3, atol=2e-3)
