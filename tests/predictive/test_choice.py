"""The distribution that each kind of model offers, against quadrature over its hidden units."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from tggm.models import Architecture
from tggm.predictive import EnginePredictive, MomentPredictive, MultivariatePredictive, Predictive
from tggm.predictive.choice import joint, marginal
from tggm.predictive.multivariate_moment import MultivariateMomentPredictive
from tggm.training.engine import Inference

EP = Inference("ep")
X = np.array([[0.3, -1.0], [1.2, 0.4], [-0.5, 0.8]])
SHIFT, SCALE = np.array([1.0, -2.0]), np.array([2.0, 0.5])


def members(layers, n_outputs=1, **options):
    """Two models drawn at random, their outputs and connections enlarged."""
    built = Architecture(2, layers, n_outputs, **options)
    rng = np.random.default_rng(4)
    drawn = [built.draw(rng, s0=0.7, noise=0.2) for _ in range(2)]
    model = jax.tree.map(lambda *leaves: np.stack(leaves), *drawn)
    arrays = model.arrays()
    larger = {"likelihood.output.W1": 2.0, "hidden.V": 8.0}
    return model.replaced({name: larger.get(name, 1.0) * a for name, a in arrays.items()})


def by_grid(model, y):
    """Log-density of y = SHIFT + SCALE z by a grid over two units, the mixture of members, row by row."""
    a = model.arrays()
    t = (np.arange(400) + 0.5) * 0.025
    h = np.stack(np.meshgrid(t, t), -1).reshape(-1, 2)
    found = []
    for k in range(2):
        V, s0 = a["hidden.V"][k], a["hidden.s0"][k]
        P = (np.eye(2) + V.T @ V) / s0
        noise = np.exp(a["likelihood.log_noise"][k, 0])
        w, b = a["likelihood.output.W1"][k, 0], a["likelihood.output.b1"][k, 0]
        for row, value in zip(X, y, strict=True):
            away = h - (row @ a["hidden.W0"][k].T + a["hidden.b0"][k])[None]
            prior = -0.5 * np.einsum("gi,ij,gj->g", away, P, away)
            z = (value - SHIFT[0]) / SCALE[0]
            normal = -0.5 * (z - h @ w - b) ** 2 / noise - 0.5 * np.log(2 * np.pi * noise)
            found.append(logsumexp(prior + normal) - logsumexp(prior))
    return logsumexp(np.reshape(found, (2, 3)), axis=0) - np.log(2) - np.log(SCALE[0])


def test_lateral_connections_have_the_density_of_an_engine():
    model = members((2,), lateral=1)
    dist = marginal(model, X, 0, EP, SHIFT, SCALE)
    assert isinstance(dist, EnginePredictive)
    y = np.array([1.5, 4.0, -0.5])
    assert_allclose(dist.logpdf(y), by_grid(model, y), atol=5e-3)  # EP's error with two units
    assert_allclose(dist[0:2].logpdf(y[0:2]), dist.logpdf(y)[0:2], rtol=1e-10)
    several = dist.pdf(np.column_stack([y, y + 1]))
    assert_allclose(several[:, 0], dist.pdf(y), rtol=1e-10)
    assert_allclose(several[:, 1], dist.pdf(y + 1), rtol=1e-10)


@pytest.mark.parametrize(
    ("layers", "options", "one", "several"),
    [
        ((3,), {}, Predictive, MultivariatePredictive),
        ((3, 2), {}, MomentPredictive, MultivariateMomentPredictive),
        ((3, 2), {"form": "undirected"}, MomentPredictive, MultivariateMomentPredictive),
    ],
)
def test_what_models_offer(layers, options, one, several):
    model = members(layers, 2, **options)
    both = joint(model, X, EP, SHIFT, SCALE)
    assert isinstance(both, several)
    for j in range(2):
        dist = marginal(model, X, j, EP, SHIFT, SCALE)
        assert isinstance(dist, one)
        assert_allclose(dist.mean(), both.mean()[:, j], rtol=1e-9)
        assert_allclose(dist.std(), both.std()[:, j], rtol=1e-9)
    assert np.isfinite(both.logpdf(both.mean())).all()
