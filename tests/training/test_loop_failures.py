"""Runs that go wrong: steps and epochs are undone, failure ends the run with the best parameters."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from tests.training.straight_line import Squares, as_vector, fit
from tggm.training.loop import FAILURES


@dataclass(frozen=True)
class Cliff(Squares):
    """Not a number beyond a distance from the origin: what a training run falls off."""

    reach: float = 1.0

    def __call__(self, params, rows, progress):
        far = (params["w"] ** 2).sum() > self.reach**2
        return jnp.where(far, jnp.nan, super().__call__(params, rows, progress))


@dataclass(frozen=True)
class Trap(Squares):
    """A plateau far below everything, beyond a distance from the origin: a collapse that stays finite."""

    reach: float = 1.0

    def __call__(self, params, rows, progress):
        far = (params["w"] ** 2).sum() > self.reach**2
        return jnp.where(far, -1e6, super().__call__(params, rows, progress))


def test_failure_ends_the_run_with_finite_parameters(data):
    got = fit(data, objective=Cliff(), epochs=500, batch=5)
    assert got.failed.all()
    assert got.train.shape[1] < 50  # given up, not run to the end
    assert np.isfinite(as_vector(got.params)).all()
    assert got.undone[0] >= FAILURES


def test_the_best_held_out_parameters_survive_a_failure(data):
    got = fit(data, objective=Cliff(), epochs=500, batch=4, held=4)
    kept = got.params["w"][0]
    assert got.failed.all()
    assert np.isfinite(got.held[0][got.best_epoch[0]])
    assert (kept**2).sum() <= 1.0


def test_a_collapse_is_rolled_back(data):
    """Without it the run ends on the plateau, whose gradient is zero."""
    got = fit(data, objective=Trap(), epochs=40, batch=5)
    assert got.undone[0] > 0
    assert (got.params["w"][0] ** 2).sum() <= 1.01  # an epoch is judged before its last step
    assert not got.failed.any()


@dataclass(frozen=True)
class Slope(Squares):
    """Far worse everywhere but at the origin, where training starts."""

    def __call__(self, params, rows, progress):
        start = (params["w"] ** 2).sum() == 0
        return super().__call__(params, rows, progress) - jnp.where(start, 0.0, 1e3)


def test_best_parameters_that_count_as_collapsed_are_left_in_the_end(data):
    """After the first step every epoch is far below the first one: to go back there for ever is no way."""
    got = fit(data, objective=Slope(), epochs=40)
    assert 0 < got.undone[0] < 5
    assert got.train[0, -1] > got.train[0, 5] + 0.1  # it goes on learning


def test_steps_that_were_undone_are_no_part_of_the_history(data):
    got = fit(data, objective=Cliff(), epochs=8, batch=5)
    assert got.undone[0] > 0
    sound = got.train[0][np.isfinite(got.train[0])]
    assert (sound < 0).all()  # as every squared error is; an undone step is not the 0 of a perfect one


def test_a_sound_run_is_left_alone(data):
    got = fit(data, epochs=5)
    assert_array_equal(got.undone, [0])
    assert_allclose(np.asarray(got.state.rate), 1.0)
    assert_array_equal(got.failed, [False])
