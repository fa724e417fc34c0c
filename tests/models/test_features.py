"""Feature maps: waves of columns, and inputs that are bounded far from the mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.models.small_models import changed, drawn_model, log_density
from tggm.formulas import BULK, COSINE_TERMS, cos_turns
from tggm.models import Bounded, Identity, Periodic


def test_waves_are_cosines(dtype):
    digits = 4e-7 if dtype == np.float32 else 5e-15
    wave = jax.jit(lambda t: cos_turns(jnp, t, COSINE_TERMS[dtype.name]))
    t = np.linspace(-5, 5, 20_001).astype(dtype)
    assert_allclose(wave(t), np.cos(2 * np.pi * t.astype(float)), atol=digits)
    slope = jax.jit(jax.vmap(jax.grad(wave)))(t)
    assert_allclose(slope, -2 * np.pi * np.sin(2 * np.pi * t.astype(float)), atol=20 * digits)


def test_periodic_features_are_columns_and_sums_of_waves(rng):
    features = Periodic.draw(rng, 3)
    X = rng.standard_normal((5, 3))
    found = np.asarray(jax.jit(lambda X: features(X))(X))
    assert found.shape == (5, Periodic.width(3)) == (5, 12)
    assert_allclose(found[:, :3], X)
    for j in range(3):
        waves = np.cos(2 * np.pi * (X[:, j : j + 1] * features.c[j] + features.phi[j]))
        assert_allclose(found[:, 3 + 3 * j : 6 + 3 * j], waves @ features.E[j].T, atol=1e-12)


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_bounded_inputs_grow_like_a_logarithm_far_from_the_mean(array):
    x = np.array([[0.5, -BULK, BULK + 1, -1e300]])
    wanted = [[0.5, -BULK, BULK + np.log(2), -BULK - np.log(1e300)]]
    assert_allclose(Bounded()(array(x)), wanted)
    slope = jax.jit(jax.vmap(jax.grad(Bounded())))(jnp.asarray([-5.0, -4.0, 0.0, 4.0, 1e6]))
    assert_allclose(slope, [0.5, 1, 1, 1, 1 / (1e6 - 3)])


@pytest.mark.parametrize("features", [Identity, Bounded, Periodic])
def test_a_linear_part_shifts_the_mean(rng, features):
    """The density of y with A x is that of y − A x without it."""
    model = drawn_model(rng, (4,), 1, features=features, linear=True)
    A = rng.standard_normal((1, 3))
    X, y = 3 * rng.standard_normal((6, 3)), rng.standard_normal((6, 1))
    density = jax.jit(log_density)
    shifted = y - np.asarray(model.features.inputs(jnp.asarray(X))) @ A.T
    found = density(changed(model, {"likelihood.output.A": A}), X, y)
    assert_allclose(found, density(model, X, shifted), rtol=1e-12)
