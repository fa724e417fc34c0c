"""The table of subcommands, and the one place where errors become sentences and exit codes."""

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import tggm
from tggm.cli.compare import compare
from tggm.cli.demo import demo
from tggm.cli.errors import sentence_for
from tggm.cli.evaluate import evaluate
from tggm.cli.fit import INTERRUPTED, fit
from tggm.cli.info import info
from tggm.cli.predict import predict
from tggm.cli.processes import leave_alone
from tggm.cli.report import report
from tggm.cli.reproduce import reproduce
from tggm.cli.serve import serve

UNREAD = 141  # the exit code of a process whose output nobody reads on
app = typer.Typer(name="tggm", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
for command in (fit, predict, evaluate, report, compare, serve, info, demo):
    app.command()(command)
# what follows the name of an experiment, --help too, is for its script
passing_on = {"allow_extra_args": True, "allow_interspersed_args": False}
app.command(context_settings=passing_on)(reproduce)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Nonlinear regression and classification that know how sure they are.

    Exit codes: 0 success; 2 an error, with a sentence that says what to change; 130 Ctrl-C; 141 a pipe that
    nobody reads.
    """
    if version:
        print(f"tggm {tggm.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0, 2 after a sentence on standard error, 130 or 141."""
    command = typer.main.get_command(app)
    words = None if arguments is None else list(arguments)
    try:
        code = command.main(args=words, prog_name="tggm", standalone_mode=False)
        if sys.stdout is not None:  # it is where it was closed
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _interrupted()
    except (BrokenPipeError, SystemExit):  # the second is what the parser makes of the first
        return _unread()
    except Exception as error:
        if type(error).__name__ == "Abort":  # what the parser makes of Ctrl-C
            return _interrupted()
        sentence = sentence_for(error)
        if sentence is None:
            raise
        print("tggm: " + " ".join(sentence.split()), file=sys.stderr)
        leave_alone()
        return 2
    return code if isinstance(code, int) else 0


def _unread() -> int:
    """Nobody reads on, as after `| head`: end quietly, and let what is left in the buffer go nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return UNREAD


def _interrupted() -> int:
    print("tggm: interrupted; nothing was written", file=sys.stderr)
    return INTERRUPTED
