"""Files to tables: what kind of file it is, by its first bytes, and the reader for it."""

import stat
import sys
import zlib
from importlib import import_module
from lzma import LZMAError
from pathlib import Path

from tggm.tables.errors import TableError
from tggm.tables.excel import is_excel, parse_excel
from tggm.tables.table import Table
from tggm.tables.text import parse_text
from tggm.tables.words import GAPS

_ELSE = {
    b"PK\x03\x04": "is a spreadsheet or a zip archive; export the sheet as CSV or .xlsx",
    b"\xd0\xcf\x11\xe0": "is an old spreadsheet; export the sheet as CSV",
    b"SQLite": "is a database; export the table as CSV",
}


_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ": "lzma"}  # first bytes, module


def read_table(
    path: str,
    *,
    delimiter: str | None = None,
    decimal: str = ".",
    missing: tuple[str, ...] = (),
    encoding: str | None = None,
    sheet: str | None = None,
) -> Table:
    """Read a CSV, Parquet or Excel file, compressed or not; ``-`` is standard input.

    Parameters
    ----------
    path : str
        The file. Parquet and Excel are recognised by their content, whatever it is called.
    delimiter : str, optional
        Between the fields of a CSV file; found from its first line by default (comma, semicolon, tab, bar).
    decimal : str
        Decimal point of numbers in a CSV file.
    missing : tuple of str
        Words that mean a gap, besides those of `GAPS`.
    encoding : str, optional
        Of the letters of a CSV file; UTF-8, or UTF-16 with its mark, by default.
    sheet : str, optional
        Of an Excel file; the first by default.

    Raises
    ------
    TableError
        If it cannot be read as a table, with the remedy.
    """
    name = "standard input" if path == "-" else path
    gaps = frozenset((*GAPS, *missing))
    content = _unpacked(sys.stdin.buffer.read() if path == "-" else _read(Path(path)), name)
    if is_excel(content):
        return parse_excel(content, name, missing, sheet)
    if sheet is not None:
        raise TableError(f"{name} is no Excel file; leave --sheet out.")
    if content.startswith(b"PAR1"):
        from tggm.tables.parquet import parse_parquet

        return parse_parquet(content, name, gaps)
    return parse_text(_decoded(content, name, encoding), name, delimiter, decimal, gaps)


def _read(path: Path) -> bytes:
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise TableError(f"{path} is a folder; name a CSV or Parquet file in it.")
        return path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"there is no file {path}; check the name and the folder.") from None
    except PermissionError:
        raise TableError(f"{path} may not be read; check its permissions: ls -l {path}") from None


def _unpacked(content: bytes, name: str) -> bytes:
    """What a compressed file holds; anything else as it is."""
    for magic, module in _COMPRESSED.items():
        if content.startswith(magic):
            try:
                unpacked: bytes = import_module(module).decompress(content)
            except (OSError, EOFError, ValueError, ArithmeticError, LZMAError, zlib.error):
                raise TableError(f"{name} is compressed, but damaged; fetch it again.") from None
            return unpacked
    return content


def _decoded(content: bytes, name: str, encoding: str | None) -> str:
    for magic, remedy in _ELSE.items():
        if content.startswith(magic):
            raise TableError(f"{name} {remedy.format(name=name)}.")
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))  # as spreadsheets on Windows write it
    if b"\0" in content[:100_000] and not wide:
        raise TableError(f"{name} is a binary file, neither CSV nor Parquet; export the table as CSV.")
    try:
        return content.decode(encoding or ("utf-16" if wide else "utf-8-sig"))
    except LookupError:
        raise TableError(f"--encoding {encoding!r} is not known; try latin-1, cp1252 or utf-8.") from None
    except UnicodeDecodeError as error:
        raise TableError(
            f"{name} is not {encoding or 'UTF-8'} text (byte {error.start}); name its encoding, as in "
            "--encoding latin-1."
        ) from None
