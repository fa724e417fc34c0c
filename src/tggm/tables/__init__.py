"""Tables as people have them: reading CSV and Parquet, kinds of columns, and the numbers a model sees.

`read_table` gives a `Table`, `prepare` learns from one how its columns become numbers, and the `Preparation`
that it returns does the same to every later table. A preparation is plain data: it goes into the header of a
model file as JSON and comes back checked (`preparation_to_json`, `preparation_from_json`).
"""

from tggm.tables.errors import TableError as TableError
from tggm.tables.errors import TableWarning as TableWarning
from tggm.tables.preparation import Preparation as Preparation
from tggm.tables.preparation import prepare as prepare
from tggm.tables.reading import read_table as read_table
from tggm.tables.schema import preparation_from_json as preparation_from_json
from tggm.tables.schema import preparation_to_json as preparation_to_json
from tggm.tables.table import Table as Table
from tggm.tables.target import Target as Target
from tggm.tables.target import choose_target as choose_target
from tggm.tables.transformer import TableTransformer as TableTransformer
from tggm.tables.transformer import sample_transformer as sample_transformer
from tggm.tables.transformer import training_features as training_features

__all__ = [
    "Preparation",
    "Table",
    "TableError",
    "TableTransformer",
    "TableWarning",
    "Target",
    "choose_target",
    "preparation_from_json",
    "preparation_to_json",
    "prepare",
    "read_table",
    "sample_transformer",
    "training_features",
]
