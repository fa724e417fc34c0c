"""Sheets of Excel to tables; needs pandas and openpyxl."""

import io
import warnings
import zipfile
from dataclasses import replace
from typing import Any

from tggm.tables.errors import TableError
from tggm.tables.frames import as_table
from tggm.tables.table import Table

_ZIP, _WORKBOOK = b"PK\x03\x04", "xl/workbook.xml"
_UNNAMED = "Unnamed: "  # what pandas calls columns without a name, before their place


def is_excel(content: bytes) -> bool:
    """Whether a file is an Excel workbook (.xlsx, .xlsm), by what is in it."""
    if not content.startswith(_ZIP):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _WORKBOOK in archive.namelist()
    except (zipfile.BadZipFile, ValueError, EOFError):
        return False


def parse_excel(content: bytes, name: str, missing: tuple[str, ...], sheet: str | None) -> Table:
    """The table of one sheet, the first by default; its first row has the names. Empty rows are left out."""
    try:
        import openpyxl  # noqa: F401  # pandas says less clearly that it is missing
        import pandas as pd
    except ModuleNotFoundError as error:
        raise TableError(
            f"{name} is an Excel file, which needs pandas and openpyxl ({error.name} is missing); install "
            "them with: pip install pandas openpyxl, or export the sheet as CSV."
        ) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and validations, which are not read
        try:
            book = pd.ExcelFile(io.BytesIO(content), engine="openpyxl")
        except Exception as error:  # damaged archives fail in many ways
            raise TableError(
                f"{name} is a damaged Excel file ({type(error).__name__}); save it anew."
            ) from None
        with book:
            frame = book.parse(_chosen(book.sheet_names, name, sheet)).dropna(how="all")
    if not len(frame.columns):
        raise TableError(f"{name} has an empty sheet; name another with --sheet.")
    if not len(frame):
        raise TableError(f"{name} has column names but no rows; there is nothing to work on.")
    frame.columns = [_called(label) for label in frame.columns]
    table, _ = as_table(frame, missing)
    return replace(table, source=name)


def _chosen(names: list[str], name: str, sheet: str | None) -> str:
    if sheet is None:
        return names[0]
    if sheet not in names:
        raise TableError(f"{name} has no sheet {sheet!r}; it has {', '.join(map(repr, names))}.")
    return sheet


def _called(label: Any) -> str:
    """A name as the CSV reader gives it."""
    text = str(label).strip()
    return f"column {int(text.removeprefix(_UNNAMED)) + 1}" if text.startswith(_UNNAMED) else text
