"""The `tggm` command: one file per subcommand, each of which parses, calls the library and prints.

An error that the user can mend is one sentence on standard error and exit code 2; anything else is a defect
of ours and keeps its traceback. Subcommands import what they need when they run: `tggm --help` is quick.
"""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; `arguments` default to those of the process."""
    try:
        from tggm.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "typer":
            raise
        print("tggm: the command line needs typer; install it with: pip install typer", file=sys.stderr)
        sys.exit(2)
    sys.exit(run(arguments))
