"""Moments of hidden layers against truncated normals, quadrature, samples and differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from tests.models import small_models as small
from tests.models.sampling import last_layer_draws
from tggm.models import Directed
from tggm.models.layers import averages, propagate
from tggm.special import kernels

PLACES = np.array([-1e6, -300.0, -20.0, -5.0, -1.0, -0.3, 0.0, 0.5, 3.0, 12.0, 1e4])
SPREADS = np.array([1e-6, 0.1, 1.0, 7.0])


def test_one_layer_has_the_moments_of_independent_truncated_normals(rng):
    model, X, w = small.random_model(rng), rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
    W0, b0, W1 = small.numbers(model, "W0", "b0", "W1")
    a, sigma = X @ W0.T + b0, np.sqrt(small.S0)
    h, v = small.truncated(a, sigma)
    for mu, *found in zip(a[0], h[0], v[0], strict=True):  # the textbook's formulas against scipy's integrals
        assert_allclose(found, stats.truncnorm.stats(-mu / sigma, np.inf, mu, sigma), rtol=1e-9)

    @jax.jit
    def all_of(model, X, W, w):
        latent = model.at(X)[1]
        variances, products = latent.variances(W)[1], latent.products(W, w)
        return latent.covariance(W), variances, products, latent.covariance(W[:1])[1]

    (mean, cov), variances, products, first = all_of(model, X, W1, w)
    want = np.einsum("ik,bk,jk->bij", W1, v, W1)
    assert_allclose(mean, h, rtol=1e-9)
    assert_allclose(cov, want, rtol=1e-8, atol=1e-10)
    assert_allclose(first, want[:, :1, :1], rtol=1e-8)
    assert_allclose(variances, np.diagonal(want, axis1=1, axis2=2), rtol=1e-8)
    assert_allclose(products, np.einsum("bij,bj->bi", want, w), rtol=1e-8, atol=1e-10)


def test_moments_of_several_layers_are_those_of_samples(rng):
    """Propagation has errors of up to 0.03 deviations and 5 % of variances; samples of 0.005 and 1 %."""
    model = small.drawn_model(rng, (6, 7, 5))
    X, w = rng.standard_normal((3, 3)), rng.standard_normal((3, 2))

    @jax.jit
    def found(model, X, w):
        latent, W1 = model.at(X)[1], model.likelihood.output.W1
        one = [latent.covariance(W1[k : k + 1])[1][:, 0, 0] for k in (0, 1)]
        return *model.likelihood.moments(latent), latent.variances(W1)[1], one, latent.products(W1, w)

    mean, cov, variances, one, products = map(np.asarray, found(model, jnp.asarray(X), jnp.asarray(w)))
    W1, b1 = small.numbers(model, "W1", "b1")
    for i, x in enumerate(X):
        y = last_layer_draws(rng, model.hidden, x, 60_000) @ W1.T + b1
        want = np.cov(y.T) + 0.3 * np.eye(2)
        scale = np.sqrt(np.diag(want))
        assert_allclose((mean[i] - y.mean(0)) / scale, 0, atol=0.03)
        assert_allclose((cov[i] - want) / np.outer(scale, scale), 0, atol=0.05)
    of_units = cov - 0.3 * np.eye(2)
    assert_allclose(variances, np.diagonal(of_units, axis1=1, axis2=2), rtol=1e-10)
    assert_allclose(one.T, variances, rtol=1e-10)
    assert_allclose(products, np.einsum("bij,bj->bi", of_units, w), rtol=1e-10, atol=1e-12)


def test_a_second_layer_has_the_exact_moments_for_gaussian_locations(rng):
    """Var[h] = E[Var[h | u]] + Var[E[h | u]]; the second part is larger than that of a linear function."""
    layers = small.drawn_model(rng, (3, 3)).hidden
    layers = Directed(layers.W0, layers.b0, (2 * layers.W[0],), layers.b, layers.s0)
    X = rng.standard_normal((4, 3))
    last = jax.jit(lambda X: propagate(layers, X, 7)[-1])(X)
    h, v = small.truncated(X @ np.asarray(layers.W0).T + np.asarray(layers.b0), np.sqrt(small.S0))
    W = np.asarray(layers.W[0])
    centre, spread = h @ W.T + np.asarray(layers.b[0]), np.sqrt(v @ (W**2).T)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    nodes, w = nodes[:, None, None], (weights / weights.sum())[:, None, None]
    given, left = small.truncated(centre + spread * nodes, np.sqrt(small.S0))
    mean = (w * given).sum(0)
    within, between = (w * left).sum(0), (w * (given - mean) ** 2).sum(0)
    slope = (w * given * nodes).sum(0)  # κ times the deviation of u
    assert_allclose(last.mean, mean, rtol=2e-3)
    assert_allclose(last.var, within + between, rtol=2e-3)
    assert_allclose(last.own, within + between - slope**2, rtol=2e-2)
    assert np.max((between - slope**2) / last.var) > 0.02


@pytest.mark.parametrize("units", [(4,), (4, 3)])
def test_gradients_are_differences(rng, units):
    model = small.drawn_model(rng, units)
    X, y = jnp.asarray(rng.standard_normal((5, 3))), jnp.asarray(rng.standard_normal((5, 2)))
    small.assert_gradient(lambda m: small.log_density(m, X, y).sum(), model, rng)


def test_scaling_units_and_weights_leaves_the_outputs_unchanged(rng):
    model, X, c = small.random_model(rng), jnp.asarray(rng.standard_normal((5, 3))), 3.0
    W0, b0, W1 = small.numbers(model, "W0", "b0", "W1")
    parts = {"hidden.W0": c * W0, "hidden.b0": c * b0, "likelihood.output.W1": W1 / c}
    parts["hidden.s0"] = small.S0 * c**2
    moments = jax.jit(lambda m: m.likelihood.moments(m.at(X)[1]))
    for a, b in zip(moments(model), moments(small.changed(model, parts)), strict=True):
        assert_allclose(a, b, rtol=1e-12)
    grad = jax.jit(jax.grad(lambda m: moments(m)[0].sum()))(model)
    assert_array_equal(grad.hidden.s0, 0.0)  # a gauge is not learned
    assert np.all(np.asarray(grad.hidden.W0) != 0)


def test_single_precision_stays_single(rng):
    model = jax.tree.map(lambda a: a.astype(np.float32), small.drawn_model(rng, (4, 3)))
    mean, cov = model.likelihood.moments(model.at(jnp.ones((2, 3), np.float32))[1])
    assert mean.dtype == cov.dtype == np.float32


def plain(n_nodes, alpha, spread):
    """Return the averages as sums over an axis of nodes."""
    z, w = np.polynomial.hermite_e.hermegauss(n_nodes)
    z, w = jnp.asarray(z, alpha.dtype), jnp.asarray(w / w.sum(), alpha.dtype)
    g, omega2 = kernels.moments(alpha + spread * z)
    c = (w * g).sum()
    return jnp.stack([c, (w * omega2).sum(), (w * (g - c) ** 2).sum()])


@pytest.fixture
def grid(dtype):
    alpha, spread = (a.ravel() for a in np.meshgrid(PLACES, SPREADS))
    return jnp.asarray(alpha, dtype), jnp.asarray(spread, dtype)


@pytest.mark.parametrize(("n_nodes", "reach"), [(3, 2), (7, 4)])
def test_averages_and_their_derivatives_are_those_of_the_sums(grid, dtype, n_nodes, reach):
    """Up to rounding of the terms: g where nodes reach, its square in the variance."""
    tolerance = 3e-5 if dtype == np.float32 else 1e-12

    def both(f):
        return jax.jit(jax.vmap(lambda a, s: (f(a, s), jax.jacfwd(f, (0, 1))(a, s))))(*grid)

    values, rates = both(lambda a, s: jnp.stack(averages(n_nodes, a, s)))
    expected, expected_rates = both(lambda a, s: plain(n_nodes, a, s))
    size = 1 + np.maximum(np.asarray(grid[0]) + reach * np.asarray(grid[1]), 0)[:, None]
    size = size ** np.array([1, 0, 2])
    for found, wanted in ((values, expected), *zip(rates, expected_rates, strict=True)):
        np.testing.assert_array_less(np.abs(found - wanted) / size, tolerance)
