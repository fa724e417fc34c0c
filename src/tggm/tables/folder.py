"""A folder of Parquet files as tables, one row group at a time: more rows than memory holds."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tggm.streams import parquet_files
from tggm.tables.errors import TableError
from tggm.tables.parquet import table_of
from tggm.tables.reading import GAPS
from tggm.tables.table import Table


class Group(NamedTuple):
    """Where a row group lies, and the number of its first row among all."""

    file: Path
    number: int
    start: int
    rows: int


class Folder:
    """The row groups of a folder of Parquet files with the same columns."""

    def __init__(self, path: str, missing: Sequence[str] = ()) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.source, self._gaps = path, frozenset((*GAPS, *missing))
        self.groups: list[Group] = []
        start = 0
        try:
            for file in parquet_files(path):
                metadata = pq.read_metadata(file)
                for k in range(metadata.num_row_groups):
                    rows = metadata.row_group(k).num_rows
                    if rows:
                        self.groups.append(Group(file, k, start, rows))
                    start += rows
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise TableError(f"{file} is a damaged Parquet file ({reason}); write it again.") from None
        except ValueError as error:
            raise TableError(str(error)) from None
        self.rows = start
        if not start:
            raise TableError(f"{path} has no rows; there is nothing to work on.")

    def read(self, group: Group) -> Table:
        """The table of one row group."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(group.file) as opened:
            stored = opened.read_row_group(group.number)
        return table_of(stored, str(group.file), self._gaps)

    def sample(self, most_groups: int = 8, most_rows: int = 20_000) -> Table:
        """Some rows of some groups, spread evenly over the folder; they know their places in all of it."""
        chosen = np.unique(np.linspace(0, len(self.groups) - 1, most_groups).round().astype(int))
        parts = []
        for k in chosen.tolist():
            table = self.read(self.groups[k])
            rows = np.unique(np.linspace(0, len(table) - 1, most_rows).round().astype(int))
            parts.append(replace(table.take(rows), origin=self.groups[k].start + rows))
        return stacked(parts, self.source)


def stacked(tables: Sequence[Table], source: str) -> Table:
    """One table of the rows of several with the same columns."""
    first = tables[0]
    for table in tables[1:]:
        table.require(first.names)
    columns: dict[str, Any] = {
        name: np.concatenate([table.columns[name] for table in tables]) for name in first.names
    }
    places = np.concatenate([table.places for table in tables])
    return Table(source, columns, dates=first.dates, origin=places)
