"""Subcommands of `tggm`: call the library and print results; `given` has the options by name."""

import json
import os
from pathlib import Path
from typing import Any

from tggm.cli.files import (
    INTERRUPTED,
    STREAM,
    CommandError,
    check_output,
    interruption,
    json_text,
    read_data,
    read_model,
    say,
    table_bytes,
    write_result,
)

OPPONENTS = ("naive", "linear", "hgb", "catboost")  # of `tggm compare`


def fit(given: Any) -> int | None:
    """Fit a model to a table and write it to a file.

    The target determines regression or classification. Words become categories and missing values are
    filled; notes report this. Some rows are held out to score the model. DATA may be a folder of
    Parquet files. --set time_budget=60 ends training after a minute.
    """
    resumes = given.checkpoint is not None and os.path.exists(given.checkpoint)
    paths = [path for path in (given.output, given.test_output) if path is not None]
    for path in paths:
        check_output(path, given.force or resumes, given.data)
    if len(set(map(os.path.realpath, paths))) < len(paths):
        raise CommandError(f"--output and --test-output are both {given.output}; name two files.")
    from tggm.cli.training import fit_folder, fit_table

    if os.path.isdir(given.data):
        model, content, test, facts = fit_folder(given.data, given)
    else:
        model, content, test, facts = fit_table(read_data(given, given.missing), given)
    to_stream = given.output == STREAM
    write_result(given.output, content)
    if given.test_output is not None and test is not None:
        held = {name: test.words(name) for name in test.names}
        write_result(given.test_output, table_bytes(given.test_output, held, given.escape_formulas))
    if not given.quiet or (given.json and not to_stream):
        text = json.dumps(facts, indent=1) if given.json else _summary(facts)
        (say if to_stream else print)(text)
    if not (model.interrupted_ or interruption.asked):
        if given.checkpoint is not None:
            Path(given.checkpoint).unlink(missing_ok=True)  # after the model is written
        return None
    if not given.quiet:
        say(f"interrupted: the {'best model so far' if model.interrupted_ else 'whole model'} is written")
    return INTERRUPTED


def _summary(facts: dict[str, Any]) -> str:
    """Return the text about a fit."""
    from tggm.report.scores import figures_table, hint

    lines = [
        "", f"data      {facts['rows']} rows to train on; {len(facts['columns'])} columns",
        f"model     {'-'.join(map(str, facts['hidden']))} hidden units, "
        f"{facts['members']} member{'s' * (facts['members'] > 1)}, "
        f"{facts['epochs']} epochs, {facts['seconds']:.1f} s",
    ]  # fmt: skip
    lines += [f"target    {facts['support']}"] * (facts["support"] is not None)
    if facts["figures"]:
        lines += [f"scores    on {facts['held_out']} rows that were held out:", ""]
        table = figures_table(facts["figures"], facts["positive"] or "")
        lines += ["  " + line for line in table.splitlines()]
        lines += ["", f"hint      {advice}"] if (advice := hint(facts["figures"])) else []
    else:
        lines.append("scores    none: all rows were used for training; use tggm evaluate on other rows")
    return "\n".join([*lines, "", f"written   {facts['model']}"])


def predict(given: Any) -> None:
    """Predict each row of a table.

    A regression gives mean, standard deviation, a central interval and, on request, quantiles; a
    classification gives the most probable class and the probability of each. With --explain, a base and the
    contributions of the columns add up to the mean, or to the class's probability.
    """
    check_output(given.output, given.force, given.model, given.data)
    from tggm.cli.predictions import copied_columns, predicted_columns, read_inputs
    from tggm.predictive.novelty import BEYOND

    light = not (given.explain or given.guarantee or given.model == STREAM)
    inputs = read_inputs(given, backends=("numpy", "jax") if light else ("jax",))
    if given.positive and not given.threshold:
        raise CommandError("--positive names the class of --threshold; pass --threshold P, too.")
    columns = predicted_columns(inputs, given)
    if (beyond := sum(value > BEYOND for value in columns.get("novelty", ()))) and not given.quiet:
        say(f"note: {beyond} of {len(inputs.table)} rows are unlike the training rows (novelty > {BEYOND:g})")
    if given.inputs:
        plain = given.json or given.output.endswith((".parquet", ".xlsx"))
        columns = copied_columns(inputs.table, columns, plain) | columns
    plain = json_text(columns) if given.json else table_bytes(given.output, columns, given.escape_formulas)
    write_result(given.output, plain)
    if given.output != STREAM and not given.quiet:
        say(f"{len(inputs.table)} predictions written to {given.output}, in the order of the rows")


