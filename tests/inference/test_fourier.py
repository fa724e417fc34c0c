"""Tilted Fourier inversion against closed forms, high-precision integrals, Monte Carlo and grids."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr
from scipy.stats import norm

from tests.cases import few
from tggm.inference import Sum, log_density

density = jax.jit(log_density)
gradient = jax.jit(jax.grad(lambda s, y: log_density(s, y).sum(), argnums=(0, 1)))

ROWS, FEW, MANY = 16, 4, 50  # every sum is padded to ROWS and MANY, so that each program is compiled once


def rows_of(y):
    """Pad to ROWS entries."""
    return jnp.asarray(np.pad(np.asarray(y, float), (0, ROWS - len(y)), "edge"))


def sums(alpha, coef, noise):
    """Return the same sum in every row; units are padded with ones of weight 0."""
    spare = [0.0] * (MANY - len(alpha))
    spread = [jnp.tile(jnp.asarray([*v, *spare])[None, :], (ROWS, 1)) for v in (alpha, coef)]
    return Sum(*spread, np.full(ROWS, float(noise)))  # jnp.full would be weakly typed and compile again


def one_unit(y, alpha, c, noise):
    """Return the log density of c x + eps in closed form: a Gaussian times a quotient of two Phis."""
    v = noise + c * c
    posterior = (alpha + c * (y - c * alpha) / v) * np.sqrt(v / noise)
    return norm.logpdf(y, c * alpha, np.sqrt(v)) + log_ndtr(posterior) - log_ndtr(alpha)


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
    got = np.asarray(density(sums([alpha], [c], noise), rows_of(FAR)))[: len(FAR)]
    want = one_unit(FAR, alpha, c, noise)
    assert_allclose((got - want) / np.maximum(1, np.abs(want)), 0, atol=1e-13)


moments = jax.jit(Sum.mean_var)


def random_sums(rng, rows, m, noise=0.3):
    spare = ((0, 0), (0, MANY - m))
    alpha, coef = (np.pad(v, spare) for v in (rng.normal(size=(rows, m)) * 2, rng.normal(size=(rows, m))))
    out = Sum(*(jnp.asarray(v) for v in (alpha, coef, np.full(rows, noise))))
    mean, var = map(np.asarray, moments(out))
    return out, mean, np.sqrt(var)


def test_blocks_of_rows_give_the_same_values(rng):
    s, mean, std = random_sums(rng, 800, MANY)  # more rows than one chunk holds
    y = mean + std * rng.normal(size=800)
    part = slice(700, 700 + ROWS)
    alone = density(jax.tree.map(lambda a: a[part], s), y[part])
    assert_allclose(np.asarray(density(s, y))[part], np.asarray(alone), rtol=1e-13, atol=1e-13)


def test_gradient_is_finite_difference(rng):
    s, mean, std = random_sums(rng, ROWS, FEW)
    y = mean + std * np.linspace(-12.0, 15.0, ROWS)
    flat, tree = jax.tree.flatten(jax.tree.map(np.asarray, (s, y)))
    for k, g in enumerate(jax.tree.leaves(jax.tree.map(np.asarray, gradient(s, y)))):
        direction = rng.normal(size=g.shape) * (0.1 if k == 2 else 1.0)  # the noise stays positive
        h = 1e-5
        ends = []
        for step in (h, -h):
            moved = [*flat[:k], flat[k] + step * direction, *flat[k + 1 :]]
            ends.append(np.asarray(density(*jax.tree.unflatten(tree, moved))))
        got = (g * direction).reshape(ROWS, -1).sum(1)
        assert_allclose(got, (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("noise", few([1e-4, 1e-8, 1e-16], "0.0001", "1e-16"))
def test_tiny_noise_gives_finite_values(noise):
    # many units smooth each other: exact for any noise
    s, mean, std = random_sums(np.random.default_rng(1), ROWS, MANY, noise=noise)
    y = mean + std * np.linspace(-1.0, 1.5, ROWS)
    limit = np.asarray(density(s._replace(noise=np.full(ROWS, 1e-20)), y))
    assert_allclose(np.asarray(density(s, y)), limit, atol=10 * noise + 1e-11)
    # one unit has an edge at zero that no number of nodes resolves: accurate away from it, finite at it
    y = np.array([-1.0, 0.0, 0.5, 2.0])
    got = np.asarray(density(sums([0.3], [1.0], noise), rows_of(y)))[:4]
    assert np.all(np.isfinite(got))
    assert_allclose(got[2:], one_unit(y, 0.3, 1.0, noise)[2:], atol=2e-5)
