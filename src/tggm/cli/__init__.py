"""The `tggm` command: its options, messages and exit codes.

`commands.py` has one function per subcommand, which calls the library and prints. An error that the user can
correct is one sentence on standard error and exit code 2; any other keeps its traceback. Commands import what
they need when they run, so that `tggm --help` is fast.
"""

import argparse
import contextlib
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import tggm
from tggm.cli import commands
from tggm.cli.files import INTERRUPTED, CommandError, interruption

BROKEN_PIPE = 141  # exit code of a process that wrote to a closed pipe
EXTRAS = {"jinja2", "matplotlib", "pandas", "pyarrow", "starlette", "uvicorn"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; `arguments` default to those of the process."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    code: int | None = 0
    interruption.reset()
    _replace_closed_streams()
    try:
        with contextlib.suppress(SystemExit):  # after --help or --version
            given = parser().parse_args(arguments)
            if given.command is not commands.fit and getattr(given, "output", "").endswith(".json"):
                given.json = True
            code = given.command(given)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code or 0
    except KeyboardInterrupt:
        print(interruption.sentence, file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # for example `| head`: end without a message and discard the buffer
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except Exception as error:
        message = message_for(error)
        if message is None:
            raise
        print("tggm: " + " ".join(message.split()), file=sys.stderr)
        return 2


def _replace_closed_streams() -> None:
    """Open streams that are closed, as after `2>&-`: a file of the command would get their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if name != "stdout":
                setattr(sys, name, os.fdopen(descriptor, mode))


def message_for(error: Exception) -> str | None:
    """Return the message for an error that the user can correct, or None for a defect of the program."""
    from tggm.storage import ModelFileError
    from tggm.tables.table import TableError

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
    return None


class Parser(argparse.ArgumentParser):
    """Report errors as exceptions, and options only by their full names."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self.option = self.add_argument

    def error(self, message: str) -> NoReturn:
        """Raise an error that names the nearest valid choice and the command with the relevant help."""
        if chosen := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            message += suggestion(chosen[1], re.findall(r"[\w.,]+", chosen[2]))
        raise CommandError(f"{message.rstrip('.')}. See: {self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line; report an unknown option before a missing one, which may be the same."""
        if not self._subparsers:
            for word in args:
                name = word.partition("=")[0]
                if name.startswith("--") and len(name) > 2 and name not in self._option_string_actions:
                    near = suggestion(name, self._option_string_actions)
                    raise CommandError(f"unrecognized arguments: {name}{near}. See: {self.prog} --help")
        return super().parse_known_args(args, namespace)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a question with the most similar known word, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


class Once(argparse.Action):
    """Store a value that may be given only once."""

    def __call__(self, parser: Any, given: Any, value: Any, name: str | None = None) -> None:
        """Store the value; raise if there is one already."""
        if (earlier := getattr(given, self.dest)) is not None:
            advice = f"fit one model for each, without the other column: --ignore {value!r}"
            raise argparse.ArgumentError(self, f"must be one column; got {earlier!r}, {value!r}; {advice}")
        setattr(given, self.dest, value)


def _read(kind: Callable[[str], Any], fits: Callable[[Any], bool], what: str) -> Callable[[str], Any]:
    """Return a function that reads the value of an option."""

    def read(text: str) -> Any:
        with contextlib.suppress(ValueError):
            if fits(value := kind(text)):
                return value
        raise argparse.ArgumentTypeError(f"must be {what}; got {text!r}")

    return read


def _numbers(text: str) -> list[float]:
    return [float(word) for word in text.split(",")]


NUMBER = _read(float, math.isfinite, "a number")
PROBABILITY = _read(float, lambda p: 0 < p < 1, "a probability such as 0.9")
LEVELS = _read(_numbers, lambda q: all(0 < p < 1 for p in q), "probabilities such as 0.05,0.5,0.95")
COSTS = _read(_numbers, lambda c: len(c) == 2 and 0 < min(c) < math.inf, "two costs such as 1,20")
PART = _read(float, lambda part: 0 <= part < 1, "at least 0 and less than 1, for example 0.2")
UNITS = _read(
    lambda text: tuple(int(word) for word in text.split(",")), lambda units: min(units) > 0,
    "a number of units, or one for each layer such as 100,100",
)  # fmt: skip


def whole(least: int) -> Callable[[str], Any]:
    """Return a function that reads a whole number."""
    return _read(int, lambda n: n >= least, f"an integer of at least {least}")


def parser() -> Parser:
    """Return the parser of all commands; options of several commands are in parent parsers."""
    model, data, out, text, labels, training, csv = (Parser(add_help=False) for _ in range(7))
    model.option("model", metavar="MODEL", help="file written by tggm fit; - reads stdin")
    data.option("data", metavar="DATA", help="CSV, Parquet or Excel file; - reads stdin")
    data.option("--delimiter", help="separator of a CSV file; detected by default")
    data.option("--decimal", choices=(".", ","), default=".", metavar="MARK",
                help="decimal mark in a CSV file: . or ,")  # fmt: skip
    data.option("--encoding", help="encoding of a CSV file, such as latin-1; UTF-8 is detected")
    data.option("--sheet", metavar="NAME", help="sheet of an Excel file; the first by default")
    out.option("--force", action="store_true", help="replace existing files")
    out.option("--quiet", action="store_true", help="print no notes and no progress")
    text.option("--json", action="store_true", help="write JSON, for programs")
    csv.option("--escape-formulas", action="store_true", help="put ' before text that a spreadsheet computes")
    labels.option("--positive", metavar="CLASS", help="one of two classes; the rarer one by default")
    labels.option("--threshold", type=PROBABILITY, metavar="P",
                  help="smallest probability to choose the positive class")  # fmt: skip

    names: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAMES"}
    training.option("--target", "-t", action=Once, required=True, metavar="NAME", help="column to predict")
    training.option("--task", choices=("regression", "classification"), help="detected by default")
    training.option("--ignore", **names, help="columns not to use, such as id,name; repeatable")
    training.option("--categorical", **names, help="columns of numbers that are categories, such as zip")
    training.option("--dates", **names, help="columns of words that are dates; other words are missing")
    training.option("--missing", **{**names, "metavar": "WORD"}, help="mark of a missing value; repeatable")
    training.option("--hidden", type=UNITS, metavar="N", help="hidden units: 50, or 100,100 for two layers")
    training.option("--members", type=whole(1), metavar="N", help="networks in the ensemble")
    training.option("--epochs", type=whole(1), metavar="N", help="largest number of passes over the rows")
    training.option("--set", **{**names, "metavar": "NAME=VALUE", "dest": "settings"},
                    help="any other setting of the estimator; repeatable")  # fmt: skip
    training.option("--quick", action="store_true", help="fewer networks and shorter training")
    training.option("--seed", type=whole(0), default=0, help="the same seed gives the same result")

    interval: dict[str, Any] = {"type": PROBABILITY, "default": 0.9, "metavar": "P"}
    made = Parser(
        prog="tggm", description="Fit models to tables, with calibrated uncertainty.",
        epilog="Exit codes: 0 success; 2 an error, with a message that says what to change; 130 Ctrl-C.",
    )  # fmt: skip
    made.option("--version", action="version", version=f"tggm {tggm.__version__}")
    made.set_defaults(command=lambda given: made.print_help())
    known = made.add_subparsers(metavar="COMMAND")

    def command(work: Callable[[Any], int | None], parents: Sequence[Parser], output: str = "") -> Parser:
        words = (work.__doc__ or "").partition("\n")[0]
        one: Parser = known.add_parser(work.__name__, parents=parents, help=words, description=work.__doc__)
        one.set_defaults(command=work)
        if output:
            one.option("--output", "-o", default=output, help=f"file to write; - is stdout; default {output}")
        return one

    fit = command(commands.fit, [data, training, csv, out, text], "model.tggm")
    fit.option("--groups", metavar="COLUMN", help="hold out rows with equal values of this column together")
    part = fit.add_mutually_exclusive_group()
    held: dict[str, Any] = {"type": PART, "metavar": "P"}
    part.add_argument("--test-size", **held, default=0.2, help="part of the rows held out; 0: none")
    part.add_argument("--test-groups", **held, help="part of the groups to hold out for scores")
    part.add_argument("--test-last", **held, help="part of the rows to hold out for scores, the last")
    fit.option("--test-output", metavar="FILE", help="file for the held-out rows, such as test.csv")
    fit.option("--guarantee", type=PROBABILITY, metavar="P", help="level of guaranteed intervals or sets")
    fit.option("--positive", metavar="CLASS", help="positive one of two classes; the rarer one by default")
    censored: dict[str, Any] = {"metavar": "COLUMN", "help": "column with 1 where the target is a limit"}
    fit.option("--censored", **censored)
    fit.option("--lower", type=NUMBER, metavar="Y", help="least possible target; found by default")
    fit.option("--upper", type=NUMBER, metavar="Y", help="greatest possible target; found by default")
    fit.option("--checkpoint", metavar="FILE", help="file of the state of the fit, to resume it")
    predict = command(commands.predict, [model, data, labels, csv, out, text], "-")
    predict.option("--interval", **interval, help="probability of the intervals of a regression")
    predict.option("--quantiles", type=LEVELS, default=[], help="levels of quantiles, such as 0.05,0.5,0.95")
    predict.option("--guarantee", action="store_true", help="interval or set with guaranteed coverage")
    predict.option("--explain", action="store_true", help="add the contribution of each input")
    predict.option("--inputs", action="store_true", help="put the columns of DATA first")
    evaluate = command(commands.evaluate, [model, data, labels, out, text], "-")
    evaluate.option("--groups", metavar="COLUMN", help="column for coverage by group")
    evaluate.option("--costs", type=COSTS, metavar="A,M",
                    help="costs of a false alarm and of a miss, to choose the threshold")  # fmt: skip
    evaluate.option("--censored", **censored)
    command(commands.recalibrate, [model, data, out], "recalibrated.tggm")
    explain = command(commands.explain, [model, data, out, text], "-")
    explain.option("--row", type=whole(1), metavar="N", help="explain only this row of DATA, from 1")
    report = command(commands.report, [model, data, out], "report.html")
    report.option("--title", help="heading of the page")
    report.option("--positive", metavar="CLASS", help="one of two classes; the rarer one by default")
    report.option("--groups", metavar="COLUMN", help="column for coverage by group")
    report.option("--interval", **interval, help="probability of the intervals of a regression")
    compare = command(commands.compare, [data, training, out, text], "-")
    others = ("censored", "checkpoint", "groups", "guarantee", "lower", "upper")  # only of tggm fit
    compare.set_defaults(**dict.fromkeys(others))
    compare.option("--folds", type=whole(2), default=5, help="parts of the rows; each is predicted once")
    compare.option("--models", help=f"other models, from {','.join(commands.OPPONENTS)}")
    serve = command(commands.serve, [model])
    serve.option("--port", type=whole(0), default=8000, help="0 selects a free port")
    serve.option("--host", default="127.0.0.1", help="address to listen on; local by default")
    serve.option("--quiet", action="store_true", help="print no notes")
    command(commands.info, [model, out, text], "-")
    return made
