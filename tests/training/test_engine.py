"""An engine as models ask for it: what is done about the prior's log Z."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest
from numpy.testing import assert_allclose
from tggm.training.engine import Inference

from tests.models.small_models import drawn_model

SAME = Inference("mean_field", prior="same")
CYCLED = Inference("mean_field", "cyclic", 300, prior="posterior")


@partial(jax.jit, static_argnames="engines")
def gains(model, X, engines):
    W1 = model.likelihood.output.W1
    posterior = model.hidden.gaussian(X, W1, jnp.zeros((len(X), W1.shape[1])))
    return [engine.gain(model.hidden, X, posterior) for engine in engines]


@pytest.mark.slow  # where cycles end: tests/inference/test_mean_field.py
def test_cycles_that_begin_at_the_posterior_end_alike(rng):
    X = jnp.asarray(rng.standard_normal((3, 3)))
    cycled, same = gains(drawn_model(rng, (4, 3), form="undirected"), X, (CYCLED, SAME))
    assert_allclose(cycled, same, rtol=1e-7)
