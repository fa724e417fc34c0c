"""What data are refused, with block and value in the message; and how the rest is read."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tggm.models.graph import Censored, Structure
from tggm.models.graph.evidence import read
from tggm.models.graph.structure import Block

STRUCTURE = Structure(
    (Block("x", 2, "input"), Block("h", 3, "latent"), Block("y", 1, "observed"), Block("c", 2, "inequality"))
)
X = np.ones((2, 2))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"y": [1.0]}, "`data` must hold every input; 'x' is not there"),
        ({"x": np.ones((2, 2)), "z": [1.0, 2.0]}, "there is no block 'z'"),
        ({"x": np.ones((2, 2)), "h": np.ones((2, 3))}, r"`data\['h'\]`: the block is latent"),
        ({"x": np.ones((2, 2)), "y": [1.0]}, r"`data\['y'\]` has 1 rows; other blocks have 2"),
        ({"x": np.full((2, 2), np.nan), "y": [1.0, 2.0]}, r"`data\['x'\]` must be finite"),
        ({"x": np.ones((2, 2)), "y": Censored([1.0], [1])}, r"`data\['y'\]` has 1 rows"),
        ({"x": X, "y": [np.inf, 1.0]}, r"`data\['y'\]` must be finite; got inf. Use NaN for what is missing"),
        ({"x": X, "y": np.ones((2, 2))}, r"`data\['y'\]` must have shape \(rows, 1\); got \(2, 2\)"),
        ({"x": X, "c": np.full((2, 2), 0.5)}, r"`data\['c'\]` must be signs"),
        ({"x": X, "c": Censored(np.ones((2, 2)), np.ones((2, 2)))}, "only observed blocks can be censored"),
    ],
)
def test_bad_data_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        read(STRUCTURE, data)


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ("x", "`side`: sides are 'left', 'none' or 'right'; got 'x'"),
        (["none", "up"], "got 'up'"),
        ([0, 2], "`side`: sides must be -1"),
        ([1], r"shape \(2,\); got shape \(1,\)"),
    ],
)
def test_sides_of_limits_are_checked_at_once(side, message):
    with pytest.raises(ValueError, match=message):
        Censored([1.0, 2.0], side)


def test_patterns_say_what_occurs_in_a_block():
    assert read(STRUCTURE, {"x": X, "y": [1.0, 2.0]})[1] == (("y", "known"),)
    assert read(STRUCTURE, {"x": X, "y": [1.0, np.nan]})[1] == (("y", "missing"),)
    assert read(STRUCTURE, {"x": X, "y": Censored([1.0, np.nan], [1, 0])})[1] == (("y", "sided"),)
    assert read(STRUCTURE, {"x": X, "y": Censored([1.0, 2.0], [0, 0])})[1] == (("y", "known"),)


def test_signs_are_limits_at_zero():
    evidence, pattern, rows = read(STRUCTURE, {"x": X, "c": [[1, -1], [0, np.nan]]})
    assert pattern == (("c", "sided"),)
    assert rows == 2
    assert_array_equal(evidence.value["c"], [[0, 0], [np.nan, np.nan]])
    assert_array_equal(evidence.side["c"], [[1, -1], [0, 0]])
