"""Layers at once: their energy, and moments and classes against importance sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from tests.models.sampling import last_layer_draws, log_mean
from tests.models.small_models import (
    EP,
    MEAN_FIELD,
    S0,
    drawn_model,
    exponents,
    gaussian,
    numbers,
    random_model,
)
from tggm.models.hidden import Undirected
from tggm.models.likelihoods import Probit


@pytest.mark.slow  # several layers against sampling, below
def test_no_layer_above_the_first_is_the_shallow_model(rng):
    model = random_model(rng, m=6)
    shallow, output = model.hidden, model.likelihood.output
    deep = Undirected(shallow.W0, shallow.b0, (), (), shallow.s0)
    X, label = jnp.asarray(rng.standard_normal((5, 3))), jnp.asarray([0, 1, 0, 1, 1], jnp.int32)

    @jax.jit
    def all_of(hidden):
        h, cov = hidden.moments(X, MEAN_FIELD).covariance(output.W1)
        mean = hidden.mean(X, output.W1, MEAN_FIELD)
        return h, cov, mean, Probit(output).by_engine(label, hidden, X, EP)

    for got, want in zip(all_of(deep), all_of(shallow), strict=True):
        assert_allclose(got, want, rtol=1e-7)


def test_energy_is_that_of_the_layers(rng):
    """−½ hᵀPh + γᵀh and −Σ‖h − u‖²/2s0 differ by a constant, with y and without."""
    model = drawn_model(rng, (4, 3, 2), form="undirected")
    X, residual, h = rng.standard_normal((1, 3)), rng.standard_normal(2), rng.random((6, 9))
    layers = jax.tree.map(np.asarray, model.hidden)
    parts = np.split(h, [4, 7], axis=1)
    below = [X @ layers.W0.T + layers.b0]
    below += [p @ W.T + b for p, W, b in zip(parts, layers.W, layers.b, strict=False)]
    energy = -sum(((p - u) ** 2).sum(1) for p, u in zip(parts, below, strict=True)) / (2 * S0)
    (W1,) = numbers(model, "W1")
    error = residual - parts[-1] @ W1.T
    U = W1 / np.sqrt(0.3)
    pull = (residual @ U / np.sqrt(0.3))[None]
    posterior = gaussian(model, X, U, pull)
    for tg, want in (
        (gaussian(model, X), energy),
        (posterior, energy - (error**2).sum(1) / 0.6),
    ):
        assert_allclose(np.diff(exponents(tg, h)), np.diff(want), rtol=1e-9)


def test_moments_and_class_by_importance_sampling(rng):
    model = drawn_model(rng, (4, 3), form="undirected")
    X, label = rng.standard_normal((3, 3)), jnp.asarray([0, 1, 1], jnp.int32)

    @jax.jit
    def by_ep(model, X):
        _, cov = model.latent(X, EP).covariance(model.likelihood.output.W1)
        mean, _ = model.likelihood.moments(model.latent(X, EP))
        return mean, cov, Probit(model.likelihood.output).by_engine(label, model.hidden, X, EP)

    mean, cov, log_p = by_ep(model, jnp.asarray(X))
    W1, b1 = numbers(model, "W1", "b1")
    for i, x in enumerate(X):
        h, w = last_layer_draws(rng, model.hidden, x, 100_000)
        z = h @ W1.T + b1
        assert_allclose(mean[i], np.average(z, axis=0, weights=w), atol=0.03)
        assert_allclose(cov[i], np.cov(z.T, aweights=w), atol=0.05)
        lead = (z[:, 0] - z[:, 1]) * (1 if label[i] == 0 else -1)
        truth, error = log_mean(stats.norm.cdf(lead / np.sqrt(2)), w)
        assert_allclose(log_p[i], truth, atol=0.02 + 4 * error)


@pytest.mark.slow  # a start changes no answer: tests/inference/mean_field/test_engine.py
def test_engines_start_from_what_a_directed_model_propagates(rng):
    model = drawn_model(rng, (4, 3), form="undirected")
    X = rng.standard_normal((2, 3))
    found = np.asarray(model.hidden.start(jnp.asarray(X)))
    h, _ = last_layer_draws(rng, model.hidden, X[0], 20_000)
    assert found.shape == (2, 7)
    assert_allclose(found[0, 4:], h.mean(0), atol=0.03)
    grad = jax.grad(lambda m: m.hidden.start(jnp.asarray(X)).sum())(model)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(grad))
