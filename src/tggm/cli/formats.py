"""Columns to text: CSV for spreadsheets, JSON for programs, Parquet for more of them."""

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = Mapping[str, NDArray[Any]]


def csv_text(columns: Columns) -> str:
    """A CSV file; gaps are empty, numbers have ten digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_cells(column) for column in columns.values()), strict=True))
    return text.getvalue()


def json_text(columns: Columns) -> str:
    """A list with an object for each row."""
    rows = zip(*(_values(column) for column in columns.values()), strict=True)
    names = list(columns)
    return json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1) + "\n"


def parquet_bytes(columns: Columns) -> bytes:
    """A Parquet file; needs pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(_values(column)) for name, column in columns.items()}), stream)
    return stream.getvalue()


def _values(column: NDArray[Any]) -> list[Any]:
    """Plain values, None for a gap."""
    return [None if value != value else value for value in column.tolist()]  # NaN differs from itself


def _cells(column: NDArray[Any]) -> list[str]:
    if np.issubdtype(column.dtype, np.floating):
        return ["" if value is None else f"{value:.10g}" for value in _values(column)]
    return ["" if value is None else str(value) for value in column.tolist()]
