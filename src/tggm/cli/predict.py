"""`tggm predict`: from a model file and a table to predictions that say how sure they are."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tggm.cli import options
from tggm.cli.errors import CommandError
from tggm.cli.files import STREAM, check_output, say, write_result

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tggm.cli.inputs import ModelInputs
    from tggm.tables import Table


def predict(
    model: options.Model,
    data: options.Data,
    output: Annotated[str, options.written("CSV or .parquet file; - is CSV on standard output.")] = "-",
    interval: Annotated[float, typer.Option(help="Probability of the interval of a regression.")] = 0.9,
    quantiles: Annotated[
        str | None, typer.Option(help="Quantiles of a regression, as 0.05,0.5,0.95.")
    ] = None,
    parts: Annotated[
        bool, typer.Option("--parts", help="Columns for noise and disagreement of a regression.")
    ] = False,
    guarantee: Annotated[
        bool, typer.Option("--guarantee", help="Interval that holds whatever the data; see tggm fit.")
    ] = False,
    threshold: options.Threshold = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Columns for what each input adds to the prediction.")
    ] = False,
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Copy the columns of DATA in front; the target as NAME_observed.")
    ] = False,
    strict: options.Strict = False,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Predict each row of a table.

    A regression gives mean, standard deviation, a central interval and, if asked for, quantiles and the two
    parts of the deviation; a classification gives the most probable class and the probability of each. With
    --explain, a base and a part for each input column add up to the mean, or to the class's probability.
    """
    check_output(output, force, model, data)
    levels = checked_levels(interval, quantiles)
    from tggm.cli.formats import csv_text, json_text, parquet_bytes
    from tggm.cli.inputs import read_inputs
    from tggm.cli.predictions import Asked, explained_columns, predicted

    given = read_inputs(model, data, delimiter, decimal, encoding, sheet, strict=strict, quiet=quiet)
    table = given.table
    asked = Asked(interval, levels, parts, guarantee, checked_threshold(threshold, given))
    columns = predicted(given.model, given.preparation, given.X, asked)
    if explain:
        columns |= explained_columns(given, threshold)
    if inputs:
        observed = {name: f"{name}_observed" if name in columns else name for name in table.names}
        plain = as_json or output.endswith(".parquet")
        copied = {observed[name]: copied_column(table, name, plain) for name in table.names}
        columns = copied | columns
    if as_json:
        write_result(output, json_text(columns))
    else:
        write_result(output, parquet_bytes(columns) if output.endswith(".parquet") else csv_text(columns))
    if output != STREAM and not quiet:
        say(f"{len(table)} predictions written to {output}, in the order of the rows")


def checked_threshold(threshold: float | None, given: "ModelInputs") -> float | None:
    """The threshold, if there is one, for a model of two classes."""
    from tggm.cli.metrics import require_threshold

    if threshold is not None:
        require_threshold(threshold, given.preparation.target.is_class, len(given.model.b1_[0]))
    return threshold


def copied_column(table: "Table", name: str, plain: bool) -> "NDArray[Any]":
    """A column as it was read: numbers for programs, words with all their digits for people."""
    column = table.columns[name]
    return column if plain and column.dtype.kind == "f" else table.words(name)


def checked_levels(interval: float, quantiles: str | None) -> list[float]:
    """The quantiles asked for, each strictly between 0 and 1, as the interval must be."""
    if not 0 < interval < 1:
        raise CommandError(f"--interval is a probability, as 0.9; got {interval:g}.")
    try:
        levels = [float(word) for word in (quantiles or "").split(",") if word.strip()]
    except ValueError:
        levels = [-1.0]
    if not all(0 < level < 1 for level in levels):
        raise CommandError(f"--quantiles are probabilities, as 0.05,0.5,0.95; got {quantiles!r}.")
    return levels
