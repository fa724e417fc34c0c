"""Connections inside a layer: the energy, what is left of them without, and the bounds of their weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.models.small_models import (
    EP,
    S0,
    changed,
    drawn_model,
    exponents,
    gaussian,
    numbers,
    random_model,
    with_members,
)
from tggm.models.hidden import Lateral


def test_energy_is_that_of_connected_units(rng):
    model = drawn_model(rng, (4,), form="lateral", lateral=2)
    X, H = rng.standard_normal((1, 3)), rng.exponential(size=(7, 4))
    W0, b0, V, W1 = numbers(model, "W0", "b0", "V", "W1")
    away = H - (W0 @ X[0] + b0)
    log_prior = -((away**2).sum(1) + ((away @ V.T) ** 2).sum(1)) / (2 * S0)
    residual = rng.standard_normal(2)
    log_joint = log_prior - ((residual - H @ W1.T) ** 2).sum(1) / 2
    posterior = gaussian(model, X, W1, (residual @ W1)[None])
    for tg, want in ((gaussian(model, X), log_prior), (posterior, log_joint)):
        assert_allclose(np.diff(exponents(tg, H)), np.diff(want), rtol=1e-10)


def test_without_connections_units_are_independent(rng):
    model = random_model(rng)
    shallow, W1 = model.hidden, model.likelihood.output.W1
    lateral = Lateral(shallow.W0, shallow.b0, jnp.zeros((1, 4)), shallow.s0)
    X = jnp.asarray(rng.standard_normal((3, 3)))

    @jax.jit
    def found(hidden):
        return *hidden.moments(X, EP).covariance(W1), hidden.mean(X, W1, EP)

    for got, want in zip(found(lateral), found(shallow), strict=True):
        assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"hidden.V": np.full((1, 4), 1e7)}, r"lateral connections must be at most 1e\+06"),
        ({"hidden.s0": 1e-30, "hidden.b0": np.full(4, 1e-2)}, r"locations reach .*e\+15 σ0"),
    ],
)
def test_check_names_what_cannot_be_computed_with(rng, arrays, message):
    model = drawn_model(rng, (4,), form="lateral", lateral=1)
    with_members(model).check("float64")
    with pytest.raises(ValueError, match=message):
        with_members(changed(model, arrays)).check("float64")
