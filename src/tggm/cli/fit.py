"""`tggm fit`: from a table to a model file."""

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tggm.cli import options
from tggm.cli.errors import CommandError
from tggm.cli.files import STREAM, check_output, say, write_result
from tggm.cli.processes import joined

if TYPE_CHECKING:
    from tggm.cli.training import Outcome

INTERRUPTED = 130  # the exit code of a process that ended by Ctrl-C


def fit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="CSV, Parquet or Excel file, or a folder of Parquet files; - reads stdin."
        ),
    ],
    target: options.Target,
    output: Annotated[str, options.written("Model file; - is standard output.")] = "model.tggm",
    task: options.Task = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Columns not to use, as id,name; may be repeated."),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="Columns of numbers that are categories, as zip,month; may be repeated."
        ),
    ] = None,
    missing: options.Missing = None,
    test_size: Annotated[
        float, typer.Option(help="Part of the rows held out for the figures; 0 for none.")
    ] = 0.2,
    test_output: Annotated[
        str | None, typer.Option(help="CSV file for the held-out rows, for tggm report and evaluate.")
    ] = None,
    method: Annotated[str, typer.Option(help="moments, ep, exact, meanfield or bp.")] = "moments",
    hidden: Annotated[str | None, typer.Option(help="Hidden units, as 50; layers, as 100,100.")] = None,
    members: Annotated[int | None, typer.Option(help="Networks in the ensemble.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Largest number of passes over the rows.")] = None,
    deep: Annotated[str | None, typer.Option(help="Form of several layers: directed or undirected.")] = None,
    features: Annotated[
        str | None, typer.Option(help="What is seen of a column: periodic, bounded or none.")
    ] = None,
    calibrate: Annotated[
        bool | None,
        typer.Option(help="Let held-out rows decide how networks are pooled.", show_default="yes"),
    ] = None,
    time: Annotated[float | None, typer.Option(metavar="SECONDS", help="End training after so long.")] = None,
    class_weight: Annotated[
        str | None, typer.Option(help="balanced: rows of rare classes count more.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of the estimator; repeatable."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look: fewer networks, shorter training.")
    ] = False,
    guarantee: Annotated[
        float | None, typer.Option(help="Highest level of intervals that must hold, as 0.9; sets rows aside.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a fit that was interrupted.")] = False,
    distributed: Annotated[
        bool, typer.Option("--distributed", help="Share the fit with the same command in other processes.")
    ] = False,
    coordinator: Annotated[
        str | None, typer.Option(help="HOST:PORT of process 0; detected on clusters that JAX knows.")
    ] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Number of processes.")] = None,
    process_id: Annotated[int | None, typer.Option(min=0, help="Number of this process, from 0.")] = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Fit a model to a table and write it to a file.

    The target decides between regression and classification. Words become categories and gaps are filled;
    notes say how. Some rows are held out, to measure how good the model is.
    """
    first = joined(distributed, coordinator, processes, process_id, STREAM in (data, output))
    quiet = quiet or not first
    for path in filter(None, (output, test_output)) if first else ():
        check_output(path, force or resume, data)
    check_words(task, decimal, target)
    from tggm.cli.training import Watch, fit_folder, fit_table
    from tggm.cli.wish import Wish
    from tggm.files import model_file
    from tggm.tables import read_table
    from tggm.training.checkpoints import remove_checkpoints

    gaps = tuple(missing or ())
    given: dict[str, Any] = {"deep": deep, "features": "None" if features == "none" else features}
    given |= {"calibrate": calibrate, "time_budget": time}
    named = [f"{name}={value}" for name, value in given.items() if value is not None]
    wish = Wish(
        target[0], task, method, layers(hidden), members, epochs, seed, test_size,
        tuple(ignore or ()), tuple(categorical or ()), gaps, quick, class_weight, (*named, *(setting or ())),
        guarantee,
    )  # fmt: skip
    checkpoint = None if output == STREAM else f"{output}.checkpoint"
    watch = Watch(quiet, checkpoint, resume)
    if os.path.isdir(data):
        outcome = fit_folder(data, wish, watch)
    else:
        table = read_table(
            data, delimiter=delimiter, decimal=decimal, missing=gaps, encoding=encoding, sheet=sheet
        )
        outcome = fit_table(table, wish, watch)
    if not first:
        return
    write_result(output, model_file(outcome.model, outcome.preparation))
    if test_output is not None and outcome.test is not None:
        from tggm.cli.formats import csv_text

        write_result(test_output, csv_text({name: outcome.test.words(name) for name in outcome.test.names}))
    _tell(outcome, output, as_json, quiet)
    if checkpoint is not None and not outcome.interrupted:
        remove_checkpoints(checkpoint)  # not before the model is written
    if outcome.interrupted:
        if not quiet:
            say("interrupted: the best model so far is written; go on with the same command and --resume")
        raise typer.Exit(INTERRUPTED)


def layers(text: str | None) -> tuple[int, ...] | None:
    """Hidden units of each layer, as --hidden has them."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise CommandError(
            f"--hidden is a number of units, or one for each layer as 100,100; got {text!r}."
        ) from None


