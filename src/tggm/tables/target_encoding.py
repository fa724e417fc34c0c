r"""Target encoding: replace a word, or a number that repeats, by the mean target of its rows.

For a value with n rows whose targets sum to s, the encoding is the posterior mean under a normal prior,

.. math:: (s + m \bar y) / (n + m), \qquad m = \sigma^2 / \tau^2,

with the variances within and between values estimated by an analysis of variance; for classes it is the
log-odds of that share. Training rows are encoded out of fold, by the other four fifths of the rows, so that
no row's own target is among its inputs. Rows of one group are in one fold: their targets are not, either.

Repeated numbers, such as fares or amounts of a tax form, can act as words; smooth functions do not fit them.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats, Ints

MOST_OUTPUTS = 20  # columns are not encoded for more
FOLDS = 5
LEAST_PRIOR, MOST_PRIOR = 1.0, 1000.0  # weight of the prior, in rows

# conditions for numbers
LEAST_VALUES = 20  # different values
MOST_VALUES = 1000  # repeated values that are encoded
REPEATED = 0.5  # share of rows whose value occurs in other rows
LEAST_WIDTH = 10  # neighbours on either side
LEAST_ROWS, MOST_ROWS = 100, 50_000  # rows in the comparison with neighbours
LEAST_GAIN, ERRORS = 0.2, 3.0  # required gain: share of the target's variance, and standard errors
MOST_TARGET = 1e300  # differences of two targets must be finite


class Outcomes(NamedTuple):
    """Targets of the training rows as columns of numbers."""

    values: Floats  # (rows, outputs), NaN where missing; zeros and ones for classes
    names: tuple[str, ...]  # of the outputs
    is_class: bool
    groups: Any = None  # (rows,) of the rows; those of one group are in one fold

    @classmethod
    def of(
        cls, y: NDArray[Any], is_class: bool, groups: Any = None, labels: NDArray[Any] | None = None
    ) -> "Outcomes | None":
        """Convert the targets of `fit`; None if there are too many outputs.

        Two classes need one column, for the second class. `labels` are all classes, by default those of `y`.
        """
        if is_class:
            labels = np.unique(y) if labels is None else labels
            labels = labels[1:] if len(labels) == 2 else labels
            names = [str(label) for label in labels.tolist()]
            few = labels[:MOST_OUTPUTS]  # all of them, unless there are too many
            values = (np.reshape(y, (-1, 1)) == few[None, :]).astype(np.float64)
        else:
            values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
            count = values.shape[1]
            names = [f"target {k}" for k in range(count)] if count > 1 else ["target"]
        return cls(values, tuple(names), is_class, groups) if len(names) <= MOST_OUTPUTS else None


class CodeSums:
    """Rows and sums of known targets, by fold and code, from which codes are encoded."""

    def __init__(self, size: int, sample: Outcomes) -> None:
        self._log_odds, outputs = sample.is_class, sample.values.shape[1]
        known = ~np.isnan(sample.values)
        total = np.where(known, sample.values, 0.0).sum(0)
        self._centre = total / np.maximum(known.sum(0), 1)  # sums of deviations lose no digits
        self.rows = np.zeros(size, np.int64)
        self._count, self._total = (np.zeros((FOLDS, size, outputs)) for _ in range(2))
        self._squares = np.zeros((FOLDS, outputs))

    def add(self, code: Ints, fold: Ints, Y: Floats) -> "CodeSums":
        """Add rows; return self."""
        known, deviation = ~np.isnan(Y), np.nan_to_num(Y - self._centre)
        self.rows += np.bincount(code, minlength=len(self.rows))
        np.add.at(self._count, (fold, code), known)
        np.add.at(self._total, (fold, code), deviation)
        np.add.at(self._squares, fold, deviation**2)
        return self

    def encode(self, without: int | None = None) -> Floats:
        """Return the encoding of each code, (codes, outputs), by the rows of all folds but one."""
        kept = np.arange(FOLDS) != without
        count, total, squares = (a[kept].sum(0) for a in (self._count, self._total, self._squares))
        n = count.sum(0)
        m = np.array([_prior_rows(*part) for part in zip(count.T, total.T, squares, strict=True)])
        value: Floats = self._centre + (total + m * total.sum(0) / np.maximum(n, 1)) / (count + m)
        if self._log_odds:
            least = 0.5 / (n + 1)
            share = np.clip(value, least, 1 - least)
            value = np.log(share / (1 - share))
        return value


def encode_codes(code: Ints, size: int, outcome: Outcomes) -> Floats:
    """Return the encoding of each of the codes 0, ..., size - 1, shape (size, outputs)."""
    return CodeSums(size, outcome).add(code, np.zeros_like(code), outcome.values).encode()


def encode_out_of_fold(code: Ints, size: int, outcome: Outcomes) -> Floats:
    """Return the encoding of each row's code by the rows of the other folds, shape (rows, outputs)."""
    groups = np.arange(len(code)) if outcome.groups is None else np.asarray(outcome.groups)
    names, place = np.unique(groups, return_inverse=True)
    fold = (np.random.default_rng(0).permutation(len(names)) % FOLDS)[place]
    sums = CodeSums(size, outcome).add(code, fold, outcome.values)
    return np.stack([sums.encode(k) for k in range(FOLDS)])[fold, code]


def _prior_rows(count: Floats, total: Floats, squares: float) -> float:
    """Return the weight of the prior in rows: the variance within codes over that between their means."""
    codes, n = (count > 0).sum(), count.sum()
    if codes < 2 or n <= codes:
        return LEAST_PRIOR
    explained = (total**2 / np.maximum(count, 1)).sum()
    within = max(squares - explained, 0.0) / (n - codes)
    spread = explained - total.sum() ** 2 / n
    between = (spread - (codes - 1) * within) / (n - (count**2).sum() / n)
    return float(np.clip(within / between, LEAST_PRIOR, MOST_PRIOR)) if between > 0 else MOST_PRIOR


