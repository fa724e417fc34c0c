"""Deep models against shallow ones, sampling, brute-force integrals and each other."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from tggm.inference.factor_bound import mean_field_log_z
from tggm.models.deep import initial_deep, shallow
from tggm.models.deep_energy import deep_posterior, deep_prior
from tggm.models.deep_moments import directed_class_moments, directed_output_moments
from tggm.models.directed_bound import directed_bound, directed_class_bound, forward_means
from tggm.models.probit import class_moments
from tggm.models.probit_ep import class_log_likelihood_ep
from tggm.models.shallow import prior_log_z
from tggm.models.undirected_ep import undirected_class_ep
from tggm.models.undirected_moments import undirected_mean, undirected_output_moments

from tests.models.deep_sampling import hidden_draws, log_mean
from tggm.inference.ep.layered import layered_ep
from tggm.inference.mean_field.upper_bound import upper_bound
from tggm.models import output_moments
from tggm.special.probit_bound import exact as probit_expansion

S0 = 0.7


def model(rng, hidden, *, form="directed", d=3, n=2, scale=1.0):
    drawn = initial_deep(rng, (d, *hidden, n), form=form, s0=S0, noise=0.3)
    params = jax.tree.map(jnp.asarray, drawn)
    biases = tuple(jnp.asarray(0.5 * rng.standard_normal(b.shape)) for b in params.b)
    return params._replace(W=tuple(scale * w for w in params.W), b=biases)


def test_one_hidden_layer_is_the_shallow_model(rng):
    params = model(rng, (6,))
    X, s0 = jnp.asarray(rng.standard_normal((5, 3))), jnp.asarray(S0)
    for got, want in zip(
        directed_output_moments(params, X, s0), output_moments(shallow(params), X, s0), strict=True
    ):
        assert_allclose(got, want, rtol=1e-13)
    for got, want in zip(
        directed_class_moments(params, X, s0), class_moments(shallow(params), X, s0), strict=True
    ):
        assert_allclose(got, want, rtol=1e-13)
    undirected = model(rng, (6,), form="undirected")
    exact = output_moments(shallow(undirected), X, s0)
    label = jnp.asarray([0, 1, 0, 1, 1], jnp.int32)

    @jax.jit
    def all_of(p):
        return (
            undirected_output_moments(p, X, s0, "mean_field"),
            undirected_mean(p, X, s0),
            undirected_class_ep(p, X, label, s0, jnp.int32(100)),
            class_log_likelihood_ep(shallow(p), X, label, s0, jnp.int32(100)),
        )

    moments, mean, got, want = all_of(undirected)
    for found, known in zip(moments, exact, strict=True):
        assert_allclose(found, known, rtol=1e-7)
    assert_allclose(mean, exact[0], rtol=1e-9)
    assert_allclose(got - prior_log_z(shallow(undirected), X, s0), want, rtol=1e-8)


@pytest.mark.parametrize("hidden", [(8, 8), (6, 7, 5)])
def test_propagated_moments_are_those_of_draws(rng, hidden):
    """Means to 0.03 deviations and variances to 5 %: propagation's own error, the draws' is 0.005 and 1 %."""
    params = model(rng, hidden)
    X = rng.standard_normal((3, 3))
    mean, cov = jax.jit(directed_output_moments)(params, jnp.asarray(X), jnp.asarray(S0))
    for i, x in enumerate(X):
        h, _ = hidden_draws(rng, params, x, S0, 60_000)
        y = h @ np.asarray(params.W1).T + np.asarray(params.b1)
        want = np.cov(y.T) + 0.3 * np.eye(2)
        scale = np.sqrt(np.diag(want))
        assert_allclose((mean[i] - y.mean(0)) / scale, 0, atol=0.03)
        assert_allclose((cov[i] - want) / np.outer(scale, scale), 0, atol=0.05)


def test_energy_is_that_of_the_layers(rng):
    """−½ hᵀPh + γᵀh and −Σ‖h − u‖²/2s0 differ by a constant, with y and without."""
    params = model(rng, (4, 3, 2))
    X, Y = rng.standard_normal((1, 3)), rng.standard_normal((1, 2))
    h = rng.random((6, 9))
    parts = np.split(h, [4, 7], axis=1)
    below = [X @ np.asarray(params.W0).T + np.asarray(params.b0)]
    below += [p @ np.asarray(W).T + np.asarray(b) for p, W, b in zip(parts, params.W, params.b, strict=False)]
    energy = -sum(((p - u) ** 2).sum(1) for p, u in zip(parts, below, strict=True)) / (2 * S0)
    error = Y - parts[-1] @ np.asarray(params.W1).T - np.asarray(params.b1)
    for tg, want in (
        (deep_prior(params, jnp.asarray(X), S0), energy),
        (deep_posterior(params, jnp.asarray(X), jnp.asarray(Y), S0), energy - (error**2).sum(1) / 0.6),
    ):
        P, gamma = np.asarray(tg.precision.dense()), np.asarray(tg.shift)[0]
        got = -0.5 * np.einsum("bi,ij,bj->b", h, P, h) + h @ gamma
        assert_allclose(np.diff(got), np.diff(want), rtol=1e-9)


def test_upper_bound_lies_above_and_mean_field_below(rng):
    """Against a product of Gauss–Legendre rules in three dimensions, exact to 1e-9 here."""
    params = model(rng, (2, 1))
    X, s0 = jnp.asarray(rng.standard_normal((4, 3))), jnp.asarray(S0)
    tg = deep_prior(params, X, s0)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    grid = np.array(list(itertools.product(6 * (nodes + 1), repeat=3)))
    w = np.prod(list(itertools.product(6 * weights, repeat=3)), axis=1)
    P = np.asarray(tg.precision.dense())
    quadratic = -0.5 * np.einsum("bi,ij,bj->b", grid, P, grid)
    truth = np.array([np.log(w @ np.exp(quadratic + grid @ np.asarray(g))) for g in tg.shift])

    @jax.jit
    def three(tg, start):
        steps = jnp.int32(100)
        upper = upper_bound(tg, s0, start=start, max_iter=steps)
        return upper, mean_field_log_z(tg, start, steps), layered_ep(tg, steps)

    upper, lower, between = three(tg, forward_means(params, X, s0))
    assert np.all(np.asarray(upper) > truth)
    assert np.all(np.asarray(lower) < truth)
    assert_allclose(between, truth, atol=0.02)
    assert np.all(np.asarray(upper) - truth < 0.5)


def test_directed_bounds_are_below_importance_sampling(rng):
    params = model(rng, (4, 3))
    X, Y = rng.standard_normal((3, 3)), rng.standard_normal((3, 2))
    label = jnp.asarray([0, 1, 1], jnp.int32)
    s0, steps = jnp.asarray(S0), jnp.int32(100)

    def expand(eta):
        return probit_expansion(eta, label, n_nodes=64, n_steps=8)

    @jax.jit
    def both(p, X, Y):
        return directed_bound(p, X, Y, s0, steps), directed_class_bound(p, X, s0, expand, steps)

    bound, of_class = map(np.asarray, both(params, jnp.asarray(X), jnp.asarray(Y)))
    for i, x in enumerate(X):
        h, _ = hidden_draws(rng, params, x, S0, 50_000)
        mean = h @ np.asarray(params.W1).T + np.asarray(params.b1)
        one = np.ones(len(h))
        truth, error = log_mean(stats.norm.pdf(Y[i], mean, np.sqrt(0.3)).prod(1), one)
        assert truth - 1.5 < bound[i] < truth + 4 * error
        lead = (mean[:, 0] - mean[:, 1]) * (1 if label[i] == 0 else -1)
        truth, error = log_mean(stats.norm.cdf(lead / np.sqrt(2)), one)
        assert truth - 1.5 < of_class[i] < truth + 4 * error


def test_undirected_moments_and_class_by_importance_sampling(rng):
    params = model(rng, (4, 3), form="undirected")
    X = rng.standard_normal((3, 3))
    s0, label = jnp.asarray(S0), jnp.asarray([0, 1, 1], jnp.int32)

    @jax.jit
    def of_ep(p, X):
        joint = undirected_class_ep(p, X, label, s0, jnp.int32(100))
        alone = layered_ep(deep_prior(p, X, s0), jnp.int32(100))
        return undirected_output_moments(p, X, s0, "ep"), joint - alone

    (mean, cov), log_p = of_ep(params, jnp.asarray(X))
    for i, x in enumerate(X):
        h, w = hidden_draws(rng, params, x, S0, 100_000)
        z = h @ np.asarray(params.W1).T + np.asarray(params.b1)
        centre = np.average(z, axis=0, weights=w)
        want = np.cov(z.T, aweights=w) + 0.3 * np.eye(2)
        assert_allclose(mean[i], centre, atol=0.03)
        assert_allclose(cov[i], want, atol=0.05)
        lead = (z[:, 0] - z[:, 1]) * (1 if label[i] == 0 else -1)
        truth, error = log_mean(stats.norm.cdf(lead / np.sqrt(2)), w)
        assert_allclose(log_p[i], truth, atol=0.02 + 4 * error)
