"""From a table to the numbers a model sees, the same way every time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.tables.baselines import Baselines
from tggm.tables.columns import Category, Number
from tggm.tables.errors import TableError
from tggm.tables.kinds import kind_of
from tggm.tables.table import Table
from tggm.tables.target import Target

Figures = dict[str, dict[str, float]]  # who ("model", "linear", "naive") -> measure -> value


@dataclass(frozen=True)
class FitRecord:
    """What is known of the fit that made a model: where from, how many rows, how good on held-out rows."""

    source: str
    rows: int
    held_out: int
    seed: int
    seconds: float
    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True)
class Preparation:
    """How the columns of a table become the inputs and the target of a model."""

    columns: tuple[Number | Category, ...]
    target: Target
    left_out: tuple[tuple[str, str], ...] = ()  # name and reason
    gaps: tuple[str, ...] = ()  # words that mean a gap, besides the usual ones
    baselines: Baselines | None = None
    fitted: FitRecord | None = None

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns that the model sees."""
        return [name for column in self.columns for name in column.features]

    @property
    def groups(self) -> dict[str, dict[str, int]]:
        """The features of each column of words: what each stands for, and its number."""
        found, begin = {}, 0
        for column in self.columns:
            found[column.name] = {word: begin + k for k, word in enumerate(column.categories)}
            begin += len(column.features)
        return {name: group for name, group in found.items() if group}

    def features(self, table: Table, notes: list[str] | None = None, *, strict: bool = False) -> Floats:
        """Inputs of a model, shape (rows, features); what had to be filled or pooled is added to `notes`."""
        notes = [] if notes is None else notes
        table.require([column.name for column in self.columns])
        return np.concatenate([column.encode(table, notes, strict) for column in self.columns], axis=1)

    def targets(self, table: Table) -> NDArray[Any]:
        """The target of each row, all of which must have one (`Target.known` says which do)."""
        return self.target.values(table)


def prepare(
    table: Table,
    target: Target,
    *,
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
    gaps: Sequence[str] = (),
) -> Preparation:
    """Learn from a table (the rows to be trained on) how its columns become numbers.

    Parameters
    ----------
    table : Table
    target : Target
        As `choose_target` found it.
    ignore : sequence of str
        Columns that are not to be used.
    categorical : sequence of str
        Columns to be taken as categories though they hold numbers.
    gaps : sequence of str
        Words that were read as gaps, besides the usual ones.
    """
    table.require([*ignore, *categorical])
    columns: list[Number | Category] = []
    left_out: list[tuple[str, str]] = [(name, "as asked") for name in ignore]
    for name in table.names:
        if name == target.name or name in ignore:
            continue
        kind = kind_of(table, name, categorical=name in categorical)
        if kind.name == "useless":
            left_out.append((name, kind.reason))
        else:
            columns.append((Number if kind.name == "number" else Category).of(table, name))
    if not columns:
        raise TableError(
            f"{table.source} has no column to predict {target.name!r} from; each is empty, constant, or text "
            "that does not repeat."
        )
    return Preparation(tuple(columns), target, tuple(left_out), tuple(gaps))
