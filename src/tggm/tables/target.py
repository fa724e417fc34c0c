"""The column to predict: a number or a class."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Bools, Floats
from tggm.tables.table import Table, TableError
from tggm.tables.text import Spelling, spelled

TASKS = ("regression", "classification")
MOST_CLASSES = 100
LARGEST = 1e100  # of a target; sums of squares must be finite


@dataclass(frozen=True)
class Target:
    """Name and task of the target, and whether its labels are whole numbers or words."""

    name: str
    task: str
    integer: bool = False  # for classes

    @property
    def is_class(self) -> bool:
        """Return whether the target is a class."""
        return self.task == "classification"

    def known(self, table: Table) -> Bools:
        """Return which rows have a target."""
        return table.known(self.name)

    def values(self, table: Table) -> NDArray[Any]:
        """Return numbers or labels of a table whose rows all have a target."""
        if not self.is_class:
            return table.numbers(self.name)
        words = table.words(self.name)
        return np.array([_whole_label(table, word) for word in words]) if self.integer else words.astype(str)


def _whole_label(table: Table, word: str) -> int:
    """Return a label that is a whole number, in any spelling (7, 7.0)."""
    number = Spelling(table.decimal).value(word)
    if number is None or number != int(number):
        raise TableError(f"{table.source} has the class {word!r}, but the model's classes are whole numbers.")
    return int(number)


def choose_target(table: Table, name: str, task: str | None) -> tuple[Target, str]:
    """Return the target and how its task was found; raise `TableError` if it cannot be predicted."""
    table.require([name])
    known = table.known(name)
    if table.has_dates(name):
        raise TableError(
            f"column {name!r} of {table.source} holds dates or times ({table.words(name)[known][0]!r}), "
            "which cannot be predicted; replace them by numbers, such as days since the start."
        )
    if not known.any():
        raise TableError(
            f"the target {name!r} of {table.source} is empty in all rows; choose another column."
        )
    values = None if table.has_truth(name) else table.numbers_or_none(name)  # true and false are words
    numeric = None if values is None else values[known]
    whole = numeric is not None and bool((numeric == np.floor(numeric)).all())
    labels: list[Any] = np.unique(table.words(name)[known] if numeric is None else numeric).tolist()
    different, rows = len(labels), int(known.sum())
    if task is None and numeric is None:
        table.refuse_mistakes(name)
    found, reason = (task, "as asked") if task is not None else _decided(labels, numeric, whole)
    if found == "regression":
        _require_numbers(table, name, numeric)
    if different == 1:
        raise TableError(
            f"the target {name!r} has one value only, {_word(labels[0])!r}; there is nothing to learn, "
            "choose another column."
        )
    if found == "classification" and different > min(MOST_CLASSES, rows // 2):
        raise TableError(
            f"the target {name!r} has {different} different values in {rows} rows, too many to be "
            "classes; choose another column, or correct it if it should hold numbers."
        )
    return Target(name, found, found == "classification" and whole), reason


def _word(label: Any) -> str:
    return label if isinstance(label, str) else spelled(label)


def _require_numbers(table: Table, name: str, numeric: Floats | None) -> None:
    if numeric is None:
        strange = next(iter(table.odd_words(name, table.readable(name))))
        raise TableError(
            f"the target {name!r} has {strange!r}, which is not a number; correct it, mark it as missing "
            f"(--missing {strange!r}), or use --task classification."
        )
    if np.abs(numeric).max() > LARGEST:
        raise TableError(
            f"the target {name!r} has the number {numeric[np.abs(numeric).argmax()]:g}, whose square is too "
            "large to compute with; divide the column by a large number, or correct it."
        )


def _decided(labels: list[Any], numeric: Floats | None, whole: bool) -> tuple[str, str]:
    """Choose classes for words, two values, or at most 10 whole numbers that each occur often."""
    if len(labels) == 2:
        return "classification", f"the target has two values, {' and '.join(map(_word, labels))}"
    if numeric is None:
        return "classification", "the target has words"
    if whole and len(labels) <= 10 and len(numeric) >= 5 * len(labels):
        reason = f"the target has {len(labels)} different whole numbers; as a number: --task regression"
        return "classification", reason
    return "regression", "the target has numbers"
