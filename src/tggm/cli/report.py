"""`tggm report`: one page about a model and how it does on rows whose targets are known."""

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tggm.cli import options
from tggm.cli.errors import CommandError
from tggm.cli.files import STREAM, check_output, say, write_result

if TYPE_CHECKING:
    from tggm.cli.inputs import ModelInputs
    from tggm.tables import Preparation, Table


MOST_DIGITS = 12  # of a number in the table of the worst rows


def report(
    model: options.Model,
    data: options.Data,
    output: Annotated[str, options.written("Page to write; - is standard output.")] = "report.html",
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    interval: Annotated[float, typer.Option(help="Probability of the intervals shown.")] = 0.9,
    strict: options.Strict = False,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a page about a model and how it does.

    What it is, how good, how calibrated, its worst rows, what moves it. The page is one HTML file that needs
    no network. Judge on rows that the model was not fitted to, as tggm fit --test-output writes them.
    """
    check_output(output, force, model, data)
    if not 0 < interval < 1:
        raise CommandError(f"--interval is a probability between 0 and 1, as 0.9; got {interval:g}.")
    from tggm.cli.inputs import read_inputs
    from tggm.report import render_report

    given = read_inputs(
        model, data, delimiter, decimal, encoding, sheet, strict=strict, quiet=quiet, targets=True
    )
    names = described(given.preparation, given.table)
    names |= {
        "provenance": provenance(given, model),
        "progress": None if quiet else lambda text: say(f"  {text}"),
    }
    write_result(output, render_report(given.model, given.X, given.y, title=title, level=interval, **names))
    if not quiet and output != STREAM:
        print(f"{len(given.table)} rows of {given.table.source} reported in {output}")


def provenance(given: "ModelInputs", model: str) -> list[tuple[str, str]]:
    """Where model and rows come from, what was left out and what was filled."""
    preparation, fitted = given.preparation, given.preparation.fitted
    pairs = [("model", model)]
    if fitted is not None:
        pairs.append(("fitted to", f"{fitted.rows} rows of {fitted.source}, seed {fitted.seed}"))
    pairs.append(("judged on", f"{len(given.table)} rows of {given.table.source}"))
    pairs.append(("date of this page", datetime.now(UTC).strftime("%Y-%m-%d")))
    pairs.append(("columns used", ", ".join(column.name for column in preparation.columns)))
    left = "; ".join(f"{name}: {why}" for name, why in preparation.left_out)
    pairs.append(("columns left out", left or "none"))
    return [*pairs, ("notes on these rows", "; ".join(given.notes) or "none")]


def described(preparation: "Preparation", table: "Table") -> dict[str, Any]:
    """What a page should call things: features, target, rows, and the columns that a person knows."""
    return {
        "feature_names": preparation.feature_names,
        "target_name": preparation.target.name,
        "baselines": preparation.baselines,
        "groups": preparation.groups,
        "parts": preparation.parts,
        "row_numbers": [table.row_number(row) for row in range(len(table))],
        "shown": shown(preparation, table),
    }


def shown(preparation: "Preparation", table: "Table") -> dict[str, list[Any]]:
    """The columns of a table but the target: those that the model sees first, as numbers or words."""
    seen = {column.name: column.categories for column in preparation.columns}
    others = [name for name in table.names if name not in seen and name != preparation.target.name]

    def cells(name: str) -> list[Any]:  # numbers as they stand in the table, sorted by their value
        words = ["" if word is None else word for word in table.words(name)]
        numbers = table.numbers_or_none(name)
        if seen.get(name, True) or numbers is None:  # it has categories, or the model does not see it
            return words
        values = zip(words, numbers.tolist(), strict=True)
        return [(_short(word, value), None if math.isnan(value) else value) for word, value in values]

    return {name: cells(name) for name in (*seen, *others)}


def _short(word: str, value: float) -> str:
    """A number as it stands in the table, less the digits that nobody reads."""
    return word if len(word) <= MOST_DIGITS else f"{value:.6g}"
