"""Cycles of training, and when it ends after one."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from tggm.training.training import Milestones

from tggm import TGGMRegressor
from tggm.training.optimisers import CYCLES, SCHEDULES, WHOLE, cycle_ends


def test_each_cycle_is_three_times_as_long_and_ends_at_zero():
    place = jnp.asarray([0, 1 - 1e-4, 1 + 1e-4, 2.5, 4 - 1e-4, 4 + 1e-4, 8.5, 26.5]) / WHOLE
    assert_allclose(SCHEDULES["restarts"](place), [1, 0, 1, 0.5, 0, 1, 0.5, 0.5], atol=1e-3)
    assert 0 <= float(SCHEDULES["restarts"](jnp.asarray(1.0))) < 1e-3
    assert sum(3**k for k in range(CYCLES)) == WHOLE
    assert cycle_ends(5) == (5, 20, 65, 200)


def scores(*best):
    """Scores of two members whose best after each of seven epochs is given."""
    return np.tile(np.asarray(best, float), (2, 1))


@pytest.mark.parametrize(
    ("held", "done", "ends"),
    [
        (scores(1, 2, 3, 4), 4, False),  # it was still rising
        (scores(4, 3, 2, 1), 4, True),  # it was falling
        (scores(1, 2, 3, 4, 4, 4, 4.05, 4, 4, 4, 4, 4), 12, True),  # too small a gain
        (scores(1, 2, 3, 4, 4, 4, 4.5, 4, 4, 4, 4, 4), 12, False),
        (scores(1, 2, 3), 3, False),  # not a milestone
    ],
)
def test_training_goes_on_while_it_gains(held, done, ends):
    assert Milestones((4, 12), 0.1).reached(held, done) == ends


def test_the_last_cycle_asks_for_more():
    held = scores(1, 2, 3, 4, 4, 4, 4.5, 4, 4, 4, 4, 4)
    assert Milestones((4, 12), 0.1, last=0.6).reached(held, 12)
    assert not Milestones((4, 12), 0.1, last=0.4).reached(held, 12)
    assert not Milestones((4, 12, 36), 0.1, last=0.6).reached(held, 12)


@pytest.mark.parametrize(("held", "ends"), [(scores(1, 2), False), (scores(2, 1), True)])
def test_a_first_cycle_of_two_epochs_says_whether_it_was_falling(held, ends):
    assert Milestones((2, 6), 0.1).reached(held, 2) == ends


def test_a_log_probability_near_zero_need_gain_only_a_share_of_itself():
    held = scores(-0.2, -0.1, -0.06, -0.05, -0.05, -0.05, -0.05, -0.05, -0.05, -0.05, -0.05, -0.045)
    assert Milestones((4, 12), 0.01).reached(held, 12)
    assert not Milestones((4, 12), 0.01, share=0.05).reached(held, 12)


def test_room():
    stones, short = Milestones((25, 75), 0.1), Milestones((4, 12), 0.1)
    assert [stones.room(done) for done in (0, 1, 24, 25, 74, 75, 76)] == [2, 1, 1, 1, 1, 1, 2]
    assert [short.room(done) for done in (0, 3, 4, 12)] == [4, 1, 4, 4]


def test_training_ends_when_members_have_fallen_far_below_their_best():
    stones = Milestones((40, 120), 0.1, fall=1.0)
    falling = np.concatenate([np.linspace(0, 3, 20), np.linspace(3, 0, 20)])
    held = np.stack([falling, falling - 5])
    ends = [done for done in range(1, 40) if stones.reached(held[:, :done], done)]
    assert ends[0] == 32  # the mean of epochs 29 to 32 is the first of its kind that is more than 1 below
    assert not any(stones.reached(held[:, :20], done) for done in range(1, 20))
    still = np.stack([falling, np.full(40, 3.0)])  # half of the members have not fallen
    assert not stones.reached(still[:, :32], 32)


def test_noise_ends_within_the_first_cycle(rng):
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    model = TGGMRegressor(hidden=(4, 4), n_members=2, random_state=0)
    model.fit(X, y)
    first = model.recipe().timetable(54)[1] // WHOLE
    assert model.n_iter_ % (first // 10) == 0  # where it is looked at what has fallen
    assert model.n_iter_ <= first


def test_a_time_budget_ends_training_with_what_it_has(rng):
    X = rng.standard_normal((60, 2))
    model = TGGMRegressor(hidden=(4, 4), n_members=2, time_budget=1e-9, random_state=0).fit(X, X[:, 0])
    assert model.n_iter_ <= 3  # the first chunk is one epoch, the second two
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(ValueError, match=r"`time_budget` must be finite and greater than 0; got -1"):
        TGGMRegressor(time_budget=-1).fit(X, X[:, 0])
