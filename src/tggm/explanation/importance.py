"""What each column is worth: how much the loss rises where its values are shuffled among the rows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tggm.arrays import Floats, Ints
from tggm.explanation.columns import ColumnMap

BLOCK = 8192  # rows that are judged at once
MOST_ROWS = 200_000  # in all, where the number of repeats is left open
MOST_REPEATS = 5

Loss = Callable[[Floats, Ints], Floats]  # rows of features, and which of the rows each was made of: (rows,)


class Importances(NamedTuple):
    """Importance of each column.

    Attributes
    ----------
    mean : ndarray, shape (n_columns,)
        Rise of the loss by shuffling, on average; near 0, of either sign, for a column that tells nothing.
    error : ndarray, shape (n_columns,)
        Its standard error over rows.
    names : tuple of str
        Names of the columns.
    """

    mean: Floats
    error: Floats
    names: tuple[str, ...]


def permuted(loss: Loss, X: Floats, columns: ColumnMap, repeats: int | None, rng: Any) -> Importances:
    """Shuffle each column by itself, all its features at once, `repeats` times."""
    n, count = len(X), len(columns.used)
    times = int(np.clip(MOST_ROWS // max(n * count, 1), 1, MOST_REPEATS)) if repeats is None else repeats
    before = loss(X, np.arange(n))
    tasks = np.repeat(np.arange(count), times)
    each = max(1, BLOCK // n)
    rise = np.concatenate(
        [_judged(loss, X, columns.owner, tasks[at : at + each], rng) for at in range(0, len(tasks), each)]
    )
    by_row = (rise - before[None, :]).reshape(count, times, n).mean(1)  # (columns, rows)
    error = by_row.std(1, ddof=1) / np.sqrt(n) if n > 1 else np.full(count, np.nan)
    return Importances(columns.spread(by_row.mean(1), 0), columns.spread(error, 0), columns.names)


def _judged(loss: Loss, X: Floats, owner: Ints, tasks: Ints, rng: Any) -> Floats:
    """Losses of copies of the rows, (tasks, rows): in each, one column is shuffled."""
    n = len(X)
    copies = np.repeat(X[None], len(tasks), axis=0)
    for copy, column in zip(copies, tasks, strict=True):
        features = owner == column
        copy[:, features] = X[rng.permutation(n)][:, features]
    found = loss(copies.reshape(-1, X.shape[1]), np.tile(np.arange(n), len(tasks)))
    return found.reshape(len(tasks), n)
