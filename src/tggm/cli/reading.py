"""What predict, evaluate and report begin with: a model, and the rows of a table as it sees them."""

from typing import TYPE_CHECKING, Any, NamedTuple

from tggm.cli.files import read_model, say

if TYPE_CHECKING:
    import numpy as np

    from tggm.tables import Preparation, Table


class Case(NamedTuple):
    """A model and rows for it."""

    model: Any
    preparation: "Preparation"
    table: "Table"
    X: "np.ndarray"
    y: "np.ndarray | None"  # where targets were asked for
    notes: list[str]


def read_case(
    model: str, data: str, delimiter: str | None, decimal: str, *, strict: bool, quiet: bool, targets: bool
) -> Case:
    """Read both files and say what had to be done; with `targets`, only the rows that have one."""
    from tggm.cli.judging import labelled
    from tggm.tables import read_table

    fitted, preparation = read_model(model, data)
    table = read_table(data, delimiter=delimiter, decimal=decimal, missing=preparation.gaps)
    notes: list[str] = []
    y = None
    if targets:
        table, y = labelled(fitted, preparation, table, notes)
    X = preparation.features(table, notes, strict=strict)
    if not quiet:
        for note in notes:
            say(f"note: {note}")
    return Case(fitted, preparation, table, X, y, notes)
