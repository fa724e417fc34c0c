"""Input and output of the commands: `-` is a standard stream, and files are replaced only with --force."""

import csv
import io
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STREAM = "-"


class CommandError(Exception):
    """A command cannot do what was asked; the message is one sentence with the remedy."""


def say(text: str) -> None:
    """Print a remark on standard error."""
    print(text, file=sys.stderr, flush=True)


def check_output(path: str, force: bool, *inputs: str) -> None:
    """Raise, before any work is done, unless the result can be written to `path`."""
    if path == STREAM:
        if sys.stdout is None:  # closed by >&-
            raise CommandError("standard output is closed; name a file with -o.")
        return
    if any(name != STREAM and not os.path.exists(name) for name in inputs):
        return  # reading them raises the error that matters first
    target = Path(path)
    if target.is_dir():
        raise CommandError(f"{path} is a folder; name a file in it, as {target / 'result'}.")
    if target.exists() and not target.is_file():
        raise CommandError(f"{path} is a pipe or a device; name a file, or - for standard output.")
    if target.exists() and not force:
        raise CommandError(
            f"{path} exists already; pass --force to replace it, or name another file with -o."
        )
    if any(Path(name).exists() and target.exists() and target.samefile(name) for name in inputs):
        raise CommandError(f"{path} is read by this command; name another file with -o.")
    folder = target.parent
    if not folder.is_dir():
        raise CommandError(f"there is no folder {folder}; make it first: mkdir -p {folder}")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise CommandError(
            f"nothing can be written to {folder} ({error.strerror}); choose another place with -o."
        ) from None


def write_result(path: str, content: str | bytes) -> None:
    """Write to a file atomically, or to standard output."""
    data = content.encode() if isinstance(content, str) else content
    if path == STREAM:
        sys.stdout.flush()
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        return
    from tggm.storage import write_atomically

    write_atomically(Path(path), data)


def write_json(path: str, value: Any) -> None:
    """Write a value as indented JSON."""
    write_result(path, json.dumps(value, indent=1) + "\n")


def read_model(path: str, data: str = "") -> tuple[Any, Any]:
    """Return the estimator of a model file (or of standard input) and the description of its table."""
    from tggm.files import ModelFileError, load_table_model, parse_model

    if path == STREAM:
        if data == STREAM:
            raise CommandError("model and data cannot both come from standard input; name a file for one.")
        model, table = parse_model(sys.stdin.buffer.read(), "standard input")
    else:
        require_model(path)
        try:
            model, table = load_table_model(path)
        except ModelFileError:
            if data not in ("", STREAM) and _is_model(data):
                raise CommandError(
                    f"{path} is not a model file, but {data} is; the model comes first: {data} {path}"
                ) from None
            raise
    if table is None:
        raise CommandError(
            f"{path} was fitted to an array and does not name its columns; use tggm.load in Python, or make "
            "it with tggm fit."
        )
    if not table.target.is_class and model.b1_.shape[1] > 1:
        raise CommandError(f"{path} predicts several columns at once; use it in Python, by tggm.load.")
    return model, table


def require_model(path: str) -> None:
    """Raise if there is no such file."""
    if not os.path.exists(path):
        raise CommandError(
            f"there is no model file {path}; make one: tggm fit data.csv --target NAME -o {path}"
        )


def _is_model(path: str) -> bool:
    """Return whether a file has the header of a model file."""
    from tggm.storage import ModelFileError
    from tggm.storage import read_model as read_header

    try:
        with open(path, "rb") as file:
            read_header(file)
    except (OSError, ModelFileError):
        return False
    return True


def csv_text(columns: Mapping[str, Any]) -> str:
    """Return columns as a CSV file; missing values are empty, numbers have ten digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    cells = ([_cell(value) for value in _values(column)] for column in columns.values())
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue()


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def json_text(columns: Mapping[str, Any]) -> str:
    """Return columns as a JSON list with one object per row."""
    rows = zip(*(_values(column) for column in columns.values()), strict=True)
    return json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=1) + "\n"


def parquet_bytes(columns: Mapping[str, Any]) -> bytes:
    """Return columns as a Parquet file; needs pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(_values(column)) for name, column in columns.items()}), stream)
    return stream.getvalue()


def _values(column: Any) -> list[Any]:
    """Return plain Python values, None for a missing one (NaN differs from itself)."""
    return [None if value != value else value for value in column.tolist()]
