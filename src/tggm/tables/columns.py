"""How one column becomes numbers, learned from the rows that a model is trained on."""

from dataclasses import dataclass

import numpy as np

from tggm.arrays import Bools, Floats, Ints
from tggm.tables.errors import TableError
from tggm.tables.kinds import levels_of
from tggm.tables.table import Table, Words

OTHER, MISSING = "(other)", "(missing)"


@dataclass(frozen=True)
class Number:
    """A column of numbers; a gap becomes the median, and a column of its own says so if there were any."""

    name: str
    fill: float
    indicator: bool
    categories = ()

    @classmethod
    def of(cls, table: Table, name: str) -> "Number":
        """Learn from a table."""
        values = table.numbers(name)
        gaps = np.isnan(values)
        return cls(name, float(np.median(values[~gaps])), bool(gaps.any()))

    @property
    def features(self) -> list[str]:
        """Names of the columns that the model sees."""
        return [self.name, f"{self.name} is missing"] if self.indicator else [self.name]

    @property
    def description(self) -> str:
        """What a person should know of it."""
        return f"number; gaps become {self.fill:g}, and are told to the model" if self.indicator else "number"

    def encode(self, table: Table, notes: list[str], strict: bool = False) -> Floats:
        """The columns that the model sees, (rows, features)."""
        values = table.numbers(self.name)
        gaps = np.isnan(values)
        if gaps.any():
            if strict and not self.indicator:
                raise TableError(
                    f"{table.source} has gaps in column {self.name!r}, where the model saw none; fill them, "
                    "or leave --strict out to have them filled with the median."
                )
            known = "" if self.indicator else ", though the model saw no gaps there"
            notes.append(
                f"{self.name}: {_rows(gaps)} without a value, filled with the median {self.fill:g}{known}"
            )
        filled = np.where(gaps, self.fill, values)
        parts = [filled, gaps.astype(np.float64)] if self.indicator else [filled]
        return np.stack(parts, axis=1)


@dataclass(frozen=True)
class Category:
    """A column of words: a column of zeros and ones for each level, for all rare ones together, for gaps."""

    name: str
    levels: tuple[str, ...]
    other: bool
    missing: bool

    def __post_init__(self) -> None:
        if not self.levels or len(set(self.levels)) < len(self.levels):
            raise ValueError("the levels of a category must be different words")

    @classmethod
    def of(cls, table: Table, name: str) -> "Category":
        """Learn from a table."""
        different = set(table.words(name).tolist())
        levels = levels_of(table.words(name))
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

    def encode(self, table: Table, notes: list[str], strict: bool = False) -> Floats:
        """The columns that the model sees, (rows, features)."""
        words = table.words(self.name)
        place = {level: k for k, level in enumerate(self.levels)}
        index = np.array([-1 if word is None else place.get(word, -2) for word in words.tolist()])
        self._tell(words, index, table, notes, strict)
        parts = [index == k for k in range(len(self.levels))]
        parts += [index == -2] * self.other + [index == -1] * self.missing
        return np.stack(parts, axis=1).astype(np.float64)

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
            notes.append(f"{self.name}: {_rows(strange)} with rare or unknown categories ({shown}), {taken}")
        if gaps.any():
            known = "a category of their own" if self.missing else "which the model never saw there"
            notes.append(f"{self.name}: {_rows(gaps)} without a value, {known}")


def _rows(chosen: Bools) -> str:
    count = int(chosen.sum())
    return f"{count} row{'s' * (count != 1)}"
