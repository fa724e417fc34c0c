"""The training loop with a model small enough to be followed by hand: y = w·x + b, squared error."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from numpy.testing import assert_allclose, assert_array_equal
from tggm.training.groups import n_groups
from tggm.training.rows import bucket

from tggm.inference.blas_lock import factorises
from tggm.training import Layout, Membership, Plan, hold_out, hyper_parameters, membership, train
from tggm.training.rows import shuffled


@dataclass(frozen=True)
class Squares:
    def __call__(self, params, batch, context):
        return -0.5 * (batch["y"] - batch["x"] @ params["w"] - params["b"]) ** 2

    def score(self, params, batch, context):
        return self(params, batch, context)

    def penalty(self, params):
        return 0.5 * (params["w"] ** 2).sum()


ROWS = 20


@pytest.fixture
def data(rng):
    x = rng.standard_normal((ROWS, 3))
    return {"x": x, "y": x @ np.array([1.0, -2.0, 0.5]) + 0.3 + 0.1 * rng.standard_normal(ROWS)}


def zeros(members):
    return {"w": np.zeros((members, 3)), "b": np.zeros(members)}


def everything(members, held=0):
    rows = np.arange(ROWS, dtype=np.int32)
    return membership([(rows[held:], rows[:held])] * members)


def fit(data, members=1, *, objective=None, held=0, batch=ROWS, optimizer="sgd", schedule="constant",
        epochs=5, rows=None, weight=None, capacity=4, averaged=False, **options):  # fmt: skip
    layout = Layout.of(zeros(1), axes=1)
    plan = Plan(layout, batch, capacity, optimizer, schedule, averaged)
    run = {k: options.pop(k) for k in ("seed", "state", "report") if k in options}
    rates = options.pop("rates", np.ones(4))
    hyper = hyper_parameters(members, rates, np.float64, **{"learning_rate": 0.1, "clip": 1e9, **options})
    rows = everything(members, held) if rows is None else rows
    weight = np.ones(ROWS) if weight is None else weight
    return train(plan, objective or Squares(), zeros(members), rows, None, hyper, data, weight,
                 max_epochs=epochs, **run)  # fmt: skip


def descend(data, steps, rate=0.1, decay=0.0, weight=None, clip=np.inf):
    """Full-batch gradient descent with NumPy; `rate` may be a function of the step."""
    X = np.column_stack([np.ones(ROWS), data["x"]])
    weight = np.ones(ROWS) if weight is None else weight
    theta = np.zeros(4)
    for t in range(steps):
        error = X @ theta - data["y"]
        grad = X.T @ (weight * error) / ROWS + decay / ROWS * np.r_[0, theta[1:]]
        grad *= min(1, clip / np.linalg.norm(grad))
        theta = theta - (rate(t) if callable(rate) else rate) * grad
    return theta


def as_vector(params, member=0):
    return np.r_[params["b"][member], params["w"][member]]


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
    layout = Layout.of(zeros(1), axes=1)
    got = fit(data, rates=layout.spread({"w": 1.0, "b": 0.0}))
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

    def score(self, params, batch, context):
        return -(params["w"] ** 2).sum() - 0.0 * batch["y"]


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

    def __call__(self, params, batch, context):
        return jnp.where(jnp.isinf(batch["y"]), jnp.nan, super().__call__(params, batch, context))


def test_unsound_steps_are_not_taken(data):
    data["y"][3] = np.inf
    got = fit(data, objective=Broken(), batch=5, epochs=10)
    assert_array_equal(got.undone, [10])  # once in each epoch, as each row is visited once
    assert np.isfinite(as_vector(got.params)).all()
    assert np.any(got.params["w"] != 0)


def test_interruption_keeps_the_best_so_far(data):
    reported = []

    def impatient(done, trace):
        reported.append(done)
        if done >= 3:
            raise KeyboardInterrupt

    got = fit(data, epochs=100, capacity=3, report=impatient)
    assert got.interrupted
    assert got.train.shape == (1, reported[-1])
    assert_allclose(as_vector(got.params), descend(data, reported[-1]), rtol=1e-12)


def test_history_is_the_mean_objective(data):
    got = fit(data, epochs=2)
    X = np.column_stack([np.ones(ROWS), data["x"]])
    want = [-0.5 * np.mean((X @ descend(data, t) - data["y"]) ** 2) for t in (0, 1)]
    assert_allclose(got.train[0], want, rtol=1e-12)


def test_shuffled_is_a_new_permutation_each_epoch():
    rows = jnp.arange(100, 164, dtype=jnp.int32)
    orders = [
        np.asarray(shuffled(rows, jnp.int32(50), jnp.uint32(s), jnp.int32(e)))
        for s, e in [(0, 0), (0, 1), (1, 0), (0, 0)]
    ]
    for order in orders:
        assert_array_equal(np.sort(order[:50]), rows[:50])
        assert_array_equal(np.sort(order[50:]), rows[50:])
    assert_array_equal(orders[0], orders[3])
    assert all(np.mean(orders[0][:50] == other[:50]) < 0.2 for other in orders[1:3])


def test_shuffling_is_uniform():
    """Where row 0 lands in many epochs: chi-square with 49 degrees of freedom, p = 1e-4 at 95."""
    rows = jnp.arange(50, dtype=jnp.int32)
    orders = jax.vmap(lambda e: shuffled(rows, jnp.int32(50), jnp.uint32(7), e))(
        jnp.arange(5000, dtype=jnp.int32)
    )
    counts = np.bincount(np.argmax(np.asarray(orders) == 0, axis=1), minlength=50)
    assert ((counts - 100) ** 2 / 100).sum() < 95


def test_bucket_wastes_at_most_a_third():
    sizes = np.arange(1, 5000)
    buckets = np.array([bucket(int(n)) for n in sizes])
    assert np.all(buckets >= sizes)
    assert np.all(buckets[16:] <= 1.5 * sizes[16:])
    assert len(np.unique(buckets)) < 20


def test_hold_out_splits_all_rows(rng):
    train_rows, held = hold_out(rng, np.arange(10, 52), 0.1)
    assert len(held) == 4
    assert_array_equal(np.sort(np.r_[train_rows, held]), np.arange(10, 52))


@pytest.mark.parametrize(
    ("members", "cores", "groups"), [(10, 2, 2), (10, 4, 2), (10, 64, 10), (7, 2, 1), (1, 8, 1), (3, 0, 1)]
)
def test_members_are_dealt_in_equal_groups(members, cores, groups):
    assert n_groups(members, cores) == groups


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_members_learn_the_same_in_any_number_of_groups(data, monkeypatch, cores):
    monkeypatch.setattr("tggm.training.groups._cores", lambda: cores)
    result = fit(data, 4, batch=5, epochs=6, seed=3)
    monkeypatch.setattr("tggm.training.groups._cores", lambda: 1)
    together = fit(data, 4, batch=5, epochs=6, seed=3)
    assert_allclose(result.params["w"], together.params["w"], rtol=1e-12)
    assert_allclose(result.train, together.train, rtol=1e-12)


@dataclass(frozen=True)
class WhitenedSquares(Squares):
    """Squares whose gradient needs batched factorisations, large enough for two of them to meet."""

    def __call__(self, params, batch, context):
        matrices = jnp.eye(50)[None] * (1 + params["w"][0] ** 2) + jnp.zeros((128, 1, 1))
        L = jax.lax.linalg.cholesky(matrices)
        return super().__call__(params, batch, context) - 0.0 * L.sum()


def test_programs_that_factorise_run_alone(data, monkeypatch):
    monkeypatch.setattr("tggm.training.groups._cores", lambda: 2)
    traced = jax.jit(jax.vmap(lambda a: lax.fori_loop(0, 2, lambda _, x: jnp.linalg.cholesky(x), a))).trace
    assert factorises(traced(np.ones((2, 3, 3))).jaxpr.jaxpr)
    assert not factorises(jax.jit(jnp.sin).trace(1.0).jaxpr.jaxpr)
    fit(data, 2, objective=WhitenedSquares(), epochs=30)  # would wait for ever in two threads
