"""Blocks of rows: how many rows they have, and who computes them."""

import threading

import jax
import pytest

from tggm.models import Architecture
from tggm.predictive import row_blocks
from tggm.predictive.row_blocks import block_size, over_blocks


@pytest.mark.parametrize(
    ("sizes", "members", "rows"),
    [
        ((8, (50, 50), 1, "gaussian", "directed", 0, "periodic"), 10, 512),  # the default
        ((100, (50, 50), 1, "gaussian", "directed", 0, "periodic"), 10, 64),
        ((784, (100,), 10, "probit"), 1, 1024),
        ((2, (8,), 1), 1, 2048),
        ((2, (4000,), 1), 10, 64),
    ],
)
def test_wider_models_take_fewer_rows_at_once(sizes, members, rows, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert block_size(Architecture(*sizes).template(members)) == rows


def test_accelerators_take_more_rows_at_once(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert block_size(Architecture(2, (50,), 1).template(10)) == 8192


@pytest.mark.parametrize(("cores", "alone", "threads"), [(1, False, 1), (3, True, 1), (3, False, 4)])
def test_blocks_come_in_order_whoever_computes_them(cores, alone, threads, monkeypatch):
    monkeypatch.setattr(row_blocks, "n_cores", lambda: cores)
    together = threading.Barrier(3 if threads > 1 else 1)  # the first block is computed by the caller
    seen = set()

    def block(at):
        seen.add(threading.current_thread().name)
        if at.start:
            together.wait(timeout=60)
        return at.start, at.stop, bool(jax.config.read("jax_enable_x64"))

    with jax.enable_x64(False):
        found = over_blocks(block, 14, 4, alone=alone)
    assert found == [(0, 4, False), (4, 8, False), (8, 12, False), (12, 16, False)]
    assert len(seen) == threads


def test_a_table_without_rows_is_one_block():
    assert over_blocks(lambda at: at.start, 0, 4, alone=True) == [0]
