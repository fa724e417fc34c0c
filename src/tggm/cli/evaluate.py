"""`tggm evaluate`: how good a model is on rows whose targets are known."""

import json
from typing import Annotated, Any

import typer

from tggm.cli import options
from tggm.cli.files import check_output, write_result
from tggm.cli.reading import read_case


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
    """Compare predictions with what was observed.

    The scores stand beside those of a linear model and of one that sees no inputs.
    """
    check_output(output, force, model, data)
    from tggm.cli.judging import HINT, figures_table, judge, linear_wins

    case = read_case(model, data, delimiter, decimal, strict=strict, quiet=quiet, targets=True)
    target, y = case.preparation.target, case.y
    assert y is not None  # asked for
    figures = judge(case.model, case.preparation, case.X, y)
    if as_json:
        facts: dict[str, Any] = {"rows": len(y), "target": target.name, "task": target.task}
        write_result(output, json.dumps({**facts, "figures": figures, "notes": case.notes}, indent=1) + "\n")
    else:
        text = f"{target.task} of {target.name!r} on {len(y)} rows of {case.table.source}\n\n"
        hint = f"\nhint: {HINT}\n" if linear_wins(figures) else ""
        write_result(output, text + figures_table(figures) + "\n" + hint)
