"""`tggm evaluate`: how good a model is on rows whose targets are known."""

import json
from typing import Annotated, Any

import typer

from tggm.cli import options
from tggm.cli.files import check_output, write_result


def evaluate(
    model: options.Model,
    data: options.Data,
    output: options.Output = "-",
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Another figure: a scorer of scikit-learn, as f1, or quantile_loss=0.9."),
    ] = None,
    threshold: options.Threshold = None,
    strict: options.Strict = False,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Compare predictions with what was observed.

    The scores stand beside those of a linear model and of one that sees no inputs.
    """
    check_output(output, force, model, data)
    from tggm.cli.figures import figures_table, hint, judge, warnings_of
    from tggm.cli.inputs import read_inputs
    from tggm.cli.metrics import Metrics

    given = read_inputs(
        model, data, delimiter, decimal, encoding, sheet, strict=strict, quiet=quiet, targets=True
    )
    target, rows = given.preparation.target, len(given.table)
    metrics = Metrics(tuple(metric or ()), threshold, target.is_class, len(given.model.b1_[0]))
    figures = judge(given.model, given.preparation, given.X, given.y, metrics)
    drift = warnings_of(given.model, given.preparation, given.X, figures)
    if as_json:
        facts: dict[str, Any] = {"rows": rows, "target": target.name, "task": target.task}
        facts |= {"figures": figures, "notes": given.notes, "warnings": drift}
        write_result(output, json.dumps(facts, indent=1) + "\n")
    else:
        text = f"{target.task} of {target.name!r} on {rows} rows of {given.table.source}\n\n"
        more = f"\nhint: {told}\n" if (told := hint(figures)) else ""
        warned = "".join(f"\nwarning: {words}\n" for words in drift)
        write_result(output, text + figures_table(figures, metrics.names) + "\n" + more + warned)
