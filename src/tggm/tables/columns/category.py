"""A column of few different words: indicators."""

from dataclasses import dataclass

import numpy as np

from tggm.arrays import Floats, Ints
from tggm.tables.columns.base import Column, none_known, rows
from tggm.tables.errors import TableError
from tggm.tables.table import Table
from tggm.tables.words import Words

OTHER, MISSING = "(other)", "(missing)"


@dataclass(frozen=True)
class Category(Column):
    """A column of words: a column of zeros and ones for each level, for all rare ones together, for gaps."""

    name: str
    levels: tuple[str, ...]
    other: bool
    missing: bool

    def __post_init__(self) -> None:
        if not self.levels or len(set(self.levels)) < len(self.levels):
            raise ValueError("the levels of a category must be different words")

    @classmethod
    def of(cls, table: Table, name: str, levels: tuple[str, ...]) -> "Category":
        """Learn from a table; `levels` are those that get a column of their own."""
        different = set(table.words(name).tolist())
        return cls(name, levels, bool(different - {*levels, None}), None in different)

    @property
    def categories(self) -> tuple[str, ...]:
        """What each of the columns that the model sees stands for."""
        return (*self.levels, *[OTHER] * self.other, *[MISSING] * self.missing)

    @property
    def features(self) -> list[str]:
        """Names of the columns that the model sees."""
        return [f"{self.name} = {category}" for category in self.categories]

    @property
    def description(self) -> str:
        """What a person should know of it."""
        return f"one of {', '.join([*self.levels, *['other'] * self.other, *['missing'] * self.missing])}"

    def doubt(self, table: Table) -> str:
        """Whether the model knows none of the words."""
        return none_known(self.name, self.levels, table)

    def encode(self, table: Table, notes: list[str], strict: bool = False) -> Floats:
        """The columns that the model sees, (rows, features)."""
        words = table.words(self.name)
        place = {level: k for k, level in enumerate(self.levels)}
        index = np.array([-1 if word is None else place.get(word, -2) for word in words.tolist()], dtype=int)
        self._tell(words, index, table, notes, strict)
        found = np.zeros((len(words), len(self.categories)))
        column = np.where(
            index >= 0, index, np.where(index == -2, len(self.levels), len(self.levels) + self.other)
        )
        there = (index >= 0) | ((index == -2) & self.other) | ((index == -1) & self.missing)
        found[np.flatnonzero(there), column[there]] = 1.0
        return found

    def _tell(self, words: Words, index: Ints, table: Table, notes: list[str], strict: bool) -> None:
        """Say what is not among the levels."""
        strange, gaps = index == -2, index == -1
        if strange.any():
            examples = list(dict.fromkeys(words[strange].tolist()))
            shown = ", ".join(repr(word) for word in examples[:3]) + ", ..." * (len(examples) > 3)
            if strict:
                raise TableError(
                    f"{table.source} has categories in column {self.name!r} that the model does not know "
                    f"({shown}); correct them, or leave --strict out to have them taken as other."
                )
            taken = "taken together as other" if self.other else "taken as none of the known ones"
            notes.append(f"{self.name}: {rows(strange)} with rare or unknown categories ({shown}), {taken}")
        if gaps.any():
            known = "a category of their own" if self.missing else "which the model never saw there"
            notes.append(f"{self.name}: {rows(gaps)} without a value, {known}")
