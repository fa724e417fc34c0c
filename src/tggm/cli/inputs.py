"""What predict, evaluate and report begin with: a model, and the rows of a table as it sees them."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.cli.errors import CommandError
from tggm.cli.files import read_model, say
from tggm.tables import Preparation, Table, read_table

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


class ModelInputs(NamedTuple):
    """A model and rows for it."""

    model: "BaseEstimator"
    preparation: Preparation
    table: Table
    X: Floats
    y: NDArray[Any]  # empty where targets were not asked for
    notes: list[str]


def read_inputs(
    model: str,
    data: str,
    delimiter: str | None,
    decimal: str,
    encoding: str | None = None,
    sheet: str | None = None,
    *,
    strict: bool,
    quiet: bool,
    targets: bool = False,
) -> ModelInputs:
    """Read both files and say what had to be done; with `targets`, only the rows that have one."""
    fitted, preparation = read_model(model, data)
    table = read_table(
        data,
        delimiter=delimiter,
        decimal=decimal,
        missing=preparation.gaps,
        encoding=encoding,
        sheet=sheet,
    )
    notes: list[str] = []
    y: NDArray[Any] = np.empty(0)
    if targets:
        table, y = labelled(fitted, preparation, table, notes)
    X = preparation.features(table, notes, strict=strict)
    if not quiet:
        for note in notes:
            say(f"note: {note}")
    return ModelInputs(fitted, preparation, table, X, y, notes)


def labelled(
    model: "BaseEstimator", preparation: Preparation, table: Table, notes: list[str]
) -> tuple[Table, NDArray[Any]]:
    """The rows of a table that have a target, and their targets; classes must be known to the model."""
    target = preparation.target
    table.require([target.name])
    known = target.known(table)
    if not known.any():
        raise CommandError(
            f"the target {target.name!r} of {table.source} is empty in all rows; nothing to compare."
        )
    if not known.all():
        notes.append(f"{target.name}: {int((~known).sum())} rows without a target left out")
    table = table.take(known)
    y = preparation.targets(table)
    if target.is_class:
        strange = ~np.isin(y, model.classes_)
        if strange.any():
            shown = ", ".join(repr(label) for label in np.unique(y[strange])[:3].tolist())
            raise CommandError(
                f"{table.source} has classes of {target.name!r} that the model does not know ({shown}); "
                "leave those rows out, or fit again with them."
            )
    return table, y
