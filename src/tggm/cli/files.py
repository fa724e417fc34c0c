"""Input and output of the commands: `-` is a standard stream, and files are replaced only with --force."""

import contextlib
import csv
import io
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

STREAM = "-"
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # first character, also of full width
INTERRUPTED = 130  # exit code after Ctrl-C
MOST_EXCEL_ROWS = 1_048_576  # of a sheet, with its header
NOT_WRITTEN = (".xls", ".xlsb", ".xlsm", ".ods")


class Interruption:
    """What Ctrl-C does: it ends the process with a sentence about what was written.

    While a file is written, and once training has parameters to keep, the command ends itself (`deferred`);
    a second Ctrl-C then has the default action. No exception is raised in the middle of a program or import.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start a command."""
        self.outcome, self.deferred, self.asked = "nothing was written", False, False

    def handle_signals(self) -> None:
        """Handle Ctrl-C, unless the process ignores it."""
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, lambda *_: self.interrupt())

    def interrupt(self) -> None:
        """Handle one Ctrl-C."""
        if self.deferred:
            self.asked = True
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            self._print("tggm: interrupted; ending this step (Ctrl-C again ends at once)")
        else:
            self._print(self.sentence)
            os._exit(INTERRUPTED)

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError):  # closed; printing to `sys.stderr` may not be repeated in itself
            os.write(2, f"{text}\n".encode())

    @property
    def sentence(self) -> str:
        """Return a sentence about what was written."""
        return f"tggm: interrupted; {self.outcome}"


interruption = Interruption()


class CommandError(Exception):
    """A command cannot be executed; the message is one sentence with the remedy."""


def say(text: str) -> None:
    """Print a note on standard error."""
    print(text, file=sys.stderr, flush=True)


def check_output(path: str, force: bool, *inputs: str) -> None:
    """Raise, before any work is done, unless the result can be written to `path`."""
    if path == STREAM and sys.stdout is None:  # closed by >&-
        raise CommandError("standard output is closed; name a file with -o.")
    if path == STREAM or any(name != STREAM and not os.path.exists(name) for name in inputs):
        return  # reading the missing input raises a more useful error
    target = Path(path)
    if target.suffix.lower() in NOT_WRITTEN:
        raise CommandError(f"{path}: tables are written as .xlsx, .parquet or .csv; choose one of these.")
    if target.is_dir():
        raise CommandError(f"{path} is a folder; name a file in it, for example {target / 'result'}.")
    if target.exists() and not target.is_file():
        raise CommandError(f"{path} is a pipe or a device; name a file, or - for standard output.")
    if target.exists() and not force:
        raise CommandError(f"{path} exists already; pass --force to replace it, or another name with -o.")
    if any(Path(name).exists() and target.exists() and target.samefile(name) for name in inputs):
        raise CommandError(f"{path} is read by this command; name another file with -o.")
    folder = target.parent
    if not folder.is_dir():
        raise CommandError(f"there is no folder {folder}; make it first: mkdir -p {folder}")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise CommandError(f"{folder} cannot be written to ({error.strerror}); choose another.") from None


def write_result(path: str, content: str | bytes) -> None:
    """Write to a file atomically, or to standard output."""
    from tggm.storage import write_atomically

    data = content.encode() if isinstance(content, str) else content
    if path == STREAM:
        sys.stdout.flush()
        interruption.outcome = "the output is incomplete"
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        interruption.outcome = "the output is complete"
        return
    before, interruption.deferred = interruption.deferred, True
    write_atomically(Path(path), data)
    interruption.outcome, interruption.deferred = f"{path} was written", before
    if interruption.asked and not before:
        raise KeyboardInterrupt


def read_data(given: Any, missing: Sequence[str]) -> Any:
    """Read the table of a command; `missing` are marks of missing values."""
    from tggm.tables import read_table

    how = {name: getattr(given, name) for name in ("delimiter", "decimal", "encoding", "sheet")}
    return read_table(given.data, missing=tuple(missing), **how)


def read_model(path: str, data: str = "", backends: Sequence[str] = ("jax",)) -> tuple[Any, Any]:
    """Return the estimator of a model file (or of standard input) and the description of its table.

    It computes by the first of the backends that can compute it.
    """
    from tggm.files import ModelFileError, parse_model

    if path == data == STREAM:
        raise CommandError("model and data cannot both come from standard input; name a file for one.")
    if path != STREAM and not os.path.exists(path):
        raise CommandError(f"there is no model file {path}; make one: tggm fit data.csv -t NAME -o {path}")
    given = sys.stdin.buffer.read() if path == STREAM else Path(path)
    for backend in backends:
        try:
            model, table = parse_model(given, "standard input" if path == STREAM else path, backend)
            break
        except ModelFileError:
            if backend == backends[-1]:
                raise
    if table is None:
        raise CommandError(f"{path} was fitted to an array; use it in Python, or make it with tggm fit.")
    if not table.target.is_class and len(model.fitted_.scales.y.shift) > 1:
        raise CommandError(f"{path} predicts several columns at once; use it in Python with tggm.load.")
    return model, table


def table_bytes(path: str, columns: Mapping[str, Any], escape: bool = False) -> bytes:
    """Return columns as the content of a file of this name: Excel, Parquet, or CSV.

    In CSV, missing values are empty, and numbers have ten digits. With `escape`, a spreadsheet shows text
    such as ``=1+1`` and does not compute it.
    """
    kind = os.path.splitext(path)[1].lower()
    if kind not in (".xlsx", ".parquet"):
        text, rows = io.StringIO(), chain([tuple(columns)], table_rows(columns))
        csv.writer(text, lineterminator="\n").writerows([_field(x, escape) for x in row] for row in rows)
        return text.getvalue().encode()
    import pandas as pd

    frame, stream = pd.DataFrame(columns), io.BytesIO()
    if kind == ".parquet":
        frame.to_parquet(stream, index=False)
        return stream.getvalue()
    if len(frame) >= MOST_EXCEL_ROWS:
        raise CommandError(f"{path}: {len(frame)} rows do not fit into Excel; name a .parquet or .csv file.")
    with pd.ExcelWriter(stream, engine="openpyxl") as writer:
        frame.to_excel(writer, index=False)
        for cell in chain.from_iterable(writer.book.active.iter_rows()):
            cell.data_type = cell.data_type.replace("f", "s")  # text such as "=1+1" is no formula
    return stream.getvalue()


def _field(x: Any, escape: bool) -> Any:
    """Return a field of a CSV file; `escape` puts an apostrophe before a formula of a spreadsheet."""
    if isinstance(x, float):
        return f"{x:.10g}"
    if escape and isinstance(x, str) and x.lstrip().startswith(FORMULA):
        with contextlib.suppress(ValueError):
            float(x)
            return x
        return f"'{x}"
    return x


def json_text(columns: Mapping[str, Any]) -> str:
    """Return columns as a JSON list with one object per row."""
    return json.dumps([dict(zip(columns, row, strict=True)) for row in table_rows(columns)], indent=1) + "\n"


def table_rows(columns: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return rows of plain Python values, None for a missing one (NaN differs from itself)."""
    plain = ([None if x != x else x for x in column.tolist()] for column in columns.values())
    return list(zip(*plain, strict=True))
