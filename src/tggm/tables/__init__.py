"""Read tables and turn their columns into numbers.

`read_table` reads CSV, Parquet and Excel files as a `Table`; `TableTransformer` learns the kind of each
column and encodes tables. A model file stores the result (`preparation_to_json`, `preparation_from_json`).
"""

from tggm.tables.errors import TableError as TableError
from tggm.tables.errors import TableWarning as TableWarning
from tggm.tables.reading import read_table as read_table
from tggm.tables.schema import FitRecord as FitRecord
from tggm.tables.schema import Preparation as Preparation
from tggm.tables.schema import preparation_from_json as preparation_from_json
from tggm.tables.schema import preparation_to_json as preparation_to_json
from tggm.tables.table import Table as Table
from tggm.tables.target import Target as Target
from tggm.tables.target import choose_target as choose_target
from tggm.tables.transformer import TableTransformer as TableTransformer
from tggm.tables.transformer import sample_transformer as sample_transformer
from tggm.tables.transformer import training_features as training_features

__all__ = [
    "FitRecord",
    "Preparation",
    "Table",
    "TableError",
    "TableTransformer",
    "TableWarning",
    "Target",
    "choose_target",
    "preparation_from_json",
    "preparation_to_json",
    "read_table",
    "sample_transformer",
    "training_features",
]
