"""Read CSV, Parquet and Excel files as tables.

pyarrow reads CSV and Parquet, pandas and openpyxl read Excel. CSV fields are read as text; a column becomes
numbers only if no information is lost.
"""

import csv
import io
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.data.stream import ParquetFiles, RowGroup, parquet_errors
from tggm.tables.inputs import as_table
from tggm.tables.table import Table, TableError, stack_tables
from tggm.tables.text import GAPS, LONGEST, clean_words

DELIMITERS = ",;\t|"
_UNREADABLE = {
    b"PK\x03\x04": "is a spreadsheet or a zip archive; export the sheet as CSV or .xlsx",
    b"\xd0\xcf\x11\xe0": "is an old spreadsheet; export the sheet as CSV",
    b"SQLite": "is a database; export the table as CSV",
    b"\x1f\x8b": "is compressed; unpack it with gunzip",
}
SAMPLED_GROUPS, SAMPLED_ROWS = 8, 20_000  # of a folder, used to learn columns; rows of each group
_BLOCK_BYTES = 2**24  # read at a time; a line must be shorter


def read_table(
    path: str, *, delimiter: str | None = None, decimal: str = ".", missing: tuple[str, ...] = (),
    encoding: str | None = None, sheet: str | None = None,
) -> Table:  # fmt: skip
    """Read a CSV, Parquet or Excel file, by its content; ``-`` is standard input.

    `missing` are words that mark a missing value, besides `GAPS`. For CSV files the delimiter is by default
    found from the first line (comma, semicolon, tab, bar), and the encoding is UTF-8, or UTF-16 with a byte
    order mark.
    A `TableError` has a message with the remedy.
    """
    name = "standard input" if path == "-" else path
    content = _read(path)
    is_excel = content.startswith(b"PK\x03\x04") and b"xl/workbook.xml" in content
    if sheet is not None and not is_excel:
        raise TableError(f"{name} is not an Excel file; leave --sheet out.")
    try:
        if is_excel:
            return _parse_excel(content, name, missing, sheet)
        if content.startswith(b"PAR1"):
            from pyarrow.parquet import read_table as parse

            return _read_parquet(lambda: parse(io.BytesIO(content)), name, missing)
        text = _decode(content, name, encoding)
        return parse_csv(text, name, delimiter=delimiter, decimal=decimal, missing=missing)
    except ModuleNotFoundError as error:
        raise TableError(f"{name} needs {error.name} to be read: pip install {error.name}.") from None


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except IsADirectoryError:
        raise TableError(f"{path} is a folder; name a CSV or Parquet file in it.") from None
    except FileNotFoundError:
        raise TableError(f"there is no file {path}; check the name and the folder.") from None
    except PermissionError:
        raise TableError(f"{path} cannot be read; check its permissions: ls -l {path}") from None


def _decode(content: bytes, name: str, encoding: str | None) -> str:
    for magic, remedy in _UNREADABLE.items():
        if content.startswith(magic):
            raise TableError(f"{name} {remedy}.")
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))  # UTF-16, as spreadsheets on Windows write it
    if b"\0" in content[:100_000] and not wide:
        raise TableError(f"{name} is a binary file, neither CSV nor Parquet; export the table as CSV.")
    try:
        return content.decode(encoding or ("utf-16" if wide else "utf-8-sig"))
    except LookupError:
        raise TableError(f"--encoding {encoding!r} is not known; try latin-1, cp1252 or utf-8.") from None
    except UnicodeDecodeError:
        raise TableError(f"{name} is not {encoding or 'UTF-8'} text; try --encoding latin-1.") from None


def parse_csv(
    text: str, name: str, *, delimiter: str | None = None, decimal: str = ".", missing: Sequence[str] = ()
) -> Table:
    """Parse CSV text whose first line has the names of the columns; `name` is used in messages.

    Fields may be quoted. Empty lines are skipped; every other line must have as many fields as the first.
    """
    text = text.lstrip("\r\n\ufeff")
    if not text.strip():
        raise TableError(f"{name} is empty; it should begin with a line of column names.")
    mark = _find_delimiter(text) if delimiter is None else delimiter.replace("\\t", "\t")
    if len(mark) != 1:
        raise TableError(f"a delimiter is one character, such as --delimiter ';'; got {delimiter!r}.")
    if '"' in text:  # pyarrow does not report quotes that are never closed, or closed within a field
        _check_rows(text, mark, name)
    stored = _read_fields(text, mark, name)
    header = [column[0].as_py().strip() or f"column {k}" for k, column in enumerate(stored.columns, start=1)]
    _check_header(header, text, mark, name)
    if stored.num_rows < 2:
        raise TableError(f"{name} has column names but no rows; there is nothing to work on.")
    gaps = frozenset((*GAPS, *missing))
    columns = [_column(column, gaps) for column in stored.slice(1).itercolumns()]
    return Table(name, dict(zip(header, columns, strict=True)), decimal)


def _find_delimiter(text: str) -> str:
    """Return the delimiter that splits the first line into the most fields; a comma if none does."""
    first = next(line for line in text.lstrip()[: 2**16].splitlines() if line.strip())
    counts = {mark: len(next(csv.reader([first], delimiter=mark))) for mark in DELIMITERS}
    return max(counts, key=lambda mark: counts[mark])


