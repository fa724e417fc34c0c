"""Parquet to tables: numbers stay numbers, all else becomes words; a folder comes by row groups."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.data.parquet import ParquetFiles, RowGroup, readable
from tggm.tables.errors import TableError
from tggm.tables.table import Table, stacked
from tggm.tables.words import GAPS, cleaned


def parse_parquet(content: bytes, name: str, gaps: frozenset[str]) -> Table:
    """The table of a Parquet file; `gaps` are the words that mean a missing value. Needs pyarrow."""
    import pyarrow.parquet as pq

    with _refused(), readable(name):
        stored = pq.read_table(io.BytesIO(content))
    return _table(stored, name, gaps)


class Folder:
    """The row groups of a folder of Parquet files with the same columns: more rows than memory holds."""

    def __init__(self, path: str, missing: Sequence[str] = ()) -> None:
        self.source, self._gaps = path, frozenset((*GAPS, *missing))
        with _refused():
            self.files = ParquetFiles(path)
        if not self.files.rows:
            raise TableError(f"{path} has no rows; there is nothing to work on.")

    def __len__(self) -> int:
        return self.files.rows

    @property
    def names(self) -> list[str]:
        """Names of the columns of the first file."""
        return list(next(iter(self.files.schemas.values())).names)

    def require_alike(self, ignored: Sequence[str]) -> None:
        """Raise for a column of numbers in one file that has words in another, unless it is not used."""
        seen: dict[str, tuple[str, Any, Path]] = {}
        for file, schema in self.files.schemas.items():
            for field in schema:
                holds = _content(field.type)
                if field.name in ignored or holds == "nothing":
                    continue
                before, kind, first = seen.setdefault(field.name, (holds, field.type, file))
                if holds != before:
                    raise TableError(
                        f"column {field.name!r} holds {before} ({kind}) in {first}, but {holds} "
                        f"({field.type}) in {file}; write it in one type in all files. An input may be left "
                        f"out instead: --ignore {field.name!r}."
                    )

    def read(self, group: RowGroup) -> Table:
        """The table of one row group."""
        with _refused():
            stored = self.files.read(group)
        return _table(stored, str(group.file), self._gaps)

    def sample(self, most_groups: int = 8, most_rows: int = 20_000) -> Table:
        """Some rows of some groups, spread evenly over the folder; they know their places in all of it."""
        parts = []
        for k in _even(len(self.files.groups), most_groups):
            group = self.files.groups[k]
            rows = _even(group.rows, most_rows)
            parts.append(replace(self.read(group).take(rows), origin=group.start + rows))
        return stacked(parts, self.source)


def _even(count: int, most: int) -> NDArray[np.intp]:
    """At most so many of the numbers below `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.intp))


@contextmanager
def _refused() -> Iterator[None]:
    """What the reader says of files, as an error of tables."""
    try:
        yield
    except ValueError as error:
        raise TableError(str(error)) from None


def _content(kind: Any) -> str:
    """What a column of this type becomes in a table: numbers, text, or nothing if it has gaps alone."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_null(kind):
        return "nothing"
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "numbers" if number else "text"


def _table(stored: Any, name: str, gaps: frozenset[str]) -> Table:
    """The table of what pyarrow read."""
    import pyarrow as pa

    if stored.num_rows == 0 or stored.num_columns == 0:
        raise TableError(f"{name} has no rows; there is nothing to work on.")
    if len(set(stored.column_names)) < stored.num_columns:
        raise TableError(f"{name} has two columns of one name; every column needs a name of its own.")
    columns = {field.name: _column(stored, field, name, gaps) for field in stored.schema}
    categories = {
        field.name: tuple(_levels(stored.column(field.name))) if field.type.ordered else ()
        for field in stored.schema
        if pa.types.is_dictionary(field.type)
    }
    return Table(name, columns, categories=categories)


def _levels(column: Any) -> list[str]:
    """All words of a dictionary, in its order."""
    return [str(word) for word in column.combine_chunks().dictionary.to_pylist()]


def _column(stored: Any, field: Any, name: str, gaps: frozenset[str]) -> NDArray[Any]:
    import pyarrow as pa

    column, kind = stored.column(field.name), field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_nested(kind):
        raise TableError(f"{name} has lists or records in column {field.name!r}; leave it out: --ignore.")
    if _content(kind) == "numbers":
        numbers = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
        if np.isinf(numbers).any():
            row = int(np.argmax(np.isinf(numbers))) + 1
            raise TableError(f"{name} has an infinite number in row {row} of {field.name!r}; correct it.")
        return numbers
    return _timed(column, kind) if pa.types.is_temporal(kind) else cleaned(column.to_pylist(), gaps)


def _timed(column: Any, kind: Any) -> NDArray[Any]:
    """Dates as moments in their own zone, times of the day as words, durations as seconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        if getattr(kind, "tz", None) is not None:
            column = pc.local_timestamp(column)
        return np.asarray(column.cast(pa.timestamp("us"), safe=False).to_numpy(), dtype="datetime64[us]")
    if pa.types.is_duration(kind):
        spans = column.cast(pa.duration("us"), safe=False).to_numpy()
        return np.where(np.isnat(spans), np.nan, spans / np.timedelta64(1, "s")).astype(np.float64)
    return cleaned(column.to_pylist(), frozenset())
