"""Models against closed forms, quadrature and importance sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from tests.paper import small_models as small
from tggm.models import Directed
from tggm.paper._model import UndirectedLayers, by_mean, draw_members, latent
from tggm.paper._model import mean as output_mean
from tggm.training import Rows


def test_moments_of_one_layer_are_those_of_truncated_normals(rng):
    model, X = small.one_layer(rng), rng.standard_normal((4, 3))
    W0, b0, W1, b1 = small.weights(model)
    h, v = small.truncated(X @ W0.T + b0, np.sqrt(small.S0))
    mean, cov = model.likelihood.moments(latent(model, jnp.asarray(X)))
    assert_allclose(mean, h @ W1.T + b1, rtol=1e-9)
    assert_allclose(cov, np.einsum("ik,bk,jk->bij", W1, v, W1) + small.S1 * np.eye(2), rtol=1e-8)
    assert_allclose(output_mean(model, jnp.asarray(X)), mean, rtol=1e-13)
    y = rng.standard_normal((4, 2))
    rows = Rows(jnp.asarray(X), jnp.asarray(y))
    want = [stats.multivariate_normal.logpdf(*row) for row in zip(y, mean, cov, strict=True)]
    assert_allclose(small.OBJECTIVES["moments"](model, rows, small.BEGIN), want, rtol=1e-10)
    want = stats.norm.logpdf(y, mean, np.sqrt(small.S1)).sum(1)
    assert_allclose(by_mean(model, rows), want, rtol=1e-10)


def test_energy_of_undirected_layers(rng):
    """Compare −½ hᵀPh + γᵀh and −Σ‖h − u‖²/2s0, which differ by a constant, with y and without."""
    model = small.layered(rng, (4, 3, 2))
    X, residual, h = rng.standard_normal((1, 3)), rng.standard_normal(2), rng.random((6, 9))
    layers = jax.tree.map(np.asarray, model.hidden)
    parts = np.split(h, [4, 7], axis=1)
    below = [X @ layers.W0.T + layers.b0]
    below += [p @ W.T + b for p, W, b in zip(parts, layers.W, layers.b, strict=False)]
    energy = -sum(((p - u) ** 2).sum(1) for p, u in zip(parts, below, strict=True)) / (2 * small.S0)
    W1 = np.asarray(model.likelihood.output.W1)
    error = residual - parts[-1] @ W1.T
    U = W1 / np.sqrt(small.S1)
    posterior = model.hidden.gaussian(jnp.asarray(X), U, (residual @ U / np.sqrt(small.S1))[None])
    given = energy - (error**2).sum(1) / (2 * small.S1)
    for tg, want in ((model.hidden.gaussian(jnp.asarray(X)), energy), (posterior, given)):
        P, gamma = np.asarray(tg.precision.dense()), np.asarray(tg.shift[0])
        exponent = -0.5 * np.einsum("bi,ij,bj->b", h, P, h) + h @ gamma
        assert_allclose(np.diff(exponent), np.diff(want), rtol=1e-9)


@pytest.mark.parametrize("kind", [UndirectedLayers, Directed])
def test_moments_of_several_layers_by_sampling(rng, kind):
    model, X = small.layered(rng, (4, 3), kind=kind), rng.standard_normal((2, 3))
    mean, cov = jax.jit(lambda m, X: m.likelihood.moments(latent(m, X, "ep")))(model, jnp.asarray(X))
    _, _, W1, b1 = small.weights(model)
    for i, x in enumerate(X):
        h, weight = small.last_layer_draws(rng, model.hidden, x, 100_000)
        z, weight = h @ W1.T + b1, weight if kind is UndirectedLayers else np.ones(len(h))
        assert_allclose(mean[i], np.average(z, axis=0, weights=weight), atol=0.04)
        assert_allclose(cov[i], np.cov(z.T, aweights=weight) + small.S1 * np.eye(2), atol=0.08)


def test_evidence_of_undirected_layers_by_sampling(rng):
    """Use targets at the mean of y, where the average over draws has the smallest error."""
    model, X = small.layered(rng, (4, 3)), rng.standard_normal((2, 3))
    _, _, W1, b1 = small.weights(model)
    drawn = [small.last_layer_draws(rng, model.hidden, x, 100_000) for x in X]
    outputs = [(h @ W1.T + b1, weight) for h, weight in drawn]
    y = np.stack([np.average(z, axis=0, weights=weight) for z, weight in outputs])
    found = jax.jit(small.OBJECTIVES["ep"])(model, Rows(jnp.asarray(X), jnp.asarray(y)), small.BEGIN)
    for value, target, (z, weight) in zip(found, y, outputs, strict=True):
        density = stats.norm.pdf(target, z, np.sqrt(small.S1)).prod(1)
        assert_allclose(value, np.log(np.average(density, weights=weight)), atol=0.05)


def test_initial_weights_of_the_paper_have_variance_0_01():
    rng = np.random.default_rng(0)
    options = {"s0": 0.5, "noise": 0.1, "init": "paper", "dtype": "float32"}
    model = draw_members(rng, 2, 30, (40, 20), 5, "undirected", **options)
    for a in (model.hidden.W0, model.hidden.W[0], model.likelihood.output.W1):
        assert a.shape[0] == 2
        assert_allclose(a.std(), 0.1, rtol=0.15)
        assert a.dtype == np.float32
    assert_array_equal(model.hidden.s0, np.float32([0.5, 0.5]))
    assert_allclose(model.likelihood.log_noise, np.log(0.1), rtol=1e-6)
