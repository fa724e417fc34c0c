"""The training loop against gradient descent in NumPy, and training runs that fail."""

import sys
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.training.straight_line import ROWS, Squares, all_rows, as_vector, descend, fit, zeros
from tggm.training import Observer
from tggm.training.loop import FAILURES, OPTIMISERS, WORST, Layout
from tggm.training.rows import Membership

train_module = sys.modules["tggm.training.train"]  # the package has a function of this name
WEIGHT = np.linspace(0, 2, ROWS)
COSINE = {"rate": lambda t: 0.05 * (1 + np.cos(np.pi * t / 5))}


@pytest.mark.parametrize(
    ("options", "by_hand"),
    [
        ({"weight_decay": 3.0}, {"decay": 3.0}),
        ({"schedule": "cosine", "total_steps": 5}, COSINE),
        ({"clip": 0.5}, {"clip": 0.5}),
        ({"rates": Layout.of(zeros(1), axes=1).rates(["b"])}, {"fixed": [0]}),
        ({"weight": WEIGHT}, {"weight": WEIGHT}),
    ],
    ids=["penalty", "cosine", "clipped", "fixed", "weighted"],
)
def test_full_batch_training_is_gradient_descent(data, options, by_hand):
    assert_allclose(as_vector(fit(data, **options).params), descend(data, 5, **by_hand), rtol=1e-12)


def test_each_member_has_its_own_settings(data):
    both = fit(data, 2, learning_rate=np.array([0.1, 0.2]), weight_decay=np.array([0.0, 5.0]), batch=7)
    alone = fit(data, learning_rate=0.1, batch=7)
    assert_allclose(as_vector(both.params, 0), as_vector(alone.params), rtol=1e-12)
    assert not np.allclose(as_vector(both.params, 0), as_vector(both.params, 1))


def test_padding_changes_no_result(data):
    rows = np.arange(ROWS, dtype=np.int32)
    bare = Membership(rows[None, 4:], np.array([ROWS - 4], np.int32), rows[None, :4], np.array([4], np.int32))
    padded = all_rows(1, held=4)
    assert padded.train.shape[1] > ROWS - 4 or padded.held.shape[1] > 4
    a, b = (fit(data, rows=r, batch=16) for r in (bare, padded))
    assert_allclose(as_vector(a.params), as_vector(b.params), rtol=1e-12)
    assert_allclose(a.held, b.held, rtol=1e-12)


def test_training_continued_from_a_state_gives_the_same_result(data):
    options = {"batch": 6, "held": 4, "optimizer": "adam", "schedule": "cosine", "total_steps": 40}
    whole = fit(data, 2, epochs=9, capacity=16, **options)
    part = fit(data, 2, epochs=4, capacity=16, **options)
    saved = jax.tree.map(np.asarray, part.state)
    rest = fit(data, 2, epochs=5, capacity=3, state=saved, **options)
    assert_array_equal(whole.params["w"], rest.params["w"])
    assert_array_equal(whole.held, np.concatenate([part.held, rest.held], axis=1))


def test_named_adam_equals_that_of_optax(data):
    X, rule, theta = np.column_stack([np.ones(ROWS), data["x"]]), optax.adam(0.1), np.zeros(4)
    with jax.numpy_dtype_promotion("standard"):  # optax relies on it
        state = rule.init(theta)
        for _ in range(5):
            step, state = rule.update(X.T @ (X @ theta - data["y"]) / ROWS, state)
            theta = theta + np.asarray(step)
    assert_allclose(as_vector(fit(data, optimizer="adam").params), theta, rtol=1e-9)


def test_rmsprop_has_the_decay_of_the_paper(data):
    X = np.column_stack([np.ones(ROWS), data["x"]])
    theta, second = np.zeros(4), np.zeros(4)
    for _ in range(5):
        grad = X.T @ (X @ theta - data["y"]) / ROWS
        second = 0.95 * second + 0.05 * grad**2
        theta = theta - 0.1 * grad / np.sqrt(second + 1e-8)
    assert_allclose(as_vector(fit(data, optimizer="rmsprop").params), theta, rtol=1e-6)


def test_history_is_the_mean_objective_and_the_average_has_a_shorter_memory_at_first(data):
    got = fit(data, averaged=True, average=0.15, epochs=3)
    X, average = np.column_stack([np.ones(ROWS), data["x"]]), np.zeros(4)
    for t, decay in ((1, 1 / 10), (2, 0.15), (3, 0.15)):
        average = decay * average + (1 - decay) * descend(data, t)
    assert_allclose(as_vector(got.params), average, rtol=1e-12)
    want = [-0.5 * np.mean((X @ descend(data, t) - data["y"]) ** 2) for t in range(3)]
    assert_allclose(got.train[0], want, rtol=1e-12)
    assert_array_equal(got.undone, [0])


@dataclass(frozen=True)
class Distracted(Squares):
    """The held-out score falls from w = 0 on, and is highest beyond |w| = 1."""

    def score(self, params, rows):
        size = jnp.sqrt((params["w"] ** 2).sum())
        return jnp.where(size < 1.0, -size, 1.0) + 0.0 * rows["y"]


def test_the_best_epoch_is_kept(data):
    got = fit(data, objective=Distracted(), held=4, epochs=5)
    assert_array_equal(got.best_epoch, [0])
    first = fit(data, held=4, epochs=1)
    assert_allclose(as_vector(got.params), as_vector(first.params))
    assert got.held.shape == (1, 5)
    assert np.all(np.diff(got.held[0]) < 0)


def test_training_ends_when_patience_is_used_up(data):
    got = fit(data, objective=Distracted(), held=4, epochs=500, capacity=2, patience=4)
    assert got.reason == train_module.HELD_OUT
    assert got.held.shape[1] == 5
    longer = fit(data, objective=Distracted(), held=4, epochs=500, capacity=64, patience=4)
    assert_array_equal(got.held, longer.held)


