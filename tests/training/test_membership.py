"""Index lists of members: padded little, and all rows are in one of them."""

import numpy as np
from numpy.testing import assert_array_equal

from tggm.training.membership import bucket, hold_out


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
