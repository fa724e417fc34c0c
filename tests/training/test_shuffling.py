"""Every epoch has an order of its own, and all orders are alike."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_array_equal

from tggm.training.shuffling import shuffled


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
