"""`tggm compare`: our model beside others on one table, by cross-validation."""

import json
from typing import Annotated, Any

import typer

from tggm.cli import options
from tggm.cli.errors import CommandError
from tggm.cli.files import check_output, say, write_result
from tggm.cli.fit import INTERRUPTED, check_words, layers

KNOWN = ("mean", "ridge", "hgb", "catboost", "lightgbm", "ngboost")  # keys of `OPPONENTS`: help is quick
USUAL = KNOWN[1:]


def compare(
    data: options.Data,
    target: options.Target,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the rows; each is predicted once.")] = 5,
    models: Annotated[
        str | None, typer.Option(metavar="NAMES", help=f"Others, as ridge,hgb; of {', '.join(KNOWN)}.")
    ] = None,
    output: options.Output = "-",
    task: options.Task = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="Columns not to use; may be repeated.")
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="Columns of numbers that are categories.")
    ] = None,
    missing: options.Missing = None,
    hidden: Annotated[str | None, typer.Option(help="Our hidden units, as 50; layers, as 100,100.")] = None,
    members: Annotated[int | None, typer.Option(help="Networks in our ensemble.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Largest number of our passes over the rows.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of our estimator; repeatable."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A first look: our short training.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same folds.")] = 0,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Compare our model with a linear one and boosted trees, on the same folds.

    CatBoost, LightGBM and NGBoost join if they are installed. Every row is predicted by models that have not
    seen it. A model is called better or worse if it differs by more than two standard errors.
    """
    check_output(output, force, data)
    check_words(task, decimal, target)
    from tggm.cli.contest import contest
    from tggm.cli.standings import facts, standings, table_of
    from tggm.cli.training import chosen_target
    from tggm.cli.wish import Wish
    from tggm.tables import read_table

    gaps = tuple(missing or ())
    wish = Wish(
        target[0], task, hidden=layers(hidden), members=members, epochs=epochs, seed=seed,
        ignore=tuple(ignore or ()), categorical=tuple(categorical or ()), missing=gaps, quick=quick,
        settings=tuple(setting or ()),
    )  # fmt: skip
    table = read_table(
        data, delimiter=delimiter, decimal=decimal, missing=gaps, encoding=encoding, sheet=sheet
    )
    others = chosen_models(models, quiet)
    goal, reason = chosen_target(table, wish)
    table = table.take(goal.known(table))
    if len(table) < 2 * folds:
        raise CommandError(f"--folds {folds} needs {2 * folds} rows or more; {data} has {len(table)}.")
    title = f"{goal.task} of {goal.name!r}: {len(table)} rows, {folds} folds"
    tell: Any = (lambda text: None) if quiet else say
    tell(f"task: {goal.task} ({reason})")
    results, interrupted = contest(table, goal, wish, others, folds, tell)
    found = standings(results)
    about = {"source": table.source, "target": goal.name, "task": goal.task, "rows": len(table)}
    about |= {"folds": folds, "seed": seed}
    if as_json or output.endswith(".json"):
        write_result(output, json.dumps(about | facts(found), indent=1) + "\n")
    elif output.endswith(".csv"):
        write_result(output, table_of(found, csv=True))
    else:
        write_result(output, f"{title}\n\n{table_of(found)}")
    if interrupted:
        tell(f"interrupted: figures are those of {found.folds} of {folds} folds")
        raise typer.Exit(INTERRUPTED)


def chosen_models(text: str | None, quiet: bool) -> list[str]:
    """Those asked for, all of which must be there; or the usual ones that are installed."""
    from tggm.cli.opponents import OPPONENTS, absent

    if text is None:
        missing = absent(USUAL)
        if missing and not quiet:
            say(f"not installed, and left out: {', '.join(missing)}")
        return [name for name in USUAL if name not in missing]
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in OPPONENTS]
    if unknown:
        raise CommandError(f"--models knows {', '.join(OPPONENTS)}; got {unknown[0]!r}.")
    if missing := absent(names):
        package = OPPONENTS[missing[0]].package
        raise CommandError(f"{missing[0]} is not installed; install it with: pip install {package}")
    return names
