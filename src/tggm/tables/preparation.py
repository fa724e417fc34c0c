"""From a table to the numbers a model sees, the same way every time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.tables.baselines import Baselines
from tggm.tables.columns import Column
from tggm.tables.errors import TableError
from tggm.tables.kinds import found_column
from tggm.tables.outcomes import Outcomes
from tggm.tables.repeats import repetition
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
        return learned_features(self.columns, table, Outcomes.of(y, self.target.is_class), features)

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
    found = learned(inputs, y, target.is_class, ignore=ignore, categorical=categorical, many=many)
    if not found.columns:
        left = "".join(f"; {name}: {why}" for name, why in found.left_out[:3])
        raise TableError(
            f"{table.source} has no column to predict {target.name!r} from; each is empty, constant, or text "
            f"that does not repeat{left}."
        )
    names = tuple(inputs.names)
    return Preparation(found.columns, target, found.left_out, tuple(gaps), names, notes=found.notes)


def learned_features(
    columns: Sequence[Column], table: Table, outcome: Outcomes | None, features: Floats
) -> Floats:
    """Features as rows that were learned from should have them."""
    ends = np.cumsum([len(column.features) for column in columns])[:-1]
    pairs = zip(columns, np.split(features, ends, axis=1), strict=True)
    return np.concatenate([c.encode_learned(table, outcome, part) for c, part in pairs], axis=1)


class LearnedColumns(NamedTuple):
    """Columns of inputs, those left out with the reason, and notes for the user."""

    columns: tuple[Column, ...]
    left_out: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def learned(
    table: Table,
    y: NDArray[Any] | None,
    is_class: bool,
    *,
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
    many: bool = True,
) -> LearnedColumns:
    """Learn what each column of inputs is; TableError that names all columns with mistakes in them."""
    table.require([*ignore, *categorical])
    outcome = None if y is None else Outcomes.of(y, is_class)
    columns: list[Column] = []
    left_out = [(name, "as asked") for name in ignore]
    notes, wrong = [], []
    for name in table.names:
        if name in ignore:
            continue
        found = found_column(table, name, outcome, categorical=name in categorical, many=many)
        gives = "" if y is None or found.column is None else repetition(table, name, y, is_class)
        if found.mistake:
            wrong.append(found.mistake)
        elif found.column is None:
            left_out.append((name, found.useless))
        elif gives == "repeats":
            left_out.append((name, "it repeats the target"))
        else:
            columns.append(found.column)
            notes += [f"{name}: the target is a multiple of it; is it known beforehand?"] * (gives == "tells")
            notes += [found.note] * bool(found.note)
    if wrong:
        raise TableError("; ".join(wrong) + ".")
    return LearnedColumns(tuple(columns), tuple(left_out), tuple(notes))
