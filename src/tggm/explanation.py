r"""Explain functions of rows: Shapley values of single answers, and permutation importances of columns.

Shapley values are estimated from walks. A walk leads from a background row z to the row x and sets one column
at a time in a random order; the change of the answer f when a column is set is credited to that column. The
mean over all orders and all z is the Shapley value of the column (Štrumbelj & Kononenko, 2010):

.. math::
    \phi_j = E_{z, \pi}\big[f(x_{\pi \le j}, z_{\pi > j}) - f(x_{\pi < j}, z_{\pi \ge j})\big],
    \qquad f(x) = E_z f(z) + \sum_j \phi_j.

The sum is exact for every walk, so it is exact for any number of walks; only the contributions of the columns
are estimated. Each order is used in both directions, which is exact if at most two columns interact. The
background rows are chosen so that their means and variances match those of all background rows. All rows use
the same walks.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np

from tggm.arrays import Bools, Floats, Ints

BLOCK = 8192  # rows per call of the function that is explained
STEPS = 512  # answers per row from which the automatic number of walks is derived
MOST_WALKS = 128
CANDIDATES = 1000  # background rows to choose from
MOST_ROWS = 200_000  # rows in total if the number of repeats is chosen automatically
MOST_REPEATS = 5

Answer = Callable[[Floats], Floats]  # (rows, features) to (rows, answers)
Loss = Callable[[Floats, Ints], Floats]  # rows of features and their row numbers, to losses (rows,)


class ColumnMap(NamedTuple):
    """The columns of a table, and the features that each is encoded to; unused columns have none."""

    names: tuple[str, ...]  # of all columns
    used: Ints  # positions of the columns with features, in the order of the features
    owner: Ints  # (features,) index into `used` of each feature's column

    @classmethod
    def identity(cls, names: Sequence[str]) -> Self:
        """Map each column to one feature."""
        each = np.arange(len(names))
        return cls(tuple(names), each, each)

    @classmethod
    def from_widths(cls, names: Sequence[str], widths: dict[str, int]) -> Self:
        """Map columns to consecutive features, given their numbers of features."""
        places = {name: k for k, name in enumerate(names)}
        used = np.array([places[name] for name in widths])
        return cls(tuple(names), used, np.repeat(np.arange(len(widths)), list(widths.values())))

    def spread(self, values: Floats, axis: int) -> Floats:
        """Expand values of the used columns to all columns, with 0 for the others."""
        moved = np.moveaxis(values, axis, 0)
        found = np.zeros((len(self.names), *moved.shape[1:]))
        found[self.used] = moved
        return np.moveaxis(found, 0, axis)


class Explanation(NamedTuple):
    """Parts of predictions by row and column; the axis k is that of several outputs or classes."""

    base: Floats  # () or (k,) mean prediction of the background rows
    parts: Floats  # (n_rows, n_columns) or (n_rows, n_columns, k) contribution of each column
    names: tuple[str, ...]  # of the columns

    @property
    def prediction(self) -> Floats:
        """Return the explained predictions: ``base + parts.sum(1)``, (n_rows,) or (n_rows, k)."""
        return self.base + self.parts.sum(1)


class Importances(NamedTuple):
    """Importance of each column; about 0, positive or negative, for an irrelevant column."""

    mean: Floats  # (n_columns,) mean increase of the loss when the column is shuffled
    error: Floats  # (n_columns,) its standard error over rows
    names: tuple[str, ...]  # of the columns


def permutation_importances(
    loss: Loss, X: Floats, columns: ColumnMap, repeats: int | None, rng: Any
) -> Importances:
    """Return the increase of the loss when each column is shuffled, with all its features together.

    The function of scikit-learn cannot shuffle several features together and returns no standard error.
    """
    n, count = len(X), len(columns.used)
    times = int(np.clip(MOST_ROWS // max(n * count, 1), 1, MOST_REPEATS)) if repeats is None else repeats
    before = loss(X, np.arange(n))
    tasks, each = np.repeat(np.arange(count), times), max(1, BLOCK // n)
    after = []
    for at in range(0, len(tasks), each):
        some = tasks[at : at + each]
        copies = np.repeat(X[None], len(some), axis=0)
        for copy, column in zip(copies, some, strict=True):
            features = columns.owner == column
            copy[:, features] = X[rng.permutation(n)][:, features]
        after.append(loss(copies.reshape(-1, X.shape[1]), np.tile(np.arange(n), len(some))).reshape(-1, n))
    by_row = (np.concatenate(after) - before[None, :]).reshape(count, times, n).mean(1)  # (columns, rows)
    error = by_row.std(1, ddof=1) / np.sqrt(n) if n > 1 else np.full(count, np.nan)
    return Importances(columns.spread(by_row.mean(1), 0), columns.spread(error, 0), columns.names)


def shapley_values(
    answer: Answer, X: Floats, background: Floats, columns: ColumnMap, walks: int | None, rng: Any
) -> Explanation:
    """Explain the answers for rows of features `X` relative to those for background rows."""
    count = len(columns.used)
    enough = np.clip(STEPS // max(2 * (count - 1), 1), 1, MOST_WALKS // 2)
    pairs = int(enough) if walks is None else -(-walks // 2)
    if len(background) > CANDIDATES:
        background = background[np.sort(rng.choice(len(background), CANDIDATES, replace=False))]
    base = answer(background)
    chosen = _choose_rows(np.concatenate([background, base], axis=1), pairs, rng)
    Z, base = background[chosen], base[chosen]
    orders = np.stack([rng.permutation(count) for _ in range(pairs)])
    step = np.argsort(np.concatenate([orders, orders[:, ::-1]]), axis=1)  # step that sets each column
    is_set = step[:, None, :] < np.arange(count + 1)[None, :, None]  # (2 pairs, count + 1, count)
    ends = answer(X)
    each = max(1, 2**20 // (2 * pairs * (count + 1)))
    found = [
        _contributions(answer, X[at : at + each], Z, (base, ends[at : at + each]), is_set, columns.owner)
        for at in range(0, len(X), each)
    ]
    parts, mean = columns.spread(np.concatenate(found), 1), base.mean(0)
    if ends.shape[1] == 1:
        return Explanation(mean[0], parts[:, :, 0], columns.names)
    return Explanation(mean, parts, columns.names)


def _choose_rows(rows: Floats, size: int, rng: Any) -> Ints:
    """Choose rows greedily so that their means and variances are close to those of all rows."""
    with np.errstate(all="ignore"):
        Z = (rows - rows.mean(0)) / rows.std(0)
    Z = np.nan_to_num(np.concatenate([Z, Z**2 - 1], axis=1), posinf=0, neginf=0)
    unused, chosen, total = np.ones(len(Z), np.bool_), [], np.zeros(Z.shape[1])
    noise = 1e-9 * rng.uniform(size=len(Z))  # breaks ties
    for _ in range(size):
        unused |= not unused.any()
        distance = ((total + Z) ** 2).sum(1) + noise
        chosen.append(int(np.argmin(np.where(unused, distance, np.inf))))
        unused[chosen[-1]] = False
        total = total + Z[chosen[-1]]
    return np.array(chosen)


def _contributions(
    answer: Answer, X: Floats, Z: Floats, ends: tuple[Floats, Floats], is_set: Bools, owner: Ints
) -> Floats:
    """Return the mean contribution of each column along the walks: (rows, columns, answers)."""
    base, last = ends
    walks, stops, _ = is_set.shape
    f = np.empty((len(X), walks, stops, last.shape[1]))
    f[:, :, 0], f[:, :, -1] = np.concatenate([base, base])[None], last[:, None]
    if stops > 2:  # the rows at all inner stops of all walks, in blocks of one size
        features, shape, inner = is_set[:, 1:-1][:, :, owner], (len(X), walks, stops - 2), []
        for at in range(0, prod(shape), BLOCK):
            row, walk, stop = np.unravel_index(np.arange(at, min(at + BLOCK, prod(shape))), shape)
            inner.append(answer(np.where(features[walk, stop], X[row], Z[walk % len(Z)])))
        f[:, :, 1:-1] = np.concatenate(inner).reshape(*shape, -1)
    change = np.diff(f, axis=2)
    step = is_set.argmax(1) - 1  # step that sets each column
    return np.take_along_axis(change, step[None, :, :, None], axis=2).mean(1)
