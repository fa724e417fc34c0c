"""An engine as models ask for it: what is done about the prior's log Z."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.models.small_models import changed, drawn_model
from tggm.inference.mean_field.upper_bound import GUARD
from tggm.training.engine import Inference

SAME = Inference("mean_field", prior="same")
GUARDED = Inference("mean_field")
CYCLED = Inference("mean_field", "cyclic", 300, prior="posterior")


@partial(jax.jit, static_argnames="engines")
def gains(model, X, engines):
    W1 = model.likelihood.output.W1
    posterior = model.hidden.gaussian(X, W1, jnp.zeros((len(X), W1.shape[1])))
    return [engine.gain(model.hidden, X, posterior) for engine in engines]


def test_what_is_done_about_the_prior(rng):
    """All ways meet where the prior is easy; where it is hard, the guard takes off what is too much."""
    X = jnp.asarray(rng.standard_normal((3, 3)))
    easy = drawn_model(rng, (4, 3), form="undirected")
    guarded, same = gains(easy, X, (GUARDED, SAME))
    assert_allclose(guarded, same, rtol=1e-7)
    hard = changed(easy, {"hidden.W.0": 6 * easy.hidden.W[0]})
    guarded, same = gains(hard, X, (GUARDED, SAME))
    assert np.all(guarded <= same + 1e-12)
    assert np.any(guarded < same - GUARD)


@pytest.mark.slow  # where cycles end: tests/inference/mean_field/test_engine.py
def test_cycles_that_begin_at_the_posterior_end_alike(rng):
    X = jnp.asarray(rng.standard_normal((3, 3)))
    cycled, same = gains(drawn_model(rng, (4, 3), form="undirected"), X, (CYCLED, SAME))
    assert_allclose(cycled, same, rtol=1e-7)
