r"""Parts of a prediction that add up to it: Shapley values, by walks from other rows.

A walk leads from a background row z to the row x, one column at a time in a random order; what the answer
f changes by when a column is set belongs to that column. Over all orders and all z these are the Shapley
values of the columns (Štrumbelj & Kononenko, 2010):

.. math::
    \phi_j = E_{z, \pi}\big[f(x_{\pi \le j}, z_{\pi > j}) - f(x_{\pi < j}, z_{\pi \ge j})\big],
    \qquad f(x) = E_z f(z) + \sum_j \phi_j.

The sum holds for every single walk, so it holds whatever their number; only how it is shared among columns
is estimated. Each order is walked in both directions, which is exact where no more than two columns act
together, and the background rows of the walks are chosen such that their means and variances are those of
all. Every row takes the same walks.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tggm.arrays import Bools, Floats, Ints
from tggm.explanation.columns import ColumnMap

BLOCK = 8192  # rows that are answered at once
STEPS = 512  # answers a row that `n_walks="auto"` aims at
MOST_WALKS = 128
CANDIDATES = 1000  # background rows that are looked at

Answer = Callable[[Floats], Floats]  # (rows, features) to (rows, answers)


class Explanation(NamedTuple):
    """Parts of predictions, by row and column.

    Attributes
    ----------
    base : ndarray, shape () or (k,)
        The mean prediction of the background rows; for several outputs or classes, of each.
    parts : ndarray, shape (n_rows, n_columns) or (n_rows, n_columns, k)
        What each column adds to the base.
    names : tuple of str
        Names of the columns.
    prediction : ndarray, shape (n_rows,) or (n_rows, k)
        What is explained: ``base + parts.sum(1)``.
    """

    base: Floats
    parts: Floats
    names: tuple[str, ...]

    @property
    def prediction(self) -> Floats:
        """The base and all parts of each row."""
        total: Floats = self.base + self.parts.sum(1)
        return total


def explained(
    answer: Answer, X: Floats, background: Floats, columns: ColumnMap, walks: int | None, rng: Any
) -> Explanation:
    """Explain the answers for rows `X`, of features, beside those for rows of the background."""
    count = len(columns.used)
    pairs = _pairs(count) if walks is None else -(-walks // 2)
    Z, base = _starts(answer, background, pairs, rng)
    orders = np.stack([rng.permutation(count) for _ in range(pairs)])
    there = _walked(np.concatenate([orders, orders[:, ::-1]]))  # (2 pairs, count + 1, count)
    ends = answer(X)
    each = max(1, 2**20 // (2 * pairs * (count + 1)))
    found = [
        _shares(answer, X[at : at + each], Z, (base, ends[at : at + each]), there, columns.owner)
        for at in range(0, len(X), each)
    ]
    parts, mean = columns.spread(np.concatenate(found), 1), base.mean(0)
    if ends.shape[1] == 1:
        return Explanation(mean[0], parts[:, :, 0], columns.names)
    return Explanation(mean, parts, columns.names)


def _pairs(count: int) -> int:
    """Pairs of walks that take about `STEPS` answers a row."""
    return int(np.clip(STEPS // max(2 * (count - 1), 1), 1, MOST_WALKS // 2))


def _starts(answer: Answer, background: Floats, pairs: int, rng: Any) -> tuple[Floats, Floats]:
    """A background row for each pair of walks, and its answer."""
    rows = background
    if len(rows) > CANDIDATES:
        rows = rows[np.sort(rng.choice(len(rows), CANDIDATES, replace=False))]
    found = answer(rows)
    chosen = _herd(np.concatenate([rows, found], axis=1), pairs, rng)
    return rows[chosen], found[chosen]


def _herd(rows: Floats, size: int, rng: Any) -> Ints:
    """So many rows whose means and variances are those of all, as nearly as a greedy choice makes them."""
    with np.errstate(all="ignore"):
        Z = (rows - rows.mean(0)) / rows.std(0)
    Z = np.nan_to_num(np.concatenate([Z, Z**2 - 1], axis=1), posinf=0, neginf=0)
    left, chosen, total = np.ones(len(Z), np.bool_), [], np.zeros(Z.shape[1])
    noise = 1e-9 * rng.uniform(size=len(Z))  # which of equal rows comes first
    for _ in range(size):
        if not left.any():
            left[:] = True
        distance = ((total + Z) ** 2).sum(1) + noise
        chosen.append(int(np.argmin(np.where(left, distance, np.inf))))
        left[chosen[-1]] = False
        total = total + Z[chosen[-1]]
    return np.array(chosen)


def _walked(orders: Ints) -> Bools:
    """Whether each column is that of x, after every step of every walk: (walks, steps + 1, columns)."""
    place = np.argsort(orders, axis=1)  # when each column is set
    steps = np.arange(orders.shape[1] + 1)
    found: Bools = place[:, None, :] < steps[None, :, None]
    return found


def _shares(
    answer: Answer, X: Floats, Z: Floats, ends: tuple[Floats, Floats], there: Bools, owner: Ints
) -> Floats:
    """What each column adds along the walks, on average: (rows, columns, answers)."""
    base, last = ends
    walks, stops, _ = there.shape
    inner = there[:, 1:-1]
    f = np.empty((len(X), walks, stops, last.shape[1]))
    f[:, :, 0], f[:, :, -1] = np.concatenate([base, base])[None], last[:, None]
    if stops > 2:
        f[:, :, 1:-1] = _answered(answer, X, Z, inner, owner).reshape(len(X), walks, stops - 2, -1)
    change = np.diff(f, axis=2)
    when = there.argmax(1) - 1  # the step at which each column is set
    shares: Floats = np.take_along_axis(change, when[None, :, :, None], axis=2).mean(1)
    return shares


def _answered(answer: Answer, X: Floats, Z: Floats, inner: Bools, owner: Ints) -> Floats:
    """Answers at all inner stops of all walks of all rows, in blocks of one size."""
    total = len(X) * inner.shape[0] * inner.shape[1]
    return np.concatenate([answer(rows) for rows in _mixed(X, Z, inner, owner, total)])


def _mixed(X: Floats, Z: Floats, inner: Bools, owner: Ints, total: int) -> Iterator[Floats]:
    shape = (len(X), inner.shape[0], inner.shape[1])
    features = inner[:, :, owner]
    for at in range(0, total, BLOCK):
        row, walk, stop = np.unravel_index(np.arange(at, min(at + BLOCK, total)), shape)
        yield np.where(features[walk, stop], X[row], Z[walk % len(Z)])
