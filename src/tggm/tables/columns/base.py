"""What every kind of column can do."""

from abc import ABC, abstractmethod

from tggm.arrays import Bools, Floats
from tggm.tables.outcomes import Outcomes
from tggm.tables.table import Table

MANY = 10  # rows: in so many there should be something that the model knows


class Column(ABC):
    """A column of a table and the columns of numbers that a model sees of it."""

    name: str

    @property
    def categories(self) -> tuple[str, ...]:
        """What each of the columns that the model sees stands for, if they are indicators of categories."""
        return ()

    @property
    @abstractmethod
    def features(self) -> list[str]:
        """Names of the columns that the model sees."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What a person should know of it."""

    @abstractmethod
    def encode(self, table: Table, notes: list[str], strict: bool = False) -> Floats:
        """The columns that the model sees, (rows, features); `notes` are told what had to be filled."""

    def doubt(self, table: Table) -> str:
        """What makes rows look like those of another column, or ""; a model would answer all the same."""
        return ""

    def encode_learned(self, table: Table, outcome: Outcomes | None, encoded: Floats) -> Floats:
        """What `encode` gave of rows that were learned from, changed such that none tells its own target."""
        return encoded


def none_known(name: str, levels: tuple[str, ...], table: Table) -> str:
    """Said of a column of words of which the model knows none, if it has more than a few rows."""
    words = [word for word in table.words(name).tolist() if word is not None]
    if len(words) < MANY or not set(levels).isdisjoint(words):
        return ""
    learned = ", ".join(map(repr, levels[:3])) + ", ..." * (len(levels) > 3)
    return f"{name}: none of its {len(words)} words ({words[0]!r}, ...) is known; the model learned {learned}"


def rows(chosen: Bools) -> str:
    """So many rows, in words."""
    count = int(chosen.sum())
    return f"{count} row{'s' * (count != 1)}"
