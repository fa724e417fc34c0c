"""Columns that repeat the target, as titanic's `alive` does: a model would learn nothing else."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.tables.table import Table

LEAST_ROWS = 20  # fewer may agree by chance
_SAME = 1 - 1e-12  # correlation


def repetition(table: Table, name: str, y: NDArray[Any], is_class: bool) -> str:
    """How a column gives the target away: "repeats" it, "tells" it exactly, or "" for neither."""
    known = table.known(name)
    if y.ndim > 1 or known.sum() < LEAST_ROWS or not known.all():
        return ""
    if is_class:
        return _of_classes(table, name, y)
    values = table.numbers_or_none(name)
    if values is None or np.ptp(values) == 0 or np.ptp(y) == 0:
        return ""
    if np.array_equal(values, y):
        return "repeats"
    with np.errstate(all="ignore"):
        return "tells" if abs(np.corrcoef(values, y)[0, 1]) > _SAME else ""


def _of_classes(table: Table, name: str, y: NDArray[Any]) -> str:
    """A column with one word for each class repeats it."""
    words, labels = table.words(name).tolist(), y.tolist()
    pairs = set(zip(words, labels, strict=True))
    classes = len(set(labels))
    if classes < 2 or len(pairs) != classes or len(set(words)) != classes:
        return ""
    return "repeats"