def evaluate(given: Any) -> None:
    """Compare predictions with what was observed.

    The scores are shown with those of a linear model and of a model without inputs. Coverage of intervals is
    shown by predicted width, and by the values of a column with --groups.
    """
    check_output(given.output, given.force, given.model, given.data)
    from tggm.cli.predictions import choose_threshold, read_inputs, score_inputs
    from tggm.report.scores import aligned, figures_table, four_digits, hint

    inputs, advice = read_inputs(given, targets=True), ""
    if given.costs is not None:
        inputs, advice = choose_threshold(inputs, given.costs)
    target, rows = inputs.stored.target, len(inputs.table)
    figures, groups, warnings = score_inputs(inputs, given.censored)
    facts = {"rows": rows, "target": target.name, "task": target.task, "figures": figures}
    facts |= {"positive": inputs.positive_name or None, "threshold": inputs.threshold}
    facts |= {"groups": groups, "notes": inputs.notes, "warnings": warnings}
    text = f"{target.task} of {target.name!r} on {rows} rows of {inputs.table.source}\n\n"
    text += figures_table(figures, inputs.positive_name) + "\n"
    last = ["accuracy", "mean probability"] if target.is_class else ["in 90 % interval", "mean width"]
    for name, found in groups.items():
        head = ["predicted width" if name == "width" else str(given.groups), "rows", *last]
        lines = [
            [label, str(count), f"{inside:.1%}", four_digits(size)] for label, count, inside, size in found
        ]
        text += f"\n{aligned([head, *lines])}\n"
    text += f"\n{advice}\n" if advice else ""
    text += f"\nhint: {advice}\n" if (advice := hint(figures)) else ""
    _write(given, facts, text + "".join(f"\nwarning: {words}\n" for words in warnings))


def _write(given: Any, facts: Any, text: str) -> None:
    write_result(given.output, json.dumps(facts, indent=1) + "\n" if given.json else text)


def recalibrate(given: Any) -> None:
    """Calibrate the intervals of a regression on new rows, and write the model to a new file.

    DATA has at least 20 rows with targets that the model was not fitted to. Widths adapt to these rows; the
    means of the networks do not change.
    """
    check_output(given.output, given.force, given.model, given.data)
    from tggm.cli.predictions import read_inputs
    from tggm.files import model_file

    inputs = read_inputs(given, targets=True)
    model, rows, y, stored = inputs.model, inputs.table, inputs.y, inputs.stored
    if stored.target.is_class:
        raise CommandError(f"{given.model} predicts classes; only regressions can be recalibrated.")

    def inside() -> str:
        low, high = model.predict_interval(rows, 0.9)
        return f"{((low <= y) & (y <= high)).mean():.1%}"

    before = inside()
    try:
        model.recalibrate(rows, y)
    except ValueError as error:
        raise CommandError(f"{rows.source}: {error}") from None
    write_result(given.output, model_file(model, stored.baselines, stored.fitted))
    if not given.quiet:
        say(f"{given.output}: 90 % intervals contain {inside()} of {len(y)} targets; before {before}")


def explain(given: Any) -> None:
    """Show how much each column contributes to predictions, or to the prediction of one row.

    Contributions add up to the difference from the average prediction. Without --row their average size is
    shown and, if DATA has targets, the loss of quality when the values of a column are shuffled among rows.
    """
    check_output(given.output, given.force, given.model, given.data)
    from tggm.cli.predictions import explained, read_inputs

    columns, text = explained(read_inputs(given), given.row)
    write_result(given.output, json_text(columns) if given.json else text)


def report(given: Any) -> None:
    """Write an HTML page about a model and its scores.

    The page shows the model, its scores, calibration, worst rows and effects; it is one file and needs no
    network. Use rows that the model was not fitted to, such as those of tggm fit --test-output.
    """
    check_output(given.output, given.force, given.model, given.data)
    from tggm.cli.predictions import provenance, read_inputs
    from tggm.report import render_report

    inputs = read_inputs(given, targets=True)
    page = render_report(
        inputs.model, inputs.table, inputs.y, title=given.title, level=given.interval,
        target_name=inputs.stored.target.name, baselines=inputs.stored.baselines,
        provenance=provenance(inputs, given.model), positive_class=inputs.positive_name or None,
        groups=inputs.groups, group_name=given.groups or "group",
    )  # fmt: skip
    write_result(given.output, page)
    if not given.quiet and given.output != STREAM:
        print(f"{len(inputs.table)} rows of {inputs.table.source} reported in {given.output}")


