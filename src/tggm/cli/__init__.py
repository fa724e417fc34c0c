"""The `tggm` command.

`commands.py` has one function per subcommand, which parses options, calls the library and prints. An error
that the user can correct is one sentence on standard error and exit code 2; any other keeps its traceback.
Commands import what they need when they run, so that `tggm --help` is fast.
"""

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; `arguments` default to those of the process."""
    _replace_closed_streams()
    try:
        from tggm.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "typer":
            raise
        print("tggm: the command line needs typer; install it with: pip install typer", file=sys.stderr)
        sys.exit(2)
    sys.exit(run(arguments))


def _replace_closed_streams() -> None:
    """Connect closed standard streams to /dev/null, so that no file that is opened gets their number.

    `sys.stdout` stays None if it was closed: `print` accepts that, and `check_output` reports it.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115  # for as long as the process lives
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # print(file=None) would write to stdout
