"""Blocks that are read ahead."""

import threading
import time

import pytest

from tggm.training.rows import read_ahead


def test_items_are_made_ahead_but_not_all_of_them():
    made = []

    def items():
        for k in range(100):
            made.append(k)
            yield k

    before = set(threading.enumerate())
    coming = read_ahead(items())
    assert next(coming) == 0
    time.sleep(0.2)
    assert 3 <= len(made) <= 5
    coming.close()
    assert set(threading.enumerate()) <= before  # threads of others may end meanwhile

    def broken():
        yield 1
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        list(read_ahead(broken()))
