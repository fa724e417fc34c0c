"""What the target is like where a number stands that repeats, as sums of a tax form or fares do.

Such numbers are words as much as sizes: people with one sum all earn much, those with the next one little. A
smooth function of the number cannot tell them apart; the usual target of each, as `statistic` has it of
words, does.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tggm.arrays import Floats, Ints
from tggm.tables.columns.statistic import of_others, statistics
from tggm.tables.outcomes import Outcomes

LEAST_VALUES = 20  # different ones; fewer can be told by their size
MOST_VALUES = 1000  # that repeat
REPEATED = 0.5  # of the rows: so many must have a value that others have
LEAST_WIDTH = 10  # rows on either side
LEAST_ROWS, MOST_ROWS = 100, 50_000  # that are asked
MOST_TARGET = 1e300  # either side of 0: differences of two are numbers
LEAST_GAIN, ERRORS = 0.2, 3.0  # of the target's variance, and standard errors, that a usual target must gain


@dataclass(frozen=True)
class UsualTarget:
    """The target of each value that repeats, and of all other values together."""

    outputs: tuple[str, ...]
    levels: tuple[float, ...]  # increasing
    values: tuple[tuple[float, ...], ...]  # of each level, then of the others

    def __post_init__(self) -> None:
        increasing = np.isfinite(self.levels).all() and all(a < b for a, b in pairwise(self.levels))
        if not self.outputs or not self.levels or not increasing:
            raise ValueError("the usual targets of numbers must be of outputs, and of increasing numbers")
        if [len(value) for value in self.values] != [len(self.outputs)] * (len(self.levels) + 1):
            raise ValueError("the usual targets of numbers must be one for each number and output")
        if not np.abs(self.values).max() <= MOST_TARGET:
            raise ValueError(f"the usual targets of numbers must be from -{MOST_TARGET:g} to {MOST_TARGET:g}")

    def features(self, name: str) -> list[str]:
        """Names of the columns that the model sees."""
        return [f"{name}: usual {output}" for output in self.outputs]

    def encode(self, x: Floats) -> Floats:
        """The usual target of each number, (rows, outputs)."""
        return np.asarray(self.values, dtype=np.float64)[coded(x, self.levels)]

    def encode_learned(self, x: Floats, outcome: Outcomes) -> Floats:
        """The same of rows that were learned from, as others tell it."""
        return of_others(coded(x, self.levels), len(self.levels) + 1, outcome)


def usual_target(x: Floats, outcome: Outcomes | None) -> UsualTarget | None:
    """Learn from numbers, NaN for gaps; None if they do not repeat or tell no more than others near by."""
    if outcome is None or not outcome.names:
        return None
    value, count = np.unique(x[~np.isnan(x)], return_counts=True)
    if len(value) < LEAST_VALUES or count[count > 1].sum() < REPEATED * count.sum():
        return None
    most = np.argsort(-count, kind="stable")[:MOST_VALUES]
    levels = tuple(np.sort(value[most[count[most] > 1]]).tolist())
    with np.errstate(over="ignore", invalid="ignore"):  # targets whose squares overflow are refused later
        if not tells_more(x, levels, float(value[most[0]]), outcome):
            return None
    found = statistics(coded(x, levels), len(levels) + 1, outcome)
    return UsualTarget(outcome.names, levels, tuple(map(tuple, found.tolist())))


def tells_more(x: Floats, levels: tuple[float, ...], commonest: float, outcome: Outcomes) -> bool:
    """Whether other rows of a value predict its target better than rows of the values around it.

    Held-out squared errors of the usual target are compared with those of the mean of the rows next to it, of
    few, of many and of all: it must be better than each by a fifth of the target's variance. Where targets
    change smoothly with the number it is not, for it is the noisier. Gaps are not asked, nor is a value that
    most rows have.
    """
    known = np.flatnonzero(~np.isnan(x) & ~np.isnan(outcome.values).any(1))
    some = np.random.default_rng(0).permutation(known)[:MOST_ROWS]
    x, y = x[some], outcome.values[some]
    code = coded(x, levels)
    asked = (code < len(levels)) & ((x != commonest) | (2 * (x == commonest).sum() < len(x)))
    if asked.sum() < LEAST_ROWS:
        return False
    told = of_others(code, len(levels) + 1, Outcomes(y, outcome.names, False))
    error = ((y - told) ** 2).sum(1)
    least = LEAST_GAIN * y.var(0).sum()
    for width in (LEAST_WIDTH, max(LEAST_WIDTH, len(x) // 40), max(LEAST_WIDTH, len(x) // 10), len(x)):
        gain = (((y - around(x, y, width)) ** 2).sum(1) - error)[asked]
        if not gain.mean() > max(least, ERRORS * gain.std() / np.sqrt(len(gain))):  # nor if squares overflow
            return False
    return True


def around(x: Floats, y: Floats, width: int) -> Floats:
    """The mean target of so many rows on either side of each number, none of them with the same one."""
    order = np.argsort(x, kind="stable")
    total = np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(y[order], axis=0)])
    first, after = (np.searchsorted(x[order], x, side) for side in ("left", "right"))
    low, high = np.maximum(first - width, 0), np.minimum(after + width, len(x))
    count = (first - low) + (high - after)
    mean: Floats = (total[first] - total[low] + total[high] - total[after]) / np.maximum(count, 1)[:, None]
    return mean


def coded(x: Floats, levels: tuple[float, ...]) -> Ints:
    """The place of each number among the levels; after them come all others, and gaps."""
    place = np.searchsorted(levels, x)
    known = np.asarray(levels)[np.minimum(place, len(levels) - 1)] == x
    return np.where(known, place, len(levels)).astype(np.int64)