def info(given: Any) -> None:
    """Show what is in a model file.

    It prints the target, the columns, what the file contains about the training rows, and scores.
    """
    check_output(given.output, given.force, given.model)
    fitted, stored = read_model(given.model)
    from tggm.report.scores import figures_table
    from tggm.settings import plain
    from tggm.tables import preparation_to_json

    settings = {key: plain(value) for key, value in fitted.get_params().items() if key != "checkpoint"}
    facts = {"class": type(fitted).__name__, "parameters": fitted.n_parameters_, "epochs": fitted.n_iter_}
    facts |= {"contains": _contents(fitted, stored), "settings": settings}
    facts |= {"table": preparation_to_json(stored)}
    del facts["table"]["baselines"]  # long, and only for tggm evaluate
    target, record = stored.target, stored.fitted
    lines = [
        f"{facts['class']}: {target.task} of {target.name!r}",
        f"hidden {fitted.layers_}, {settings['n_members']} members, {facts['epochs']} epochs, "
        f"{facts['parameters']:,} parameters",
    ]
    if target.is_class:
        lines.append("classes: " + ", ".join(map(str, fitted.classes_.tolist())))
    lines += [f"target values: {support}" for support in fitted.fitted_.supports]
    lines += ["", "the file contains:", *(f"  {text}" for text in _contents(fitted, stored))]
    lines += ["", "columns:", *(f"  {column.name}: {column.description}" for column in stored.columns)]
    if stored.left_out:
        lines += ["", "left out:", *(f"  {column}: {why}" for column, why in stored.left_out)]
    if record is not None:
        seconds = f"{record.seconds:.1f} s, seed {record.seed}"
        lines += ["", f"fitted to {record.rows} rows of {record.source} in {seconds}"]
        if record.figures:
            table = figures_table(record.figures, record.positive or "")
            lines += [f"on {record.held_out} held-out rows:", "", table]
    _write(given, facts, "\n".join(lines) + "\n")


def _contents(model: Any, stored: Any) -> list[str]:
    """Return what a model file contains about the training rows, to decide who may have it."""
    fitted, lines = model.fitted_, [f"{model.n_parameters_:,} parameters of networks"]
    if fitted.neighbors is not None:
        used = f"a prediction uses {fitted.neighbors.rule.count}"
        lines.append(f"targets of {len(fitted.neighbors.points):,} training rows; {used}")
    if (process := getattr(fitted, "process", None)) is not None:
        lines.append(f"all {len(process.rows)} training rows, and numbers that reveal their targets")
    if fitted.train is not None:
        lines.append(f"{len(fitted.train.rows)} encoded training rows and the range of each input")
    named = {column.name: len(column.levels) for column in stored.columns if hasattr(column, "levels")}
    if named:
        counts = ", ".join(f"{name} ({count})" for name, count in named.items())
        lines.append(f"names of categories: {counts}")
    if means := [column.name for column in stored.columns if "mean target" in column.description]:
        lines.append(f"the mean target of each category: {', '.join(means)}")
    if fitted.guarantee is not None:
        lines.append(f"{fitted.guarantee.shape[1]:,} scores of calibration rows, for --guarantee")
    if stored.baselines is not None:
        lines.append("a linear model and one without inputs, for tggm evaluate")
    return lines


def compare(given: Any) -> None:
    """Compare the model with a linear one and boosted trees, on the same folds.

    CatBoost is included if it is installed. Every row is predicted by models that were not fitted to it. A
    model is called better or worse if it differs by more than two standard errors.
    """
    check_output(given.output, given.force, given.data)
    from tggm.cli.comparison import choose_models, comparison_text, run_comparison
    from tggm.cli.training import find_target

    table = read_data(given, given.missing)
    target, _ = find_target(table, given)
    table = table.take(target.known(table))
    if len(table) < 2 * given.folds:
        raise CommandError(f"--folds {given.folds} needs {2 * given.folds} rows; there are {len(table)}.")
    figures = run_comparison(table, target, given, choose_models(given.models), given.folds)
    facts = {"target": target.name, "task": target.task, "rows": len(table), "folds": given.folds}
    title = f"{target.task} of {target.name!r}: {len(table)} rows, {given.folds} folds"
    _write(given, facts | {"figures": figures}, f"{title}\n\n{comparison_text(figures)}")


def serve(given: Any) -> None:
    """Show a model on a local page, and answer POST /predict with JSON.

    The page shows the predictive distribution for the values of sliders and boxes. Ctrl-C ends the server.
    """
    model, stored = read_model(given.model, backends=("numpy", "jax"))  # NumPy needs no compilation
    from tggm.cli.server import ServedModel, serve_model

    serve_model(ServedModel(model, stored), given.host, given.port, given.quiet)
