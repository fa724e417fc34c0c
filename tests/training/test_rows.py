"""Rows of a fit: folds, their order, and blocks of rows."""

import threading
from dataclasses import replace
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.training.straight_line import ROWS, as_vector, fit
from tggm.training import checkpoint
from tggm.training.loop import shuffle
from tggm.training.rows import Blocks, RowBlock, assign_folds, bucket, held_out_groups, membership, read_ahead
from tggm.training.train import _prepare

HALF = ROWS // 2
order = jax.jit(shuffle)


def test_buckets_are_few_and_at_most_half_larger():
    sizes = np.arange(1, 5000)
    buckets = np.array([bucket(int(n)) for n in sizes])
    assert np.all(buckets >= sizes)
    assert np.all(buckets[16:] <= 1.5 * sizes[16:])
    assert len(np.unique(buckets)) < 20


@pytest.mark.parametrize(
    ("N", "members", "often", "rows"),
    [
        (60, 1, {1}, 6), (60, 3, {3}, 6), (60, 4, {2}, 12), (60, 5, {2, 3}, 12), (60, 10, {2}, 30),
        (200, 10, {2}, 100), (1000, 10, {3, 4}, 300), (3000, 10, {5}, 600), (1000, 3, {3}, 100),
    ],
)  # fmt: skip
def test_groups_of_members_hold_out_the_same_rows(rng, N, members, often, rows):
    """The number of groups is the smallest that holds out 250 rows, at least two."""
    parts = assign_folds(rng, np.arange(N), 0.1, members)
    assert len(parts) == members
    counts = np.zeros(N, int)
    for train_rows, held in parts:
        assert len(held) == N // 10
        assert_array_equal(np.sort(np.r_[train_rows, held]), np.arange(N))
        counts[held] += 1
    assert set(counts[counts > 0]) == often
    assert (counts > 0).sum() == rows


def test_a_membership_pads_and_returns_its_rows(rng):
    parts = assign_folds(rng, np.arange(60), 0.1, 4)
    members = membership(parts)
    for (rows, _), found, count in zip(parts, members.train, members.n_train, strict=True):
        assert_array_equal(found[:count], rows)
    groups = held_out_groups(members)
    assert [numbers for numbers, _ in groups] == [[0, 1], [2, 3]]
    assert_array_equal(groups[1][1], parts[2][1])
    assert held_out_groups(membership(assign_folds(rng, np.arange(60), 0.0, 4))) == []


@pytest.mark.parametrize("packed", [2**16, 16])
def test_shuffled_is_a_new_permutation_each_epoch(monkeypatch, packed):
    monkeypatch.setattr("tggm.training.loop.PACKED", packed)
    rows = jnp.arange(100, 164, dtype=jnp.int32)
    epochs = [(0, 0), (0, 1), (1, 0), (0, 0)]
    orders = [np.asarray(order(rows, jnp.int32(50), jnp.uint32(s), jnp.int32(e))) for s, e in epochs]
    for found in orders:
        assert_array_equal(np.sort(found[:50]), np.arange(100, 150))
        assert_array_equal(np.sort(found[50:]), np.arange(150, 164))
    assert_array_equal(orders[0], orders[3])
    assert all(np.mean(orders[0][:50] == other[:50]) < 0.2 for other in orders[1:3])


def test_items_are_read_ahead_in_order():
    made = []

    def items():
        for k in range(20):
            made.append(k)
            yield k

    reading = read_ahead(items())
    assert [next(reading) for _ in range(3)] == [0, 1, 2]
    assert len(made) <= 3 + 2 + 1  # two wait, one is produced
    assert list(reading) == list(range(3, 20))
    reading = read_ahead(iter(range(10**9)))
    next(reading)
    reading.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tggm-read")]


def halves(data):
    """Return two blocks of ten rows that get 3/4 and 1/4 of the penalty."""
    rows = np.arange(HALF, dtype=np.int32)
    members = membership([(rows, rows[:0])])
    parts = [{name: a[k : k + HALF] for name, a in data.items()} for k in (0, HALF)]
    shared = zip(parts, (0.75, 0.25), strict=True)
    each = [RowBlock(members, part, np.ones(HALF), share) for part, share in shared]
    return Blocks(lambda _: iter(each), 2, ROWS, 16)


def test_a_table_in_memory_is_one_block_prepared_once(data):
    rows = np.arange(ROWS, dtype=np.int32)
    block = RowBlock(membership([(rows, rows[:0]), (rows[:6], rows[6:])]), data, np.ones(ROWS))
    blocks = Blocks.of(block)
    assert (blocks.per_pass, blocks.n_rows, blocks.only) == (1, ROWS, block)
    assert (blocks.steps(6), blocks.steps(1000)) == (4, 1)
    prepared = []
    assert len([*islice(_prepare(blocks, 0, 3, prepared.append), 3)]) == 3
    assert len(prepared) == 1


def test_each_block_takes_its_steps_with_its_share_of_the_penalty(data):
    got = fit(data, blocks=halves(data), epochs=3, batch=16, capacity=1, weight_decay=5.0)
    X = np.column_stack([np.ones(ROWS), data["x"]])
    theta, errors = np.zeros(4), []
    for _ in range(3):
        for rows, share in ((slice(0, HALF), 0.75), (slice(HALF, None), 0.25)):
            error = X[rows] @ theta - data["y"][rows]
            errors.append(-0.5 * np.mean(error**2))
            theta = theta - 0.1 * (X[rows].T @ error + 5.0 * share * np.r_[0, theta[1:]]) / HALF
    assert_allclose(as_vector(got.params), theta, rtol=1e-12)
    assert_allclose(got.train[0], np.reshape(errors, (3, 2)).mean(1), rtol=1e-12)  # one entry per pass
    assert got.best_epoch[0] == 2


def test_training_resumes_in_the_middle_of_a_pass(data, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    options = {"epochs": 3, "batch": 16, "capacity": 1, "weight_decay": 5.0, "checkpoint": tmp_path / "c"}
    blocks = halves(data)

    def failing(epoch):
        yield from islice(blocks.each(epoch), 2 - epoch)
        if epoch:
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        fit(data, blocks=replace(blocks, each=failing), **options)
    rest, whole = (fit(data, blocks=blocks, **options | more) for more in ({}, {"checkpoint": None}))
    assert_array_equal(as_vector(rest.params), as_vector(whole.params))
    assert_array_equal(rest.train, whole.train)
