"""The `tggm` command: one file per subcommand, each of which parses, calls the library and prints.

An error that the user can mend is one sentence on standard error and exit code 2; anything else is a defect
of ours and keeps its traceback. Subcommands import what they need when they run: `tggm --help` is quick.
"""

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; `arguments` default to those of the process."""
    _fill_closed_streams()
    try:
        from tggm.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "typer":
            raise
        print("tggm: the command line needs typer; install it with: pip install typer", file=sys.stderr)
        sys.exit(2)
    sys.exit(run(arguments))


def _fill_closed_streams() -> None:
    """Let closed standard streams lead nowhere, so that no file we open takes the place of one.

    `sys.stdout` stays None where it is: `print` knows that, and a command whose result goes there says so.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115  # for as long as the process lives
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # print(file=None) would write to the other
