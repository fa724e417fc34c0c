"""Read tables and convert their columns to numbers.

`read_table` reads CSV, Parquet and Excel files as a `Table`; `TableTransformer` learns the kind of each
column and encodes tables. A model file stores the result (`preparation_to_json`, `preparation_from_json`).
"""

from tggm.tables.reading import read_table
from tggm.tables.schema import FitRecord, Preparation, preparation_from_json, preparation_to_json
from tggm.tables.table import Table, TableError, TableWarning, Target, choose_target
from tggm.tables.transformer import TableTransformer, stream_transformer, training_features

__all__ = [
    "FitRecord", "Preparation", "Table", "TableError", "TableTransformer", "TableWarning", "Target",
    "choose_target", "preparation_from_json", "preparation_to_json", "read_table", "stream_transformer",
    "training_features",
]  # fmt: skip
