"""An engine as models ask for it: what is done about the prior's log Z."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

from tests.models.small_models import drawn_model
from tggm.inference.mean_field.upper_bound import GUARD
from tggm.training.engine import Inference


def gains(model, X, engines):
    U, pull = model.likelihood.output.W1, jnp.zeros((len(X), 3))
    return jax.jit(lambda h: [e.gain(h, X, h.gaussian(X, U, pull)) for e in engines])(model.hidden)


def test_what_is_done_about_the_prior(rng):
    """All ways meet where the prior is easy; where it is hard, the guard takes off what is too much."""
    X = jnp.asarray(rng.standard_normal((3, 3)))
    easy = drawn_model(rng, (4, 3), form="undirected")
    engines = [
        Inference("mean_field"),
        Inference("mean_field", prior="same"),
        Inference("mean_field", "cyclic", 300),
        Inference("mean_field", "cyclic", 300, prior="posterior"),
        Inference("mean_field", prior="guarded"),
    ]
    guarded, same, *others, again = gains(easy, X, engines)
    assert_allclose(guarded, again, rtol=1e-12)
    for other in (guarded, *others):
        assert_allclose(other, same, rtol=1e-7)
    arrays = easy.arrays()
    hard = easy.replaced(arrays | {"hidden.W.0": 6 * arrays["hidden.W.0"]})
    guarded, same, *_ = gains(hard, X, engines)
    assert np.all(guarded <= same + 1e-12)
    assert np.any(guarded < same - GUARD)
