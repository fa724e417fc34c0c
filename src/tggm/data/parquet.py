"""Read Parquet files one row group at a time; needs pyarrow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.data.stream import BLOCK_ROWS, Piece, Stream, as_numbers


class RowGroup(NamedTuple):
    """A row group of a file, and the number of its first row among all."""

    file: Path
    number: int
    start: int
    rows: int


class ParquetFiles:
    """A Parquet file, or all files of a folder in the order of their names."""

    def __init__(self, path: Any) -> None:
        import pyarrow.parquet as pq

        self.schemas: dict[Path, Any] = {}
        self.groups: list[RowGroup] = []
        self.rows = 0
        place = Path(path)
        files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
        if not files:
            raise ValueError(f"`path` {place} contains no file *.parquet; name a folder with such files.")
        for file in files:
            with parquet_errors(file):
                metadata = pq.read_metadata(file)
            self.schemas[file] = metadata.schema.to_arrow_schema()
            for k in range(metadata.num_row_groups):
                rows = metadata.row_group(k).num_rows
                self.groups += [RowGroup(file, k, self.rows, rows)] if rows else []
                self.rows += rows

    def read(self, group: RowGroup, columns: Sequence[str] | None = None) -> Any:
        """Read a row group as a pyarrow table."""
        import pyarrow.parquet as pq

        with parquet_errors(group.file), pq.ParquetFile(group.file) as opened:
            return opened.read_row_group(group.number, columns=columns)

    def order_groups(self, rng: np.random.Generator | None) -> list[RowGroup]:
        """Return the groups in random order; without a generator, in the order of the files."""
        order = range(len(self.groups)) if rng is None else rng.permutation(len(self.groups)).tolist()
        return [self.groups[k] for k in order]


def from_parquet(
    path: Any, target: str, *, columns: Sequence[str] | None = None, block_rows: int = BLOCK_ROWS
) -> Stream:
    """Stream columns of numbers from a Parquet file or a folder of them; by default all except `target`."""
    if isinstance(columns, str):
        raise ValueError(f"`columns` must be a list of names; got {columns!r}. Pass [{columns!r}].")
    source = ParquetFiles(path)
    available = next(iter(source.schemas.values())).names
    names = [name for name in available if name != target] if columns is None else list(columns)
    if target in names:
        raise ValueError(f"`columns` has the target {target!r}, which cannot be an input, too; leave it out.")
    if not names:
        raise ValueError(f"`columns` must name at least one input; got {columns!r} and target {target!r}.")
    for file, schema in source.schemas.items():
        missing = [name for name in (*names, target) if name not in schema.names]
        if missing:
            raise ValueError(f"{file} has no column {missing[0]!r}; it has {', '.join(schema.names)}.")

    def pieces(rng: np.random.Generator | None) -> Iterator[Piece]:
        for group in source.order_groups(rng):
            rows = source.read(group, [*names, target])
            X = np.stack([_numbers(rows.column(name), name, group.file) for name in names], axis=1)
            yield Piece(group.start, X, rows.column(target).to_numpy())

    return Stream(pieces, names=names, block_rows=block_rows)


@contextmanager
def parquet_errors(file: Any) -> Iterator[None]:
    """Convert errors of pyarrow to a message that names the file."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{file} is a damaged Parquet file ({reason}); write it again.") from None


def _numbers(column: Any, name: str, file: Path) -> Floats:
    try:
        return np.asarray(as_numbers("X", column.to_numpy()), dtype=np.float64)
    except ValueError:
        raise ValueError(f"column {name!r} of {file} has other values than numbers; leave it out.") from None
