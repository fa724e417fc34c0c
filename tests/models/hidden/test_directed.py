"""Propagated moments against sampling, and against the law of total variance where it is exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.cases import few
from tests.models.sampling import last_layer_draws
from tests.models.small_models import EP, S0, drawn_model, numbers, random_model
from tests.models.textbook import truncated
from tggm.models.hidden import Directed

TOLERANCE = 2e-3  # of seven nodes, for units that bend as these do


def test_no_layer_above_the_first_is_the_shallow_model(rng):
    model = random_model(rng)
    shallow = model.hidden
    deep = Directed(shallow.W0, shallow.b0, (), (), shallow.s0)
    X, W1 = jnp.asarray(rng.standard_normal((5, 3))), model.likelihood.output.W1

    def both(hidden):
        latent = hidden.moments(X, EP)
        return *latent.covariance(W1), *latent.variances(W1)

    for got, want in zip(jax.jit(both)(deep), jax.jit(both)(shallow), strict=True):
        assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("layers", few([(8, 8), (6, 7, 5)], "(6, 7, 5)"))
def test_moments_are_those_of_draws(rng, layers):
    """Means to 0.03 deviations and variances to 5 %: propagation's own error, the draws' is 0.005 and 1 %."""
    model = drawn_model(rng, layers, form="directed")
    X = rng.standard_normal((3, 3))
    both = jax.jit(lambda m, X: (m.likelihood.moments(m.latent(X, EP)), m.mean(X, EP)))
    (mean, cov), again = both(model, jnp.asarray(X))
    W1, b1 = numbers(model, "W1", "b1")
    for i, x in enumerate(X):
        h, _ = last_layer_draws(rng, model.hidden, x, 60_000)
        y = h @ W1.T + b1
        want = np.cov(y.T) + 0.3 * np.eye(2)
        scale = np.sqrt(np.diag(want))
        assert_allclose((mean[i] - y.mean(0)) / scale, 0, atol=0.03)
        assert_allclose((cov[i] - want) / np.outer(scale, scale), 0, atol=0.05)
    assert_allclose(again, mean, rtol=1e-12)


def test_a_unit_has_the_whole_variance_of_a_bent_function(rng):
    """Var[h] = E[Var[h|u]] + Var[E[h|u]] for Gaussian u: the second is more than the slope's share of it."""
    layers = drawn_model(rng, (3, 3), form="directed").hidden
    layers = Directed(layers.W0, layers.b0, (2 * layers.W[0],), layers.b, layers.s0)
    X = rng.standard_normal((4, 3))
    mean, var = map(np.asarray, jax.jit(lambda X: layers.moments(X).variances(jnp.eye(3)))(X))
    h, v = truncated(X @ np.asarray(layers.W0).T + np.asarray(layers.b0), np.sqrt(S0))
    W = np.asarray(layers.W[0])
    centre, spread = h @ W.T + np.asarray(layers.b[0]), np.sqrt(v @ (W**2).T)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    nodes, w = nodes[:, None, None], (weights / weights.sum())[:, None, None]
    given, left = truncated(centre + spread * nodes, np.sqrt(S0))
    middle = (w * given).sum(0)
    within, between = (w * left).sum(0), (w * (given - middle) ** 2).sum(0)
    slope = (w * given * nodes).sum(0)  # κ times the deviation of u
    assert_allclose(mean, middle, rtol=TOLERANCE)
    assert_allclose(var, within + between, rtol=TOLERANCE)
    assert np.max((between - slope**2) / var) > 10 * TOLERANCE  # what a straight line leaves out matters
