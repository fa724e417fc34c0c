"""Which fit a checkpoint belongs to: every setting and every bit count."""

from fractions import Fraction

import jax
import numpy as np
import optax
import pytest
from tggm.training.fit_identity import identity, optimiser_identity


def test_an_identity_is_settings_and_every_bit():
    X = np.arange(6.0).reshape(2, 3)
    same = identity({"a": 1, "b": [2]}, (X, None))
    assert same == identity({"b": [2], "a": 1}, (X.copy(order="F"), None))
    others = [
        identity({"a": 1, "b": [3]}, (X, None)),
        identity({"a": 1, "b": [2]}, (np.nextafter(X, 9), None)),
        identity({"a": 1, "b": [2]}, (X.reshape(3, 2), None)),
        identity({"a": 1, "b": [2]}, (X.astype(np.float32), None)),
        identity({"a": Fraction(1, 3), "b": [2]}, (X, None)),
        identity({"a": Fraction(1, 4), "b": [2]}, (X, None)),
    ]
    assert len({same, *others}) == 7


def doubled(factor):
    """An optimiser with a program inside its program, and a constant in that."""
    constant = np.full(3, factor, np.float32)
    return optax.stateless(lambda grad, _: jax.tree.map(jax.jit(lambda g: g * constant), grad))


def test_optimisers_are_told_apart_by_what_they_compute():
    makers = [
        lambda: optax.sgd(0.3),
        lambda: optax.sgd(float(np.nextafter(np.float32(0.3), np.float32(1)))),
        lambda: optax.sgd(optax.cosine_decay_schedule(0.3, 100)),
        lambda: optax.sgd(optax.cosine_decay_schedule(0.3, 101)),
        lambda: optax.inject_hyperparams(optax.sgd)(learning_rate=0.2),
        lambda: doubled(2.0),
        lambda: doubled(3.0),
        lambda: "adam",
    ]
    params = {"W0": np.zeros((2, 3), np.float32)}
    found = [optimiser_identity(make(), params, required=True) for make in makers]
    assert found == [optimiser_identity(make(), params, required=True) for make in makers]
    assert len(set(found)) == len(makers)
    same = optax.inject_hyperparams(optax.sgd)(learning_rate=0.3)
    assert optimiser_identity(same, params, required=True) == found[0]


def test_an_optimiser_that_cannot_be_tried_has_no_checkpoint():
    def moody(grad, _):
        raise RuntimeError("not today")

    params = {"W0": np.zeros((2, 3), np.float32)}
    message = r"`checkpoint` cannot be used with optimizer=.*RuntimeError: not today.*checkpoint=None"
    with pytest.raises(ValueError, match=message):
        optimiser_identity(optax.stateless(moody), params, required=True)
    assert optimiser_identity(optax.stateless(moody), params, required=False) == "GradientTransformation"
