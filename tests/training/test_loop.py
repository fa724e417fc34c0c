"""The training loop, followed by hand for a straight line."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.testing import assert_allclose, assert_array_equal
from tggm.training.observer import Observer
from tggm.training.state import Membership

from tests.training.straight_line import ROWS, Squares, as_vector, descend, everything, fit, zeros
from tggm.training.layout import Layout


def test_full_batch_training_is_gradient_descent(data):
    got = fit(data, weight_decay=3.0)
    assert_allclose(as_vector(got.params), descend(data, 5, decay=3.0), rtol=1e-12)


def test_cosine_schedule(data):
    got = fit(data, schedule="cosine", total_steps=5)
    want = descend(data, 5, rate=lambda t: 0.05 * (1 + np.cos(np.pi * t / 5)))
    assert_allclose(as_vector(got.params), want, rtol=1e-12)


def test_clipping(data):
    assert_allclose(as_vector(fit(data, clip=0.5).params), descend(data, 5, clip=0.5), rtol=1e-12)


def test_sample_weights(data, rng):
    weight = rng.exponential(size=ROWS)
    weight /= weight.mean()
    got = fit(data, weight=weight)
    assert_allclose(as_vector(got.params), descend(data, 5, weight=weight), rtol=1e-12)


def test_rate_of_zero_holds_a_parameter(data):
    got = fit(data, rates=Layout.of(zeros(1), axes=1).rates(["b"]))
    assert got.params["b"][0] == 0
    assert np.all(got.params["w"] != 0)


def test_members_with_their_own_settings_train_as_if_alone(data):
    both = fit(data, 2, learning_rate=np.array([0.1, 0.2]), weight_decay=np.array([0.0, 5.0]), batch=7)
    rows = everything(1)
    alone = fit(data, rows=rows, learning_rate=0.1, batch=7, seed=0)
    assert_allclose(as_vector(both.params, 0), as_vector(alone.params), rtol=1e-12)
    assert not np.allclose(as_vector(both.params, 0), as_vector(both.params, 1))


def test_padding_changes_nothing(data):
    rows = np.arange(ROWS, dtype=np.int32)
    bare = Membership(rows[None, 4:], np.array([ROWS - 4], np.int32), rows[None, :4], np.array([4], np.int32))
    padded = everything(1, held=4)
    assert padded.train.shape[1] > ROWS - 4 or padded.held.shape[1] > 4
    a, b = (fit(data, rows=r, batch=16) for r in (bare, padded))
    assert_allclose(as_vector(a.params), as_vector(b.params), rtol=1e-12)
    assert_allclose(a.held, b.held, rtol=1e-12)


def test_result_does_not_depend_on_where_training_was_cut(data):
    options = {"batch": 6, "held": 4, "optimizer": "adam", "schedule": "cosine", "total_steps": 40}
    whole = fit(data, 2, epochs=9, capacity=16, **options)
    part = fit(data, 2, epochs=4, capacity=16, **options)
    saved = jax.tree.map(np.asarray, part.state)  # a checkpoint is this pytree of arrays
    rest = fit(data, 2, epochs=5, capacity=3, state=saved, **options)
    assert_array_equal(whole.params["w"], rest.params["w"])
    assert_array_equal(whole.held, np.concatenate([part.held, rest.held], axis=1))


def test_optax_optimiser_equals_the_named_one(data):
    mine = fit(data, optimizer=optax.adam(0.1), batch=6)
    named = fit(data, optimizer="adam", batch=6)
    assert_allclose(as_vector(mine.params), as_vector(named.params), rtol=1e-10)


def test_rmsprop_has_the_decay_of_the_paper(data):
    X = np.column_stack([np.ones(ROWS), data["x"]])
    theta, second = np.zeros(4), np.zeros(4)
    for _ in range(5):
        grad = X.T @ (X @ theta - data["y"]) / ROWS
        second = 0.95 * second + 0.05 * grad**2
        theta = theta - 0.1 * grad / np.sqrt(second + 1e-8)
    assert_allclose(as_vector(fit(data, optimizer="rmsprop").params), theta, rtol=1e-6)


def test_running_average(data):
    got = fit(data, averaged=True, average=0.15, epochs=3)
    average = np.zeros(4)
    for t, decay in ((1, 1 / 10), (2, 0.15), (3, 0.15)):  # at first it forgets faster than asked
        average = decay * average + (1 - decay) * descend(data, t)
    assert_allclose(as_vector(got.params), average, rtol=1e-12)


@dataclass(frozen=True)
class Distracted(Squares):
    """Held-out rows want w = 0, so that every step makes the score worse."""

    def score(self, params, rows):
        return -(params["w"] ** 2).sum() - 0.0 * rows["y"]


def test_best_epoch_is_kept(data):
    got = fit(data, objective=Distracted(), held=4, epochs=6)
    assert_array_equal(got.best_epoch, [0])
    first = fit(data, held=4, epochs=1)
    assert_allclose(as_vector(got.params), as_vector(first.params))
    assert got.held.shape == (1, 6)
    assert np.all(np.diff(got.held[0]) < 0)


def test_patience_ends_training(data):
    got = fit(data, objective=Distracted(), held=4, epochs=500, capacity=2, patience=3)
    assert got.stopped_early
    assert got.held.shape[1] == 4
    longer = fit(data, objective=Distracted(), held=4, epochs=500, capacity=64, patience=3)
    assert_array_equal(got.held, longer.held)


@dataclass(frozen=True)
class Broken(Squares):
    """Not a number as soon as a batch contains the row whose target is infinite."""

    def __call__(self, params, rows, progress):
        return jnp.where(jnp.isinf(rows["y"]), jnp.nan, super().__call__(params, rows, progress))


def test_unsound_steps_are_not_taken(data):
    data["y"][3] = np.inf
    got = fit(data, objective=Broken(), batch=5, epochs=10)
    assert_array_equal(got.undone, [10])  # once in each epoch, as each row is visited once
    assert np.isfinite(as_vector(got.params)).all()
    assert np.any(got.params["w"] != 0)


def test_interruption_keeps_the_best_so_far(data):
    reported = []

    class Impatient(Observer):
        def progressed(self, epochs, trace):
            reported.append(epochs)
            if epochs >= 3:
                raise KeyboardInterrupt

    got = fit(data, epochs=100, capacity=3, observer=Impatient())
    assert got.interrupted
    assert got.train.shape == (1, reported[-1])
    assert_allclose(as_vector(got.params), descend(data, reported[-1]), rtol=1e-12)


def test_history_is_the_mean_objective(data):
    got = fit(data, epochs=2)
    X = np.column_stack([np.ones(ROWS), data["x"]])
    want = [-0.5 * np.mean((X @ descend(data, t) - data["y"]) ** 2) for t in (0, 1)]
    assert_allclose(got.train[0], want, rtol=1e-12)
