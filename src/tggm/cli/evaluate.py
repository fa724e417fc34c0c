"""`tggm evaluate`: how good a model is on rows whose targets are known."""

import json
from typing import Annotated

import typer

from tggm.cli import options
from tggm.cli.files import check_output, read_model, say, write_result


def evaluate(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where to write; - is standard output.")
    ] = "-",
    strict: options.Strict = False,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = ".",
    force: options.Force = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Compare predictions with what was observed, beside a linear model and one that sees no inputs."""
    check_output(output, force, model, data)
    from tggm.cli.judging import HINT, figures_table, judge, labelled, linear_wins
    from tggm.tables import read_table

    fitted, preparation = read_model(model, data)
    table = read_table(data, delimiter=delimiter, decimal=decimal, missing=preparation.gaps)
    notes: list[str] = []
    table, y = labelled(fitted, preparation, table, notes)
    X = preparation.features(table, notes, strict=strict)
    if not quiet:
        for note in notes:
            say(f"note: {note}")
    figures = judge(fitted, preparation, X, y)
    if as_json:
        facts = {"rows": len(y), "target": preparation.target.name, "task": preparation.target.task}
        write_result(output, json.dumps({**facts, "figures": figures, "notes": notes}, indent=1) + "\n")
    else:
        text = (
            f"{preparation.target.task} of {preparation.target.name!r} on {len(y)} rows of {table.source}\n\n"
        )
        hint = f"\nhint: {HINT}\n" if linear_wins(figures) else ""
        write_result(output, text + figures_table(figures) + "\n" + hint)
