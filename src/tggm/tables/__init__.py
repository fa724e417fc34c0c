"""Read tables and convert their columns to numbers.

`read_table` reads CSV, Parquet and Excel files as a `Table`; `TableTransformer` learns the kind of each
column and encodes tables. A model file stores the result (`preparation_to_json`, `preparation_from_json`).
"""

import importlib
from typing import TYPE_CHECKING, Any

from tggm.tables.reading import read_table
from tggm.tables.schema import FitRecord, Preparation, preparation_from_json, preparation_to_json
from tggm.tables.table import Table, TableError, TableWarning, Target, choose_target

if TYPE_CHECKING:
    from tggm.tables.transformer import TableTransformer, stream_transformer, training_features

_LEARNING = ("TableTransformer", "stream_transformer", "training_features")  # these need scikit-learn
__all__ = [
    "FitRecord", "Preparation", "Table", "TableError", "TableTransformer", "TableWarning", "Target",
    "choose_target", "preparation_from_json", "preparation_to_json", "read_table", "stream_transformer",
    "training_features",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LEARNING:
        raise AttributeError(f"module 'tggm.tables' has no attribute {name!r}")
    return getattr(importlib.import_module("tggm.tables.transformer"), name)
