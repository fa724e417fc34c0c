"""Which features belong to which column of a table."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from tggm.arrays import Floats, Ints


class ColumnMap(NamedTuple):
    """Columns as a person knows them, and the features that each becomes; one that is not used has none."""

    names: tuple[str, ...]  # of all columns
    used: Ints  # places of those with features, in the order of the features
    owner: Ints  # (features,) which of `used` each belongs to

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> Self:
        """Every column is a feature."""
        each = np.arange(len(names))
        return cls(tuple(names), each, each)

    @classmethod
    def of_widths(cls, names: Sequence[str], widths: dict[str, int]) -> Self:
        """Columns with so many features each, one after the other."""
        places = {name: k for k, name in enumerate(names)}
        used = np.array([places[name] for name in widths])
        return cls(tuple(names), used, np.repeat(np.arange(len(widths)), list(widths.values())))

    def spread(self, values: Floats, axis: int) -> Floats:
        """Values of the used columns as values of all, 0 for the others."""
        shape = list(values.shape)
        shape[axis] = len(self.names)
        found = np.zeros(shape)
        found[(slice(None),) * axis + (self.used,)] = values
        return found
