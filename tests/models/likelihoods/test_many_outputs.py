"""More outputs than units: the same density and the same gradients as from the whole covariance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from tggm.models.likelihoods.gaussian import gaussian_log_density
from tggm.models.likelihoods.many_outputs import many_outputs_log_density

from tests.models.small_models import EP, drawn_model

ROWS, N, M = 3, 7, 4


@pytest.fixture
def arrays(rng):
    root = rng.standard_normal((ROWS, M, M))
    return rng.standard_normal((ROWS, N)), rng.standard_normal((N, M)), root @ root.transpose(0, 2, 1)


def whole(e, A, C):
    return gaussian_log_density(e, jnp.zeros_like(e), jnp.eye(N)[None] + A @ C @ A.T)


def test_density(arrays):
    e, A, C = arrays
    want = [
        stats.multivariate_normal.logpdf(x, np.zeros(N), np.eye(N) + A @ c @ A.T)
        for x, c in zip(e, C, strict=True)
    ]
    assert_allclose(jax.jit(many_outputs_log_density)(e, A, C), want, rtol=1e-12)


@pytest.mark.parametrize("dead", [False, True])
def test_gradients(arrays, dead):
    """Also where a unit has no weights, and none of its own variance: R has no inverse then."""
    e, A, C = arrays
    if dead:
        A[:, 1] = 0.0
        C[:, 2], C[:, :, 2] = 0.0, 0.0
    weight = jnp.arange(1.0, ROWS + 1)
    found, want = (
        jax.jit(jax.grad(lambda *given, f=f: weight @ f(*given), argnums=(0, 1, 2)))(e, A, C)
        for f in (many_outputs_log_density, whole)
    )
    for one, other in zip(found[:2], want[:2], strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    assert_allclose(found[2] + found[2].mT, want[2] + want[2].mT, rtol=1e-9, atol=1e-11)  # C is symmetric


@pytest.mark.parametrize(("layers", "form"), [((3,), "shallow"), ((4, 3), "directed")])
def test_models_use_it(rng, layers, form):
    model = drawn_model(rng, layers, 5, form=form)
    X, y = rng.standard_normal((4, 3)), rng.standard_normal((4, 5))

    @jax.jit
    def both(model):
        outputs, latent = model.likelihood, model.latent(jnp.asarray(X), EP)
        return outputs.by_moments(jnp.asarray(y), latent), gaussian_log_density(y, *outputs.moments(latent))

    assert_allclose(*both(model), rtol=1e-10)