def check_words(task: str | None, decimal: str, target: list[str]) -> None:
    """Raise for words that are none of those that an option takes."""
    if len(target) > 1:
        raise CommandError(
            f"--target is one column; got {', '.join(map(repr, target))}. Fit each by itself, and keep the "
            f"others out of its inputs: --ignore {target[1]!r}."
        )
    if task not in (None, "regression", "classification"):
        raise CommandError(f"--task is regression or classification; got {task!r}.")
    if decimal not in (".", ","):
        raise CommandError(f"--decimal is a point or a comma; got {decimal!r}.")


def _tell(outcome: "Outcome", output: str, as_json: bool, quiet: bool) -> None:
    """The summary: to standard output, unless the model went there."""
    text = json.dumps(_facts(outcome, output), indent=1) if as_json else _summary(outcome, output)
    if output == STREAM:
        if not quiet:
            say(text)
    elif as_json or not quiet:
        print(text)


def _facts(outcome: "Outcome", output: str) -> dict[str, Any]:
    model, preparation, fitted = outcome.model, outcome.preparation, outcome.preparation.fitted
    assert fitted is not None
    return {
        "model": output,
        "task": preparation.target.task,
        "target": preparation.target.name,
        "rows": fitted.rows,
        "held_out": fitted.held_out,
        "columns": [column.name for column in preparation.columns],
        "features": len(preparation.feature_names),
        "settings": {
            "method": model.method,
            "hidden": list(model.layers_),
            "members": model.n_members,
            "seed": model.random_state,
        },
        "epochs": model.n_iter_,
        "seconds": round(fitted.seconds, 3),
        "interrupted": outcome.interrupted,
        "figures": fitted.figures,
        "notes": outcome.notes,
    }


def _summary(outcome: "Outcome", output: str) -> str:
    from tggm.cli.figures import figures_table, hint

    model, preparation, fitted = outcome.model, outcome.preparation, outcome.preparation.fitted
    assert fitted is not None
    numbers = len(preparation.columns) - len(preparation.groups)
    units = "-".join(str(size) for size in model.layers_)
    members = f"{model.n_members} member{'s' * (model.n_members > 1)}"
    lines = [
        "",
        f"data      {fitted.source}: {fitted.rows} rows to learn from; inputs: {numbers} numeric, "
        f"{len(preparation.groups)} categorical",
        f"model     {type(model).__name__}, method {model.method}, {units} hidden units, "
        f"{members}, {model.n_iter_} epochs, {fitted.seconds:.1f} s",
    ]
    if fitted.figures:
        lines += [f"figures   on {fitted.held_out} rows that were held out:", ""]
        lines += ["  " + line for line in figures_table(fitted.figures).splitlines()]
        lines += ["", f"hint      {told}"] if (told := hint(fitted.figures)) else []
    else:
        lines.append("figures   none yet: all rows were learned from; judge on others with tggm evaluate")
    return "\n".join([*lines, "", f"written   {output}"])