@dataclass(frozen=True)
class TargetEncoding:
    """The encoding of each number that repeats, and of all other numbers together."""

    outputs: tuple[str, ...]
    levels: tuple[float, ...]  # increasing
    values: tuple[tuple[float, ...], ...]  # for each level, then for the other numbers
    others: int  # training rows with other numbers

    def __post_init__(self) -> None:
        increasing = np.isfinite(self.levels).all() and (np.diff(self.levels) > 0).all()
        sizes = [len(value) for value in self.values]
        complete = self.outputs and sizes == [len(self.outputs)] * (len(self.levels) + 1)
        if not (increasing and complete and np.abs(self.values).max() <= MOST_TARGET):  # NaN is not
            raise ValueError("the target encoding of numbers must have a number for each increasing level")

    @classmethod
    def of(cls, x: Floats, outcome: Outcomes | None) -> "TargetEncoding | None":
        """Learn from numbers, NaN if missing; None if they do not repeat, or neighbours predict as well."""
        if outcome is None:
            return None
        value, count = np.unique(x[~np.isnan(x)], return_counts=True)
        if len(value) < LEAST_VALUES or count[count > 1].sum() < REPEATED * count.sum():
            return None
        most = np.argsort(-count, kind="stable")[:MOST_VALUES]
        levels = tuple(np.sort(value[most[count[most] > 1]]).tolist())
        with np.errstate(over="ignore", invalid="ignore"):  # the estimator rejects targets of this size
            if not beats_neighbours(x, levels, float(value[most[0]]), outcome):
                return None
        found = encode_codes(code_numbers(x, levels), len(levels) + 1, outcome)
        others = int(count[~np.isin(value, levels)].sum())
        return cls(outcome.names, levels, tuple(map(tuple, found.tolist())), others)

    def encode(self, x: Floats, outcome: Outcomes | None = None) -> Floats:
        """Return the encoding of each number, shape (rows, outputs); out of fold if targets are given."""
        code = code_numbers(x, self.levels)
        if outcome is None:
            return np.asarray(self.values, dtype=np.float64)[code]
        return encode_out_of_fold(code, len(self.values), outcome)


def beats_neighbours(x: Floats, levels: tuple[float, ...], commonest: float, outcome: Outcomes) -> bool:
    """Return whether a value's other rows predict its target better than rows with values next to it.

    Out-of-fold squared errors of the encoding are compared with those of the mean of few, many and all
    neighbouring rows; it must be better than each by a fifth of the target's variance. Missing values are
    ignored, and so is a value that at least half of the rows have.
    """
    known = np.flatnonzero(~np.isnan(x) & ~np.isnan(outcome.values).any(1))
    some = np.random.default_rng(0).permutation(known)[:MOST_ROWS]
    x, y = x[some], outcome.values[some]
    code = code_numbers(x, levels)
    counted = (code < len(levels)) & ((x != commonest) | (2 * (x == commonest).sum() < len(x)))
    if counted.sum() < LEAST_ROWS:
        return False
    groups = None if outcome.groups is None else np.asarray(outcome.groups)[some]
    encoded = encode_out_of_fold(code, len(levels) + 1, Outcomes(y, outcome.names, False, groups))
    error = ((y - encoded) ** 2).sum(1)
    least = LEAST_GAIN * y.var(0).sum()
    for width in (LEAST_WIDTH, max(LEAST_WIDTH, len(x) // 40), max(LEAST_WIDTH, len(x) // 10), len(x)):
        gain = (((y - _neighbour_mean(x, y, width)) ** 2).sum(1) - error)[counted]
        if not gain.mean() > max(least, ERRORS * gain.std() / np.sqrt(len(gain))):  # false for NaN, too
            return False
    return True


def neighbours_predict(x: Floats, outcome: Outcomes) -> bool:
    """Return whether rows with similar numbers have similar targets, by three standard errors."""
    some = np.random.default_rng(0).permutation(np.flatnonzero(~np.isnan(outcome.values).any(1)))[:MOST_ROWS]
    x, y = x[some], outcome.values[some]
    widths = (2, max(LEAST_WIDTH, len(x) // 20), len(x))  # the last is the mean of all others
    *near, far = (((y - _neighbour_mean(x, y, width)) ** 2).sum(1) for width in widths)
    gains = [far - error for error in near]
    return any(gain.mean() > ERRORS * gain.std() / np.sqrt(len(gain)) for gain in gains)


def _neighbour_mean(x: Floats, y: Floats, width: int) -> Floats:
    """Return the mean target of `width` rows on either side of each number, without rows equal to it."""
    order = np.argsort(x, kind="stable")
    total = np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(y[order], axis=0)])
    first, after = (np.searchsorted(x[order], x, side) for side in ("left", "right"))
    low, high = np.maximum(first - width, 0), np.minimum(after + width, len(x))
    count = (first - low) + (high - after)
    return (total[first] - total[low] + total[high] - total[after]) / np.maximum(count, 1)[:, None]


def code_numbers(x: Floats, levels: tuple[float, ...]) -> Ints:
    """Return the index of each number among the levels; len(levels) for other and missing numbers."""
    place = np.searchsorted(levels, x)
    known = np.asarray(levels)[np.minimum(place, len(levels) - 1)] == x
    return np.where(known, place, len(levels)).astype(np.int64)
