"""The table of subcommands, and the one place where errors become sentences and exit codes."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import tggm
from tggm.cli.demo import demo
from tggm.cli.errors import sentence_for

app = typer.Typer(name="tggm", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command()(demo)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Nonlinear regression and classification that know how sure they are."""
    if version:
        print(f"tggm {tggm.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0, or 2 after a sentence on standard error."""
    command = typer.main.get_command(app)
    words = None if arguments is None else list(arguments)
    try:
        command.main(args=words, prog_name="tggm", standalone_mode=False)
    except Exception as error:
        sentence = sentence_for(error)
        if sentence is None:
            raise
        print("tggm: " + " ".join(sentence.split()), file=sys.stderr)
        return 2
    return 0
