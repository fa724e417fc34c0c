"""From a table to the numbers a model sees, the same way every time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.tables.baselines import Baselines
from tggm.tables.columns import Column, encode_training
from tggm.tables.errors import TableError
from tggm.tables.kinds import learn_columns
from tggm.tables.table import Table
from tggm.tables.target import Target
from tggm.tables.target_encoding import Outcomes

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

    columns: tuple[Column, ...]
    target: Target
    left_out: tuple[tuple[str, str], ...] = ()  # name and reason
    gaps: tuple[str, ...] = ()  # words that mean a gap, besides the usual ones
    names: tuple[str, ...] = ()  # of all columns of inputs, in order
    named: bool = True  # false for the columns of an array
    notes: tuple[str, ...] = ()  # what was said when it was learned
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

    @property
    def parts(self) -> dict[str, tuple[int, ...]]:
        """The numbers of the features of each other column that has several: ranks, gaps, marks, seasons."""
        found, begin = {}, 0
        for column in self.columns:
            count = len(column.features)
            if count > 1 and not column.categories:
                found[column.name] = tuple(range(begin, begin + count))
            begin += count
        return found

    def features(self, table: Table, notes: list[str] | None = None, *, strict: bool = False) -> Floats:
        """Inputs of a model, shape (rows, features); what had to be filled or pooled is added to `notes`."""
        notes = [] if notes is None else notes
        table.require([column.name for column in self.columns])
        return np.concatenate([column.encode(table, notes, strict) for column in self.columns], axis=1)

    def learned_features(self, table: Table, y: NDArray[Any], features: Floats) -> Floats:
        """Features of the rows that the preparation was learned from, none of which knows its own target."""
        return encode_training(self.columns, table, Outcomes.of(y, self.target.is_class), features)

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
    many: bool = True,
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
    many : bool
        Whether columns of many categories, and numbers that repeat, are seen as statistics of the target.
    """
    y = target.values(table)
    inputs = table.without(target.name)
    found = learn_columns(
        inputs, y, target.is_class, ignore=ignore, categorical=categorical, target_encoding=many
    )
    if not found.columns:
        left = "".join(f"; {name}: {why}" for name, why in found.left_out[:3])
        raise TableError(
            f"{table.source} has no column to predict {target.name!r} from; each is empty, constant, or text "
            f"that does not repeat{left}."
        )
    names = tuple(inputs.names)
    return Preparation(found.columns, target, found.left_out, tuple(gaps), names, notes=found.notes)
