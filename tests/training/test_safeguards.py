"""What training does after a step that failed, and how a stream shares the penalty, seen from outside."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from tggm import TGGMRegressor
from tggm.data import from_arrays

X = np.random.default_rng(0).standard_normal((400, 3))
Y = np.abs(X[:, 0]) + 0.1 * X[:, 1]
SMALL = {"hidden": 4, "n_members": 1, "early_stopping": False, "average": 0.0, "random_state": 0}


def marching(broken):
    """An optimiser each of whose steps adds 0.01 to all parameters, but NaN the first few times."""

    def update(grads, step, params=None):
        length = jnp.where(step < broken, jnp.nan, 0.01)
        return jax.tree.map(lambda grad: jnp.full_like(grad, length), grads), step + 1

    return optax.GradientTransformation(lambda params: jnp.int32(0), update)


def test_every_failure_halves_the_rate_and_sound_steps_make_it_whole_again():
    model = TGGMRegressor(**SMALL, dtype="float64", standardize=False, method="bp", batch_size=len(X))
    model.set_params(noise=1.0, optimizer=marching(3))
    reached = []
    for steps in (3, 4, 5, 20):
        with pytest.warns(ConvergenceWarning, match="3 times in"):
            reached.append(model.set_params(max_epochs=steps).fit(X, Y).b1_.item())
    rates = np.minimum(1.25 ** np.arange(17) / 8, 1.0)  # of the steps after those that failed
    assert_allclose(np.subtract(reached[1:], reached[0]) / 0.01, np.cumsum(rates)[[0, 1, 16]], rtol=1e-9)


def test_blocks_share_the_penalty():
    """Of a decay so strong that it alone moves the weights, each block takes its part only."""
    settings = SMALL | {"optimizer": "sgd", "learning_rate": 0.01, "schedule": "constant", "batch_size": 100}
    settings |= {"random_state": 1, "weight_decay": len(X), "max_epochs": 25}
    one, four = (TGGMRegressor(**settings).fit(from_arrays(X, Y, block_rows=rows)) for rows in (400, 100))
    for name in ("W0_", "W1_"):  # 100 steps, each of which takes a hundredth off; without shares 0.04
        assert_allclose(getattr(four, name), getattr(one, name), rtol=0.02, atol=0.01)
