"""`tggm reproduce`: the paper's tables and figures, and ours beside them, made again.

The experiments are scripts of the source tree, not of the installed package: each is found in the current
folder or beside the package (an editable install), and is given the options that follow its name.
"""

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

from tggm.cli.errors import CommandError
from tggm.cli.files import say

EXPERIMENTS = {
    "table1": "regression on nine UCI sets",
    "table2": "classification of digits, newsgroups and blogs",
    "figure1": "the activation g(μ, σ)",
    "figure2": "test error against σ0²",
    "gap": "bounds against the exact likelihood during training",
    "estep": "error of the E-step against its cycles",
    "calibration": "calibration curves",
    "claims": "what the paper's text claims, tested",
}


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Which; all are listed if none is named.")] = "",
) -> None:
    """Run an experiment of the paper again.

    Options after its name are the experiment's own; tell them by: tggm reproduce table1 --help
    """
    if not name:
        for known, what in EXPERIMENTS.items():
            print(f"tggm reproduce {known:12s} {what}")
        return
    if name not in EXPERIMENTS:
        raise CommandError(f"there is no experiment {name!r}; known are {', '.join(EXPERIMENTS)}")
    path = script(name)
    code = _run(path, context.args)
    if code == 0 and not {"-h", "--help"} & set(context.args):
        images = path.parents[1] / "docs" / "images"
        say(f"what it found is in {path.parent / 'results'}, its figures in {images}")
    raise typer.Exit(code)


def script(name: str) -> Path:
    """Where an experiment's script is, in the current folder or beside the package's source."""
    for folder in (Path.cwd(), Path(__file__).parents[3]):
        found = folder / "experiments" / f"{name}.py"
        if found.is_file():
            return found
    raise CommandError(
        f"experiments/{name}.py is part of the source tree, not of the installed package; "
        "run this in the top folder of a clone of the repository"
    )


def _run(path: Path, words: list[str]) -> int:
    """Run a script as if Python had been called with it; its exit code."""
    before = sys.argv, list(sys.path)
    sys.argv, sys.path[0:0] = [str(path), *words], [str(path.parent)]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return _code(end.code)
    except KeyboardInterrupt:
        print("tggm: interrupted; what was finished is kept", file=sys.stderr)
        return 130
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _code(code: object) -> int:
    """What the shell would make of the argument of `sys.exit`."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1
