"""CSV text to a table of words."""

import csv
import io
from collections import Counter

from tggm.tables.arrow_text import parse_large
from tggm.tables.errors import TableError
from tggm.tables.table import Table
from tggm.tables.words import cleaned, typed

BEGINNING = 2**16  # letters in which the first line ends
LARGE = 2**20  # letters from which pyarrow reads it, if it can
DELIMITERS = {",": "','", ";": "';'", "\t": "'\\t'", "|": "'|'"}


def parse_text(text: str, name: str, delimiter: str | None, decimal: str, gaps: frozenset[str]) -> Table:
    """The table of a CSV text, its first line the names of the columns.

    Fields may be quoted. Empty lines are passed over; every other line must have as many fields as the first.
    """
    if not text.strip():
        raise TableError(f"{name} is empty; it should begin with a line of column names.")
    mark = _sniffed(text) if delimiter is None else delimiter.replace("\\t", "\t")
    if len(mark) != 1:
        raise TableError(f"a delimiter is one character, as --delimiter ';'; got {delimiter!r}.")
    if len(text) >= LARGE and (table := parse_large(text, mark, name, decimal, gaps)) is not None:
        return table
    lines = _lines(text, mark, name)
    header = [field.strip() or f"column {k}" for k, field in enumerate(lines[0], start=1)]
    _check_header(header, text, mark, name)
    rows = [line for line in lines[1:] if line]
    if not rows:
        raise TableError(f"{name} has column names but no rows; there is nothing to work on.")
    _check_widths(rows, len(header), mark, name)
    columns = {}
    for column, fields in zip(header, zip(*rows, strict=True), strict=True):
        columns[column] = typed(cleaned(fields, gaps))
    return Table(name, columns, decimal)


def _sniffed(text: str) -> str:
    """The delimiter that cuts the first line into most fields; a comma if none does."""
    first = next(line for line in text.lstrip()[:BEGINNING].splitlines() if line.strip())
    counts = {mark: len(next(csv.reader([first], delimiter=mark))) for mark in DELIMITERS}
    return max(counts, key=lambda mark: counts[mark])


def _lines(text: str, mark: str, name: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=mark, strict=True)
    try:
        return list(reader)
    except csv.Error as error:
        raise TableError(
            f"{name} is not valid CSV at line {reader.line_num} ({error}); check the quotes there."
        ) from None


def _check_header(header: list[str], text: str, mark: str, name: str) -> None:
    better = _sniffed(text)
    if len(header) == 1 and better != mark and better in header[0]:
        raise TableError(
            f"{name} has one column only, {header[0][:40]!r}; its fields seem to be separated by "
            f"{DELIMITERS[better]}, so leave --delimiter out or pass that one."
        )
    if len(header) == 1 and len(header[0].split()) == len(text.strip().splitlines()[-1].split()) > 1:
        raise TableError(
            f"{name} has one column only, {header[0][:40]!r}; if its fields are separated by blanks, say so: "
            "--delimiter ' '."
        )
    double = [column for column, count in Counter(header).items() if count > 1]
    if double:
        raise TableError(f"{name} has more than one column {double[0]!r}; every column needs its own name.")


def _check_widths(rows: list[list[str]], width: int, mark: str, name: str) -> None:
    for number, row in enumerate(rows, start=1):
        if len(row) != width:
            raise TableError(
                f"{name} has {len(row)} fields in row {number}, but {width} column names; check the quotes "
                f"there, and that {DELIMITERS.get(mark, repr(mark))} is the delimiter."
            )
