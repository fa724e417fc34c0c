"""Parquet to a table: numbers stay numbers, everything else becomes words."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.tables.errors import TableError
from tggm.tables.table import Table


def parse_parquet(content: bytes, name: str, gaps: frozenset[str]) -> Table:
    """The table of a Parquet file; `gaps` are the words that mean a missing value. Needs pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stored = pq.read_table(io.BytesIO(content))
    except (pa.ArrowException, OSError) as error:
        raise damaged(name, error) from None
    return table_of(stored, name, gaps)


def damaged(name: Any, error: Exception) -> TableError:
    """What to say of a file that pyarrow cannot read."""
    return TableError(f"{name} is a damaged Parquet file ({str(error).splitlines()[0]}); write it again.")


def content_of(kind: Any) -> str:
    """What a column of this type becomes in a table: numbers, text, or nothing if it has gaps alone."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_null(kind):
        return "nothing"
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "numbers" if number else "text"


def table_of(stored: Any, name: str, gaps: frozenset[str]) -> Table:
    """The table of what pyarrow read."""
    import pyarrow as pa

    if stored.num_rows == 0 or stored.num_columns == 0:
        raise TableError(f"{name} has no rows; there is nothing to work on.")
    if len(set(stored.column_names)) < stored.num_columns:
        raise TableError(f"{name} has two columns of one name; every column needs a name of its own.")
    dates = {field.name for field in stored.schema if pa.types.is_temporal(field.type)}
    columns = {field.name: _column(stored, field, name, gaps) for field in stored.schema}
    return Table(name, columns, dates=frozenset(dates))


def _column(stored: Any, field: Any, name: str, gaps: frozenset[str]) -> NDArray[Any]:
    import pyarrow as pa

    column, kind = stored.column(field.name), field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_nested(kind):
        raise TableError(f"{name} has lists or records in column {field.name!r}; leave it out: --ignore.")
    if content_of(kind) == "numbers":
        numbers = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
        if np.isinf(numbers).any():
            row = int(np.argmax(np.isinf(numbers))) + 1
            raise TableError(f"{name} has an infinite number in row {row} of {field.name!r}; correct it.")
        return numbers
    words = np.empty(len(column), dtype=object)
    words[:] = [None if value is None or value in gaps else str(value) for value in column.to_pylist()]
    return words
