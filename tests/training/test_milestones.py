"""Cycles of the learning rate, and when training ends after one."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.training.straight_line import fit
from tggm.training import Milestones
from tggm.training.loop import SCHEDULES, WHOLE, cycle_ends


def test_each_cycle_is_three_times_as_long_and_ends_at_zero():
    place = jnp.asarray([0, 1 - 1e-4, 1 + 1e-4, 2.5, 4 - 1e-4, 4 + 1e-4, 8.5, 26.5]) / WHOLE
    assert_allclose(SCHEDULES["restarts"](place), [1, 0, 1, 0.5, 0, 1, 0.5, 0.5], atol=1e-3)
    assert 0 <= float(SCHEDULES["restarts"](jnp.asarray(1.0))) < 1e-3
    assert cycle_ends(5) == (5, 20, 65, 200)


def scores(*best):
    """Return equal scores of two members after each epoch."""
    return np.tile(np.asarray(best, float), (2, 1))


@pytest.mark.parametrize(
    ("held", "done", "ends"),
    [
        (scores(1, 2, 3, 4), 4, False),  # still rising
        (scores(4, 3, 2, 1), 4, True),  # falling
        (scores(1, 2, 3, 4, 4, 4, 4.05, 4, 4, 4, 4, 4), 12, True),  # the gain is too small
        (scores(1, 2, 3, 4, 4, 4, 4.5, 4, 4, 4, 4, 4), 12, False),
        (scores(1, 2, 3), 3, False),  # not a milestone
    ],
)
def test_training_continues_while_the_score_gains(held, done, ends):
    assert Milestones((4, 12), 0.1).reached(held, done) == ends


def test_the_last_cycle_requires_a_larger_gain():
    held = scores(1, 2, 3, 4, 4, 4, 4.5, 4, 4, 4, 4, 4)
    assert Milestones((4, 12), 0.1, last=0.6).reached(held, 12)
    assert not Milestones((4, 12), 0.1, last=0.4).reached(held, 12)
    assert not Milestones((4, 12, 36), 0.1, last=0.6).reached(held, 12)


def test_a_separable_table_ends_training():
    held = scores(
        -0.02, -0.01, -0.006, -0.005, -0.005, -0.005, -0.005, -0.005, -0.005, -0.005, -0.005, -0.0045
    )
    stones = Milestones((4, 12), 0.01, share=0.05, least=0.001)
    assert Milestones((4, 12), 0.01).reached(held, 12)
    assert not Milestones((4, 12), 0.01, share=0.05).reached(held, 12)
    assert stones.reached(held, 12)  # 0.0005 nats are more than a twentieth of the log-loss
    assert not stones.reached(2 * held + 0.0095, 12)  # 0.001 nats are enough
    stones = Milestones((40, 120), 0.01, share=0.05, least=0.001)
    assert stones.reached(scores(*[-0.1, -0.01, -0.0009, -0.02]), 4)  # 0.001 nats cannot be gained any more
    assert not stones.reached(scores(*[-0.1, -0.01, -0.0011, -0.02]), 4)


def test_training_ends_when_scores_have_fallen_below_their_best():
    stones = Milestones((40, 120), 0.1, fall=1.0)
    falling = np.concatenate([np.linspace(0, 3, 20), np.linspace(3, 0, 20)])
    held = np.stack([falling, falling - 5])
    ends = [done for done in range(1, 40) if stones.reached(held[:, :done], done)]
    assert ends[0] == 32  # the mean of epochs 29 to 32 is the first that is more than 1 below
    assert not any(stones.reached(held[:, :20], done) for done in range(1, 20))
    rising = np.stack([np.linspace(-40, 0, 40)] * 2)  # fast, and not below an earlier score
    assert not any(stones.reached(rising[:, :done], done) for done in range(1, 40))
    still = np.stack([falling, np.full(40, 3.0)])  # one of two members has not fallen
    assert not stones.reached(still[:, :32], 32)


def test_schedules_have_closed_forms():
    p = jnp.linspace(0.0, 1.0, 5)
    assert_allclose(SCHEDULES["cosine"](p), 0.5 * (1 + np.cos(np.pi * p)), atol=1e-15)
    assert_allclose(SCHEDULES["constant"](p), np.ones(5))


def test_the_loop_ends_at_a_milestone(data):
    needs_much = Milestones((4, 12), gain=100.0)
    got = fit(data, held=4, epochs=40, milestones=needs_much)
    assert "held-out rows" in got.reason
    assert got.train.shape[1] == 12
    assert fit(data, held=4, epochs=40, milestones=Milestones((4, 12), gain=-100.0)).train.shape[1] == 40
