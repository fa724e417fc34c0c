"""The subcommands of `tggm`: options, the calls that do the work, and the output."""

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tggm.cli.files import (
    STREAM,
    CommandError,
    check_output,
    csv_text,
    json_text,
    parquet_bytes,
    read_model,
    require_model,
    say,
    write_json,
    write_result,
)

if TYPE_CHECKING:
    from tggm.cli.training import FitResult

INTERRUPTED = 130  # exit code after Ctrl-C
OPPONENTS = ("mean", "ridge", "hgb", "catboost", "lightgbm")  # keys of `opponents.OPPONENTS`: help is fast


def _output(what: str) -> Any:
    return typer.Option("--output", "-o", help=what)


def _names(what: str) -> Any:
    return typer.Option(metavar="NAMES", help=f"{what}; may be repeated.")


def _data(what: str) -> Any:
    return typer.Argument(metavar="DATA", help=f"{what}; - reads stdin.")


Names = list[str] | None
Data = Annotated[str, _data("CSV, Parquet or Excel file")]
DataOrFolder = Annotated[str, _data("CSV, Parquet or Excel file, or a folder of Parquet files")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="File written by tggm fit; - reads stdin.")]
Target = Annotated[list[str], typer.Option("--target", "-t", metavar="NAME", help="Column to predict.")]
Task = Annotated[str | None, typer.Option(help="regression or classification; detected by default.")]
Ignore = Annotated[Names, _names("Columns not to use, as id,name")]
Categorical = Annotated[Names, _names("Columns of numbers that are categories, as zip,month")]
Missing = Annotated[Names, typer.Option(metavar="WORD", help="Mark of a missing value; may be repeated.")]
Hidden = Annotated[str | None, typer.Option(help="Hidden units, as 50; layers, as 100,100.")]
Members = Annotated[int | None, typer.Option(help="Networks in the ensemble.")]
Epochs = Annotated[int | None, typer.Option(help="Largest number of passes over the rows.")]
Setting = Annotated[Names, typer.Option("--set", metavar="NAME=VALUE", help="Any other setting; repeatable.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer networks and shorter training.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Threshold = Annotated[float | None, typer.Option(help="Least probability of the second of two classes.")]
Delimiter = Annotated[str | None, typer.Option(help="Separator of a CSV file; detected by default.")]
Decimal = Annotated[str, typer.Option(help="Decimal point of the numbers in a CSV file.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a CSV file, as latin-1; UTF-8 is detected.")]
Sheet = Annotated[
    str | None, typer.Option(metavar="NAME", help="Sheet of an Excel file; the first if omitted.")
]
Output = Annotated[str, _output("File to write; - is standard output.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse unknown categories and new missing values.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No remarks, no progress.")]
Interval = Annotated[float, typer.Option(help="Probability of the intervals of a regression.")]


def _reading(delimiter: str | None, decimal: str, encoding: str | None, sheet: str | None) -> dict[str, Any]:
    if decimal not in (".", ","):
        raise CommandError(f"--decimal is a point or a comma; got {decimal!r}.")
    return {"delimiter": delimiter, "decimal": decimal, "encoding": encoding, "sheet": sheet}


def fit(
    data: DataOrFolder,
    target: Target,
    output: Annotated[str, _output("Model file; - is standard output.")] = "model.tggm",
    task: Task = None,
    ignore: Ignore = None,
    categorical: Categorical = None,
    missing: Missing = None,
    test_size: Annotated[float, typer.Option(help="Part of the rows held out for scores; 0 for none.")] = 0.2,
    test_output: Annotated[str | None, typer.Option(help="CSV file for the held-out rows.")] = None,
    hidden: Hidden = None,
    members: Members = None,
    epochs: Epochs = None,
    features: Annotated[str | None, typer.Option(help="periodic, bounded or none.")] = None,
    calibrate: Annotated[bool | None, typer.Option(help="Fit the pooling rule on held-out rows.")] = None,
    time: Annotated[float | None, typer.Option(metavar="SECONDS", help="End training after so long.")] = None,
    class_weight: Annotated[str | None, typer.Option(help="balanced: give rare classes more weight.")] = None,
    setting: Setting = None,
    quick: Quick = False,
    guarantee: Annotated[float | None, typer.Option(help="Level of guaranteed intervals, as 0.9.")] = None,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a fit that was interrupted.")] = False,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = None,
    sheet: Sheet = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a model to a table and write it to a file.

    The target decides between regression and classification. Words become categories and missing values are
    filled; notes say how. Some rows are held out to measure how good the model is.
    """
    for path in filter(None, (output, test_output)):
        check_output(path, force or resume, data)
    _check_choices(task, target, test_size)
    from tggm.cli.training import FitOptions, fit_folder, fit_table
    from tggm.files import model_file
    from tggm.tables import read_table
    from tggm.training.checkpoint import remove_checkpoint

    given: dict[str, Any] = {"features": "None" if features == "none" else features, "calibrate": calibrate}
    given |= {"time_budget": time, "class_weight": class_weight, "guarantee": guarantee}
    named = [f"{name}={value}" for name, value in given.items() if value is not None]
    checkpoint, gaps = None if output == STREAM else f"{output}.checkpoint", tuple(missing or ())
    options = FitOptions(
        target[0], task, _layers(hidden), members, epochs, seed, test_size, tuple(ignore or ()),
        tuple(categorical or ()), gaps, quick, (*named, *(setting or ())), quiet, checkpoint, resume,
    )  # fmt: skip
    if os.path.isdir(data):
        result = fit_folder(data, options)
    else:
        result = fit_table(
            read_table(data, missing=gaps, **_reading(delimiter, decimal, encoding, sheet)), options
        )
    write_result(output, model_file(result.model, result.baselines, result.record))
    if test_output is not None and result.test is not None:
        write_result(test_output, csv_text({name: result.test.words(name) for name in result.test.names}))
    if not quiet or (as_json and output != STREAM):
        text = json.dumps(_fit_facts(result, output), indent=1) if as_json else _fit_summary(result, output)
        (say if output == STREAM else print)(text)
    if result.model.interrupted_:
        if not quiet:
            say("interrupted: the best model so far is written; continue with the same command and --resume")
        raise typer.Exit(INTERRUPTED)
    if checkpoint is not None:
        remove_checkpoint(checkpoint)  # not before the model is written


def _layers(text: str | None) -> tuple[int, ...] | None:
    """Return the hidden units of each layer as --hidden gives them."""
    try:
        return None if text is None else tuple(int(part) for part in text.split(","))
    except ValueError:
        raise CommandError(
            f"--hidden is a number of units, or one for each layer as 100,100; got {text!r}."
        ) from None


def _check_choices(task: str | None, target: list[str], test_size: float = 0.2) -> None:
    """Raise for values that an option does not take."""
    if not 0 <= test_size < 1:
        raise CommandError(f"--test-size must be at least 0 and less than 1, as 0.2; got {test_size:g}.")
    if len(target) > 1:
        raise CommandError(
            f"--target is one column; got {', '.join(map(repr, target))}. Fit each by itself, and keep the "
            f"others out of its inputs: --ignore {target[1]!r}."
        )
    if task not in (None, "regression", "classification"):
        raise CommandError(f"--task is regression or classification; got {task!r}.")


def _fit_facts(result: "FitResult", output: str) -> dict[str, Any]:
    model, record = result.model, result.record
    settings = {"hidden": list(model.layers_), "members": model.n_members, "seed": model.random_state}
    return {
        "model": output,
        "task": result.target.task,
        "target": result.target.name,
        "rows": record.rows,
        "held_out": record.held_out,
        "columns": [column.name for column in model.table_.columns_],
        "features": len(model.table_.get_feature_names_out()),
        "settings": settings,
        "epochs": model.n_iter_,
        "seconds": round(record.seconds, 3),
        "interrupted": bool(model.interrupted_),
        "figures": record.figures,
        "notes": result.notes,
    }


def _fit_summary(result: "FitResult", output: str) -> str:
    from tggm.cli.scores import figures_table, hint

    model, record = result.model, result.record
    columns = model.table_.columns_
    words = sum(bool(column.categories) for column in columns)
    units = "-".join(str(size) for size in model.layers_)
    members = f"{model.n_members} member{'s' * (model.n_members > 1)}"
    lines = [
        "",
        f"data      {record.source}: {record.rows} rows to train on; inputs: {len(columns) - words} numeric, "
        f"{words} categorical",
        f"model     {type(model).__name__}, {units} hidden units, {members}, {model.n_iter_} epochs, "
        f"{record.seconds:.1f} s",
    ]
    if record.figures:
        lines += [f"scores    on {record.held_out} rows that were held out:", ""]
        lines += ["  " + line for line in figures_table(record.figures).splitlines()]
        lines += ["", f"hint      {advice}"] if (advice := hint(record.figures)) else []
    else:
        lines.append("scores    none: all rows were used for training; use tggm evaluate on other rows")
    return "\n".join([*lines, "", f"written   {output}"])


def predict(
    model: Model,
    data: Data,
    output: Annotated[str, _output("CSV or .parquet file; - is CSV on standard output.")] = "-",
    interval: Interval = 0.9,
    quantiles: Annotated[str | None, typer.Option(help="Levels of quantiles, as 0.05,0.5,0.95.")] = None,
    parts: Annotated[bool, typer.Option("--parts", help="Add noise and disagreement of networks.")] = False,
    guarantee: Annotated[
        bool, typer.Option("--guarantee", help="Interval with guaranteed coverage.")
    ] = False,
    threshold: Threshold = None,
    explain: Annotated[bool, typer.Option("--explain", help="Add the contribution of each input.")] = False,
    inputs: Annotated[bool, typer.Option("--inputs", help="Copy the columns of DATA in front.")] = False,
    strict: Strict = False,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = None,
    sheet: Sheet = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict each row of a table.

    A regression gives mean, standard deviation, a central interval and, on request, quantiles and the two
    parts of the deviation; a classification gives the most probable class and the probability of each. With
    --explain, a base and the contributions of the columns add up to the mean, or to the class's probability.
    """
    check_output(output, force, model, data)
    from tggm.cli.predictions import copied_columns, parse_levels, predicted_columns, read_inputs
    from tggm.cli.scores import require_threshold

    levels = parse_levels(interval, quantiles)
    given = read_inputs(
        model, data, strict=strict, quiet=quiet, **_reading(delimiter, decimal, encoding, sheet)
    )
    require_threshold(threshold, given.model)
    columns = predicted_columns(
        given, interval, levels, parts=parts, guarantee=guarantee, threshold=threshold, explain=explain
    )
    parquet = output.endswith(".parquet") and not as_json
    if inputs:
        columns = copied_columns(given.table, columns, as_json or parquet) | columns
    write_result(
        output, json_text(columns) if as_json else parquet_bytes(columns) if parquet else csv_text(columns)
    )
    if output != STREAM and not quiet:
        say(f"{len(given.table)} predictions written to {output}, in the order of the rows")


def evaluate(
    model: Model,
    data: Data,
    output: Output = "-",
    metric: Annotated[
        Names, typer.Option(help="Scorer of scikit-learn, as f1, or quantile_loss=0.9.")
    ] = None,
    threshold: Threshold = None,
    strict: Strict = False,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = None,
    sheet: Sheet = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare predictions with what was observed.

    The scores stand beside those of a linear model and of one without inputs.
    """
    check_output(output, force, model, data)
    from tggm.cli.predictions import read_inputs
    from tggm.cli.scores import Metrics, evaluate_model, figures_table, hint, warnings_of

    given = read_inputs(
        model, data, strict=strict, quiet=quiet, targets=True, **_reading(delimiter, decimal, encoding, sheet)
    )
    target, fitted, rows = given.stored.target, given.stored.fitted, len(given.table)
    metrics = Metrics(metric or (), threshold, given.model)
    figures = evaluate_model(given.model, given.stored.baselines, given.table, given.y, metrics)
    drift = warnings_of(given.model, {} if fitted is None else fitted.figures, given.table, figures)
    if as_json:
        facts: dict[str, Any] = {"rows": rows, "target": target.name, "task": target.task}
        write_json(output, facts | {"figures": figures, "notes": given.notes, "warnings": drift})
    else:
        text = f"{target.task} of {target.name!r} on {rows} rows of {given.table.source}\n\n"
        text += figures_table(figures, metrics.names) + "\n"
        text += f"\nhint: {advice}\n" if (advice := hint(figures)) else ""
        write_result(output, text + "".join(f"\nwarning: {words}\n" for words in drift))


def report(
    model: Model,
    data: Data,
    output: Annotated[str, _output("Page to write; - is standard output.")] = "report.html",
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    interval: Interval = 0.9,
    strict: Strict = False,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = None,
    sheet: Sheet = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write an HTML page about a model and its scores.

    The model, its scores, calibration, worst rows and effects, in one file that needs no network. Use rows
    that the model was not fitted to, as tggm fit --test-output writes them.
    """
    check_output(output, force, model, data)
    from tggm.cli.predictions import parse_levels, read_inputs, report_arguments
    from tggm.report import render_report

    parse_levels(interval, None)
    given = read_inputs(
        model, data, strict=strict, quiet=quiet, targets=True, **_reading(delimiter, decimal, encoding, sheet)
    )
    more = report_arguments(given, model) | {"progress": None if quiet else lambda text: say(f"  {text}")}
    page = render_report(given.model, given.table, given.y, title=title, level=interval, **more)
    write_result(output, page)
    if not quiet and output != STREAM:
        print(f"{len(given.table)} rows of {given.table.source} reported in {output}")


def info(model: Model, output: Output = "-", force: Force = False, as_json: Json = False) -> None:
    """Show what is in a model file.

    The target, the columns, how the model was fitted and its scores.
    """
    check_output(output, force, model)
    fitted, stored = read_model(model)
    from tggm.cli.scores import figures_table
    from tggm.settings import plain
    from tggm.tables import preparation_to_json

    name, target, record = type(fitted).__name__, stored.target, stored.fitted
    if as_json:
        settings = {key: plain(value) for key, value in fitted.get_params().items() if key != "checkpoint"}
        table = preparation_to_json(stored)
        del table["baselines"]  # long, and only for tggm evaluate
        facts = {"class": name, "parameters": fitted.n_parameters_, "epochs": fitted.n_iter_}
        write_json(output, facts | {"settings": settings, "table": table})
        return
    lines = [
        f"{name}: {target.task} of {target.name!r}",
        f"hidden {fitted.layers_}, {fitted.n_members} members, {fitted.n_iter_} epochs, "
        f"{fitted.n_parameters_:,} parameters",
    ]
    if target.is_class:
        lines.append("classes: " + ", ".join(map(str, fitted.classes_.tolist())))
    lines += ["", "columns:", *(f"  {column.name}: {column.description}" for column in stored.columns)]
    if stored.left_out:
        lines += ["", "left out:", *(f"  {column}: {why}" for column, why in stored.left_out)]
    if record is not None:
        seconds = f"{record.seconds:.1f} s, seed {record.seed}"
        lines += ["", f"fitted to {record.rows} rows of {record.source} in {seconds}"]
        if record.figures:
            lines += [f"on {record.held_out} held-out rows:", "", figures_table(record.figures)]
    write_result(output, "\n".join(lines) + "\n")


def compare(
    data: Data,
    target: Target,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the rows; each is predicted once.")] = 5,
    models: Annotated[str | None, typer.Option(help=f"Others; of {','.join(OPPONENTS)}.")] = None,
    output: Output = "-",
    task: Task = None,
    ignore: Ignore = None,
    categorical: Categorical = None,
    missing: Missing = None,
    hidden: Hidden = None,
    members: Members = None,
    epochs: Epochs = None,
    setting: Setting = None,
    quick: Quick = False,
    seed: Seed = 0,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = None,
    sheet: Sheet = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare the model with a linear one and boosted trees, on the same folds.

    CatBoost and LightGBM join if they are installed. Every row is predicted by models that were not fitted
    to it. A model is called better or worse if it differs by more than two standard errors.
    """
    check_output(output, force, data)
    _check_choices(task, target)
    from tggm.cli.comparison import choose_models, comparison_columns, comparison_text, run_comparison
    from tggm.cli.training import FitOptions, find_target
    from tggm.tables import read_table

    options = FitOptions(
        target[0], task, _layers(hidden), members, epochs, seed, ignore=tuple(ignore or ()),
        categorical=tuple(categorical or ()), missing=tuple(missing or ()), quick=quick,
        settings=tuple(setting or ()),
    )  # fmt: skip
    table = read_table(data, missing=options.missing, **_reading(delimiter, decimal, encoding, sheet))
    tell: Any = (lambda text: None) if quiet else say
    others = choose_models(models, tell)
    found, reason = find_target(table, options)
    table = table.take(found.known(table))
    if len(table) < 2 * folds:
        raise CommandError(f"--folds {folds} needs {2 * folds} rows or more; {data} has {len(table)}.")
    tell(f"task: {found.task} ({reason})")
    result, interrupted = run_comparison(table, found, options, others, folds, tell)
    about = {"source": table.source, "target": found.name, "task": found.task, "rows": len(table)}
    about |= {"folds": folds, "seed": seed}
    if as_json or output.endswith(".json"):
        write_json(output, about | result)
    elif output.endswith(".csv"):
        write_result(output, csv_text(comparison_columns(result)))
    else:
        title = f"{found.task} of {found.name!r}: {len(table)} rows, {folds} folds"
        write_result(output, f"{title}\n\n{comparison_text(result)}")
    if interrupted:
        tell(f"interrupted: the scores are those of {result['folds']} of {folds} folds")
        raise typer.Exit(INTERRUPTED)


def serve(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="File written by tggm fit.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any that is free.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on; local by default.")] = "127.0.0.1",
    quiet: Quiet = False,
) -> None:
    """Show a model on a local page, and answer POST /predict with JSON.

    Move sliders or type values, and the predictive distribution follows. Upload a CSV file. Ctrl-C ends it.
    """
    require_model(model)
    from tggm.cli.server import read_served_model, serve_model

    serve_model(read_served_model(model), host, port, (lambda text: None) if quiet else say)


COMMANDS = (fit, predict, evaluate, report, compare, serve, info)