def _read_fields(text: str, mark: str, name: str) -> Any:
    """Return all lines as a pyarrow table of strings, the first row being the header."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    try:
        width = len(next(csv.reader(io.StringIO(text, newline=""), delimiter=mark)))
        return arrow.read_csv(
            io.BytesIO(f"{text}\n".encode()),
            read_options=arrow.ReadOptions(autogenerate_column_names=True, block_size=_BLOCK_BYTES),
            parse_options=arrow.ParseOptions(delimiter=mark, newlines_in_values='"' in text),
            convert_options=arrow.ConvertOptions(column_types={f"f{k}": pa.string() for k in range(width)}),
        )
    except (pa.ArrowException, UnicodeEncodeError, csv.Error) as error:
        _check_rows(text, mark, name)
        raise TableError(f"{name} is not valid CSV ({error}); check its quotes and delimiter.") from None


def _check_rows(text: str, mark: str, name: str) -> None:
    """Raise an error that names the first row with wrong quotes or another number of fields."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    wrong = None
    try:
        width = len(next(reader))
        for number, row in enumerate((row for row in reader if row), start=1):
            if len(row) != width and wrong is None:
                wrong = f"has {len(row)} fields in row {number}, but {width} column names"
    except csv.Error as error:
        raise TableError(f"{name} is not valid CSV at line {reader.line_num} ({error}); fix it.") from None
    if wrong:
        raise TableError(f"{name} {wrong}; check the quotes there, and that {mark!r} is the delimiter.")


def _check_header(header: list[str], text: str, mark: str, name: str) -> None:
    first, better, remedy = header[0], _find_delimiter(text), ""
    if better != mark and better in first:
        remedy = f"its fields seem to be separated by {better!r}, so leave --delimiter out or pass that one"
    elif len(first.split()) == len(text.strip().splitlines()[-1].split()) > 1:
        remedy = "if its fields are separated by blanks, pass --delimiter ' '"
    if remedy and len(header) == 1:
        raise TableError(f"{name} has one column only, {first[:40]!r}; {remedy}.")
    column, count = Counter(header).most_common(1)[0]
    if count > 1:
        raise TableError(f"{name} has more than one column {column!r}; every column needs its own name.")


def _column(column: Any, gaps: frozenset[str]) -> NDArray[Any]:
    """Return the numbers of a column of strings if no information is lost, else its words.

    Codes such as 007 and numbers of many digits stay words.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    known = pc.if_else(pc.is_in(trimmed, pa.array(sorted(gaps))), pa.scalar(None, pa.string()), trimmed)
    strange = pc.match_substring_regex(known, "^0[0-9]|[^0-9.eE+-]")
    if known.null_count < len(known) and not pc.any(strange).as_py():
        with suppress(pa.ArrowException):
            values = np.asarray(known.cast(pa.float64()).to_numpy(), dtype=np.float64)
            if np.nanmax(np.abs(values)) < LONGEST:
                return values
    coded = column.combine_chunks().dictionary_encode()
    return clean_words(coded.dictionary.to_pylist(), gaps)[coded.indices.to_numpy()]


def _parse_excel(content: bytes, name: str, missing: tuple[str, ...], sheet: str | None) -> Table:
    """Parse one sheet whose first row has the names of the columns; empty rows are dropped."""
    import openpyxl  # noqa: F401  # pandas reports its absence by another type of error
    import pandas as pd

    with warnings.catch_warnings(action="ignore"):  # about styles and validations, which are not read
        try:
            book = pd.ExcelFile(io.BytesIO(content), engine="openpyxl")
            chosen, known = sheet or book.sheet_names[0], book.sheet_names
            frame = book.parse(chosen).dropna(how="all") if chosen in known else None
        except Exception:  # damaged archives raise many types
            raise TableError(f"{name} is a damaged Excel file; save it again.") from None
    if frame is None:
        raise TableError(f"{name} has no sheet {sheet!r}; it has {', '.join(map(repr, known))}.")
    labels = enumerate((str(label).strip() for label in frame.columns), start=1)
    frame.columns = [f"column {k}" if label.startswith("Unnamed: ") else label for k, label in labels]
    with _table_errors():
        return as_table(frame, missing, name)


def _read_parquet(read: Callable[[], Any], name: str, missing: Sequence[str]) -> Table:
    with _table_errors(), parquet_errors(name):
        return as_table(read(), tuple(missing), name)


@contextmanager
def _table_errors() -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise TableError(str(error)) from None


class Folder:
    """A folder of Parquet files with the same columns, read by row groups."""

    def __init__(self, path: str, missing: Sequence[str] = ()) -> None:
        self.source, self._missing = path, missing
        with _table_errors():
            self.files = ParquetFiles(path)
        if not self.files.rows:
            raise TableError(f"{path} has no rows; there is nothing to work on.")

    def __len__(self) -> int:
        return self.files.rows

    def read(self, group: RowGroup) -> Table:
        """Read the table of one row group."""
        return _read_parquet(lambda: self.files.read(group), str(group.file), self._missing)

    def sample(self) -> Table:
        """Read some rows of some groups, spread evenly over the folder."""
        parts = []
        for k in _spread(len(self.files.groups), SAMPLED_GROUPS):
            group = self.files.groups[k]
            rows = _spread(group.rows, SAMPLED_ROWS)
            parts.append(replace(self.read(group).take(rows), origin=group.start + rows))
        return stack_tables(parts, self.source)


def _spread(count: int, most: int) -> NDArray[np.intp]:
    """Return at most `most` of the numbers below `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.intp))
