"""A folder of Parquet files as tables, one row group at a time: more rows than memory holds."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.streams import parquet_files
from tggm.tables.errors import TableError
from tggm.tables.parquet import content_of, damaged, table_of
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
        self._schemas: dict[Path, Any] = {}
        start = 0
        try:
            for file in parquet_files(path):
                metadata = pq.read_metadata(file)
                self._schemas[file] = metadata.schema.to_arrow_schema()
                for k in range(metadata.num_row_groups):
                    rows = metadata.row_group(k).num_rows
                    if rows:
                        self.groups.append(Group(file, k, start, rows))
                    start += rows
        except (pa.ArrowException, OSError) as error:
            raise damaged(file, error) from None
        except ValueError as error:
            raise TableError(str(error)) from None
        self.rows = start
        if not start:
            raise TableError(f"{path} has no rows; there is nothing to work on.")

    @property
    def names(self) -> list[str]:
        """Names of the columns of the first file."""
        return list(next(iter(self._schemas.values())).names)

    def require_alike(self, ignored: Sequence[str]) -> None:
        """Raise for a column of numbers in one file that has words in another, unless it is not used."""
        seen: dict[str, tuple[str, Any, Path]] = {}
        for file, schema in self._schemas.items():
            for field in schema:
                holds = content_of(field.type)
                if field.name in ignored or holds == "nothing":
                    continue
                before, kind, first = seen.setdefault(field.name, (holds, field.type, file))
                if holds != before:
                    raise TableError(
                        f"column {field.name!r} holds {before} ({kind}) in {first}, but {holds} "
                        f"({field.type}) in {file}; write it in one type in all files. An input may be left "
                        f"out instead: --ignore {field.name!r}."
                    )

    def read(self, group: Group) -> Table:
        """The table of one row group."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(group.file) as opened:
                stored = opened.read_row_group(group.number)
        except (pa.ArrowException, OSError) as error:
            raise damaged(group.file, error) from None
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
    columns: dict[str, Any] = {name: _joined(tables, name) for name in first.names}
    dates = frozenset[str]().union(*(table.dates for table in tables))
    places = np.concatenate([table.places for table in tables])
    return Table(source, columns, dates=dates, origin=places)


def _joined(tables: Sequence[Table], name: str) -> NDArray[Any]:
    """One column of all tables; words where some have numbers and others words, as in columns not used."""
    words = [table.columns[name] for table in tables if table.columns[name].dtype == object]
    if all(word is None for column in words for word in column):  # gaps alone may be of any type
        return np.concatenate([table.numbers(name) for table in tables])
    return np.concatenate([table.words(name) for table in tables])
