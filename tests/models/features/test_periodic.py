"""Features of columns: waves, and what is bounded far out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from tggm.models.features.columns import BULK, bounded
from tggm.models.features.periodic import cos_turns
from tggm.training.methods import MomentMatching, Rows

from tggm.models import Architecture
from tggm.models.features import FEATURES


@pytest.mark.parametrize(("kind", "digits"), [("float32", 4e-7), ("float64", 5e-15)])
def test_waves_are_cosines(kind, digits):
    t = np.linspace(-5, 5, 20_001).astype(kind)
    assert_allclose(jax.jit(cos_turns)(t), np.cos(2 * np.pi * t.astype(float)), atol=digits)
    slope = jax.jit(jax.vmap(jax.grad(cos_turns)))(t)
    assert_allclose(slope, -2 * np.pi * np.sin(2 * np.pi * t.astype(float)), atol=20 * digits)


def test_features_are_columns_and_sums_of_waves(rng):
    features = FEATURES["periodic"].draw(rng, 3)
    X = rng.standard_normal((5, 3))
    found = np.asarray(jax.jit(lambda X: features(X))(X))
    assert found.shape == (5, FEATURES["periodic"].width(3)) == (5, 12)
    assert FEATURES["periodic"].n_inputs(12) == 3
    assert_allclose(found[:, :3], X)
    for j in range(3):
        waves = np.cos(2 * np.pi * (X[:, j : j + 1] * features.c[j] + features.phi[j]))
        assert_allclose(found[:, 3 + 3 * j : 6 + 3 * j], waves @ features.E[j].T, atol=1e-12)


def test_what_is_far_out_grows_like_a_logarithm():
    x = jnp.asarray([[0.5, -BULK, BULK + 1, -1e300]])
    assert_allclose(bounded(x), [[0.5, -BULK, BULK + np.log(2), -BULK - np.log(1e300)]])
    slope = jax.jit(jax.vmap(jax.grad(bounded)))(jnp.asarray([-5.0, -4.0, 0.0, 4.0, 1e6]))
    assert_allclose(slope, [0.5, 1, 1, 1, 1 / (1e6 - 3)])


@pytest.mark.parametrize("features", ["bounded", "periodic", None])
def test_a_linear_part_moves_the_mean_by_itself(rng, features):
    """The density of y under A x is that of y − A x without it, for every way of computing it."""
    built = Architecture(3, (4,), 1, features=features, linear=True)
    model = built.draw(rng)
    arrays = model.arrays()
    A = rng.standard_normal((1, 3))
    moved = model.replaced(arrays | {"likelihood.output.A": A})
    X, y = rng.standard_normal((6, 3)), rng.standard_normal((6, 1))
    density = jax.jit(lambda model, X, y: MomentMatching()(model, Rows(X, y), jnp.zeros(())))
    shifted = y - np.asarray(model.features.inputs(jnp.asarray(X))) @ A.T
    assert_allclose(density(moved, X, y), density(model, X, shifted), rtol=1e-12)
