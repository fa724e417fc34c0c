"""What every kind of column can do."""

from abc import ABC, abstractmethod

from tggm.arrays import Bools, Floats
from tggm.tables.outcomes import Outcomes
from tggm.tables.table import Table


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

    def encode_learned(self, table: Table, outcome: Outcomes | None, encoded: Floats) -> Floats:
        """What `encode` gave of rows that were learned from, changed such that none tells its own target."""
        return encoded


def rows(chosen: Bools) -> str:
    """So many rows, in words."""
    count = int(chosen.sum())
    return f"{count} row{'s' * (count != 1)}"