def test_an_outlying_held_out_row_has_a_limited_score(data):
    data["y"][0] = 1e6
    got = fit(data, held=4, epochs=1)
    theta = as_vector(got.params)
    errors = data["y"][:4] - theta[0] - data["x"][:4] @ theta[1:]
    assert_allclose(got.held[0, 0], np.maximum(-0.5 * errors**2, got.train[0, 0] - WORST).mean(), rtol=1e-12)


@pytest.mark.parametrize(("deadline", "epochs"), [(9.0, 1), (12.0, 3), (20.0, 11), (1e9, 30)])
def test_a_deadline_leaves_time_for_pooling(data, monkeypatch, deadline, epochs):
    """Let the first chunk take 5 seconds, as pooling will, and every further epoch one second."""
    now, run = [0.0], train_module._Members.run

    def slow(self, state, each, shared, n, steps):
        now[0] += 5.0 if now[0] == 0 else float(n)
        return run(self, state, each, shared, n, steps)

    monkeypatch.setattr(train_module._Members, "run", slow)
    monkeypatch.setattr(train_module.time, "perf_counter", lambda: now[0])
    got = fit(data, epochs=30, capacity=1, deadline=deadline)
    assert got.train.shape[1] == epochs
    assert got.reason == ("all epochs are done" if epochs == 30 else "the time budget is used up")
    assert now[0] + 5.0 <= deadline or epochs == 1


def test_interruption_keeps_the_best_parameters(data):
    class Impatient(Observer):
        def progressed(self, epochs, trace):
            if epochs >= 3:
                raise KeyboardInterrupt

    got = fit(data, epochs=100, capacity=3, observer=Impatient())
    assert got.interrupted
    assert 3 <= got.train.shape[1] <= 6
    assert_allclose(as_vector(got.params), descend(data, got.train.shape[1]), rtol=1e-12)


@dataclass(frozen=True)
class Cliff(Squares):
    """NaN, or lower by a number, for |w| > reach."""

    beyond: float = float("nan")
    reach: float = 1.0

    def __call__(self, params, rows, progress):
        far = (params["w"] ** 2).sum() > self.reach**2
        return super().__call__(params, rows, progress) + jnp.where(far, self.beyond, 0.0)


def test_steps_with_non_finite_values_are_undone(data):
    data["y"][3] = np.nan
    got = fit(data, batch=5, epochs=10)
    assert_array_equal(got.undone, [10])  # once per epoch: each row is in one batch
    assert np.isfinite(as_vector(got.params)).all()
    assert np.any(got.params["w"] != 0)


def marching(grad, kept, step, layout):
    """Return a direction of −1 for all parameters, and NaN in the first three steps."""
    return jnp.full_like(grad, jnp.where(step <= 3, jnp.nan, -1.0)), kept


def test_each_undone_step_halves_the_rate_and_each_finite_step_raises_it(data, monkeypatch):
    monkeypatch.setitem(OPTIMISERS, "marching", (0, marching))
    reached = [fit(data, optimizer="marching", epochs=n).params["b"][0] for n in (4, 5, 20)]
    rates = np.minimum(1.25 ** np.arange(17) / 8, 1.0)
    assert_allclose(np.array(reached) / 0.1, np.cumsum(rates)[[0, 1, 16]], rtol=1e-9)


def test_a_member_stops_after_many_failures_with_finite_parameters(data):
    got = fit(data, objective=Cliff(), epochs=500, batch=4, held=4)
    assert got.failed.all()
    assert got.train.shape[1] < 50
    assert got.undone[0] >= FAILURES
    assert np.isfinite(got.held[0][got.best_epoch[0]])
    assert (got.params["w"][0] ** 2).sum() <= 1.0
    assert (got.train[0][np.isfinite(got.train[0])] < 0).all()  # an undone step would count as 0


def test_a_collapsed_epoch_is_undone(data):
    got = fit(data, objective=Cliff(-1e6), epochs=40, batch=5)
    assert got.undone[0] > 0
    assert (got.params["w"][0] ** 2).sum() <= 1.1  # an epoch's mean objective precedes its last step
    assert not got.failed.any()


def test_the_reference_of_collapses_is_lowered(data):
    """Every later epoch is far below the first: training must not return to the start forever."""
    got = fit(data, objective=Cliff(-1e3, 0.0), epochs=40)
    assert 0 < got.undone[0] < 5
    assert got.train[0, -1] > got.train[0, 5] + 0.1


def test_results_do_not_depend_on_the_number_of_groups(data, monkeypatch):
    results = []
    for cores in (1, 2, 3):  # three groups of two for four members: padded
        monkeypatch.setattr(train_module, "n_cores", lambda cores=cores: cores)
        results.append(fit(data, 4, batch=5, epochs=6, seed=3))
    for result in results[1:]:
        assert_allclose(result.params["w"], results[0].params["w"], rtol=1e-12)
        assert_allclose(result.train, results[0].train, rtol=1e-12)


@dataclass(frozen=True)
class Factorising(Squares):
    """An objective with batched factorisations, large enough for two threads to deadlock."""

    def __call__(self, params, rows, progress):
        matrices = jnp.eye(50)[None] * (1 + params["w"][0] ** 2) + jnp.zeros((128, 1, 1))
        L = jax.lax.linalg.cholesky(matrices)
        return super().__call__(params, rows, progress) - 0.0 * L.sum()


def test_programs_that_factorise_matrices_run_in_one_thread(data, monkeypatch):
    monkeypatch.setattr(train_module, "n_cores", lambda: 2)
    assert np.isfinite(fit(data, 2, objective=Factorising(), epochs=8).train).all()
