"""`tggm reproduce`: the experiments of a clone, which are scripts beside the package and not part of it."""

import runpy
from pathlib import Path
from typing import Annotated

import typer

from tggm.cli.errors import CommandError


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of an experiment; without one, all are listed.")] = "",
) -> None:
    """Run an experiment of the paper again.

    Options after the name belong to the experiment; tggm reproduce table1 --help lists them.
    """
    start = runpy.run_path(str(script()))["main"]
    try:
        raise typer.Exit(start([name, *context.args] if name else []))
    except SystemExit as end:
        raise CommandError(str(end)) from None


def script() -> Path:
    """What runs experiments, in the current folder or beside the package's source."""
    for folder in (Path.cwd(), Path(__file__).parents[3]):
        found = folder / "experiments" / "reproduce.py"
        if found.is_file():
            return found
    raise CommandError(
        "the experiments are part of the source tree, not of the installed package; "
        "run this in the top folder of a clone of the repository"
    )
