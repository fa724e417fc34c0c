"""Independent units against truncated normals."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from tests.models.small_models import EP, S0, changed, exponents, gaussian, numbers, random_model
from tests.models.textbook import truncated


def test_moments_are_those_of_independent_truncated_normals(rng):
    model, X, w = random_model(rng), rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
    W0, b0, W1 = numbers(model, "W0", "b0", "W1")
    a, sigma = X @ W0.T + b0, np.sqrt(S0)
    h, v = truncated(a, sigma)
    for mu, *found in zip(a[0], h[0], v[0], strict=True):  # the textbook's formulas against scipy's integrals
        assert_allclose(found, stats.truncnorm.stats(-mu / sigma, np.inf, mu, sigma), rtol=1e-9)

    @jax.jit
    def all_of(model, X, W, w):
        latent = model.latent(X, EP)
        moments = latent.covariance(W), latent.variances(W)[1], latent.products(W, w)
        return *moments, model.hidden.mean(X, W), model.hidden.standard(X)

    (mean, cov), variances, products, outputs, standard = all_of(model, X, W1, w)
    want = np.einsum("ik,bk,jk->bij", W1, v, W1)
    assert_allclose(mean, h, rtol=1e-9)
    assert_allclose(cov, want, rtol=1e-8, atol=1e-10)
    assert_allclose(variances, np.diagonal(want, axis1=1, axis2=2), rtol=1e-8)
    assert_allclose(products, np.einsum("bij,bj->bi", want, w), rtol=1e-8, atol=1e-10)
    assert_allclose(outputs, h @ W1.T, rtol=1e-9, atol=1e-12)
    assert_allclose(standard, a / sigma, rtol=1e-12)


def test_one_output_has_the_same_moments_as_one_of_two(rng):
    model, X = random_model(rng), jnp.asarray(rng.standard_normal((5, 3)))
    latent, W1 = model.latent(X, EP), model.likelihood.output.W1
    assert_allclose(latent.covariance(W1[:1])[1], latent.covariance(W1)[1][:, :1, :1], rtol=1e-13)


def test_gauge_leaves_the_outputs_unchanged(rng):
    model, X, c = random_model(rng), jnp.asarray(rng.standard_normal((5, 3))), 3.0
    W0, b0, W1 = numbers(model, "W0", "b0", "W1")
    parts = {"hidden.W0": c * W0, "hidden.b0": c * b0, "hidden.s0": S0 * c**2, "likelihood.output.W1": W1 / c}
    moments = jax.jit(lambda m: m.likelihood.moments(m.latent(X, EP)))
    both = (moments(m) for m in (model, changed(model, parts)))
    for a, b in zip(*both, strict=True):
        assert_allclose(a, b, rtol=1e-12)


def test_gauge_is_not_differentiated(rng):
    model, X = random_model(rng), jnp.asarray(rng.standard_normal((5, 3)))
    grad = jax.jit(jax.grad(lambda m: m.mean(X, EP).sum()))(model)
    assert_array_equal(grad.hidden.s0, 0.0)
    assert np.all(np.asarray(grad.hidden.W0) != 0)


def test_gaussian_is_the_exponent_of_the_prior_and_of_the_joint(rng):
    """Up to a constant in h: log p(h|x) and log p(h, y|x), at random h."""
    model, X, H = random_model(rng), rng.standard_normal((1, 3)), rng.exponential(size=(7, 4))
    W0, b0, W1, log_noise = numbers(model, "W0", "b0", "W1", "log_noise")
    residual, root = rng.standard_normal(2), np.exp(-log_noise / 2)
    log_prior = stats.norm.logpdf(H, W0 @ X[0] + b0, np.sqrt(S0)).sum(1)
    log_joint = log_prior + stats.norm.logpdf(residual, H @ W1.T, 1 / root).sum(1)
    U = root[:, None] * W1
    posterior = gaussian(model, X, U, (root * residual @ U)[None])
    for tg, want in ((gaussian(model, X), log_prior), (posterior, log_joint)):
        assert_allclose(np.diff(exponents(tg, H)), np.diff(want), rtol=1e-10)


def test_single_precision_stays_single(rng):
    model = jax.tree.map(lambda a: a.astype(np.float32), random_model(rng))
    mean, cov = model.likelihood.moments(model.latent(jnp.ones((2, 3), np.float32), EP))
    assert mean.dtype == cov.dtype == np.float32
