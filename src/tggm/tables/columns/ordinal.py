"""A column of grades: categories with an order."""

from dataclasses import dataclass

import numpy as np

from tggm.arrays import Floats
from tggm.tables.columns.base import Column, none_known, rows
from tggm.tables.errors import TableError
from tggm.tables.table import Table


@dataclass(frozen=True)
class Ordinal(Column):
    """The place of each grade among all, from 0; a gap becomes the median and is told to the model."""

    name: str
    levels: tuple[str, ...]  # from the lowest to the highest
    fill: float
    indicator: bool

    def __post_init__(self) -> None:
        if not self.levels or len(set(self.levels)) < len(self.levels):
            raise ValueError("the levels of a category must be different words")

    @classmethod
    def of(cls, table: Table, name: str, levels: tuple[str, ...]) -> "Ordinal":
        """Learn from a table."""
        places = cls(name, levels, 0.0, False)._places(table)
        known = places[~np.isnan(places)]
        return cls(name, levels, float(np.median(known)) if len(known) else 0.0, len(known) < len(places))

    @property
    def features(self) -> list[str]:
        """Names of the columns that the model sees."""
        return [self.name, *[f"{self.name} is missing"] * self.indicator]

    @property
    def description(self) -> str:
        """What a person should know of it."""
        return f"grade from {self.levels[0]} to {self.levels[-1]}"

    def doubt(self, table: Table) -> str:
        """Whether the model knows none of the words."""
        return none_known(self.name, self.levels, table)

    def encode(self, table: Table, notes: list[str], strict: bool = False) -> Floats:
        """The columns that the model sees, (rows, features)."""
        places = self._places(table)
        unknown = np.isnan(places) & table.known(self.name)
        if unknown.any():
            example = table.words(self.name)[unknown][0]
            if strict:
                raise TableError(
                    f"{table.source} has {example!r} in column {self.name!r}, which is none of its grades; "
                    "correct it, or leave --strict out to have it taken as a gap."
                )
            notes.append(f"{self.name}: {rows(unknown)} with unknown grades ({example!r}), taken as gaps")
        gaps = np.isnan(places)
        parts = [np.where(gaps, self.fill, places), *[gaps] * self.indicator]
        return np.stack(parts, axis=1).astype(np.float64)

    def _places(self, table: Table) -> Floats:
        place = {level: float(k) for k, level in enumerate(self.levels)}
        words = table.words(self.name).tolist()
        return np.array([np.nan if word is None else place.get(word, np.nan) for word in words])
