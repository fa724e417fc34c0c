"""The table of subcommands, and the mapping of errors to messages and exit codes."""

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import tggm
from tggm.cli import commands
from tggm.cli.files import CommandError

BROKEN_PIPE = 141  # exit code of a process that wrote to a closed pipe
EXTRAS = {"jinja2", "matplotlib", "pandas", "pyarrow", "rich", "starlette", "uvicorn"}

app = typer.Typer(name="tggm", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
for _command in commands.COMMANDS:
    app.command()(_command)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Fit regression and classification models to tables, with calibrated uncertainty.

    Exit codes: 0 success; 2 an error, with a message that says what to change; 130 Ctrl-C; 141 broken pipe.
    """
    if version:
        print(f"tggm {tggm.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    command = typer.main.get_command(app)
    words = None if arguments is None else list(arguments)
    try:
        code = command.main(args=words, prog_name="tggm", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _interrupted()
    except (BrokenPipeError, SystemExit):  # the parser turns the first into the second
        return _broken_pipe()
    except Exception as error:
        if type(error).__name__ == "Abort":  # the parser's exception for Ctrl-C
            return _interrupted()
        message = message_for(error)
        if message is None:
            raise
        print("tggm: " + " ".join(message.split()), file=sys.stderr)
        return 2
    return code if isinstance(code, int) else 0


def message_for(error: Exception) -> str | None:
    """Return the message for an error that the user can correct, or None for a defect of the program."""
    from tggm.files import ModelFileError
    from tggm.tables import TableError

    match error:
        case CommandError() | ModelFileError() | TableError():
            return str(error)
        case ValueError() if str(error).startswith(("`X`", "`y`")):  # values that cannot be computed with
            return str(error)
        case OSError(filename=str(path)):
            return f"{error.strerror}: {path}"
        case OSError():
            return str(error)
        case ModuleNotFoundError(name=str(module)) if module.partition(".")[0] in EXTRAS:
            package = module.partition(".")[0]
            return f"this command needs {package}; install it with: pip install {package}"
    # Errors of the parser: newer typer contains click, older typer depends on it, so their class has no
    # fixed address.
    if hasattr(error, "format_message"):
        where = getattr(getattr(error, "ctx", None), "command_path", "tggm")
        message = error.format_message().rstrip(".")
        return f"{message}{'' if message.endswith('?') else '.'} See: {where} --help"
    return None


def _broken_pipe() -> int:
    """End without a message, and discard what is left in the buffer, as after `| head`."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return BROKEN_PIPE


def _interrupted() -> int:
    print("tggm: interrupted; nothing was written", file=sys.stderr)
    return commands.INTERRUPTED
