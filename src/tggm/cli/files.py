"""What a command reads and writes: `-` is the standard stream, and nothing is overwritten unasked."""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tggm.cli.errors import CommandError

if TYPE_CHECKING:
    from tggm.tables import Preparation

STREAM = "-"


def check_output(path: str, force: bool, *inputs: str) -> None:
    """Raise, before any work is done, unless a result can be written there; never over what is read."""
    if path == STREAM:
        if sys.stdout is None:  # as with >&-
            raise CommandError("standard output is closed; name a file with -o.")
        return
    if any(name != STREAM and not os.path.exists(name) for name in inputs):
        return  # their reader says so, before anyone is asked to replace a file for nothing
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
    """Write to a file, at once or not at all, or to standard output."""
    data = content.encode() if isinstance(content, str) else content
    if path == STREAM:
        sys.stdout.flush()
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        return
    from tggm.storage import write_atomically

    write_atomically(Path(path), data)


def read_model(path: str, data: str = "") -> "tuple[Any, Preparation]":
    """The model of a file (or of standard input) and the preparation of its table."""
    from tggm.files import ModelFileError, load_table_model, parse_model

    if path == STREAM:
        if data == STREAM:
            raise CommandError("model and data cannot both come from standard input; name a file for one.")
        model, preparation = parse_model(sys.stdin.buffer.read(), "standard input")
    else:
        if not os.path.exists(path):
            raise CommandError(
                f"there is no model file {path}; make one: tggm fit data.csv --target NAME -o {path}"
            )
        try:
            model, preparation = load_table_model(path)
        except ModelFileError:
            if data not in ("", STREAM) and _is_model(data):
                raise CommandError(
                    f"{path} is not a model file, but {data} is; the model comes first: {data} {path}"
                ) from None
            raise
    if preparation is None:
        raise CommandError(
            f"{path} was saved from Python and does not say which columns it takes; use tggm.load there, or "
            "make it with tggm fit."
        )
    if model.task == "regression" and model.b1_.shape[1] > 1:
        raise CommandError(f"{path} predicts several columns at once; use it in Python, by tggm.load.")
    return model, preparation


def _is_model(path: str) -> bool:
    """Whether a file begins as those do that `tggm fit` writes."""
    try:
        with open(path, "rb") as file:
            return b'"format":"tggm"' in file.read(300)
    except OSError:
        return False


def say(text: str) -> None:
    """A remark for the person at the terminal, on standard error."""
    print(text, file=sys.stderr, flush=True)
