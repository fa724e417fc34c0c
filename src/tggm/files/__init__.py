"""Model files: one safetensors file of arrays and a JSON header; no code is stored or run.

`save` writes a fitted estimator, `load` gives back one that predicts bit-identically. An estimator class
takes part by offering

    to_state() -> (arrays: dict[str, np.ndarray], meta: dict that JSON can hold)
    from_state(arrays, meta) -> estimator            (a classmethod)

and by being exported from `tggm.estimators`: a file names its class, and only those names are looked up.
JSON has no tuples; `from_state` gets lists. A model that was fitted to a table (`tggm fit`) has one more
entry in its header, `table`, which says how the columns become inputs; `load_table_model` returns it too.
"""

from tggm.files.models import load as load
from tggm.files.models import load_table_model as load_table_model
from tggm.files.models import model_file as model_file
from tggm.files.models import parse_model as parse_model
from tggm.files.models import save as save
from tggm.storage.container import ModelFileError as ModelFileError

__all__ = ["ModelFileError", "load", "load_table_model", "model_file", "parse_model", "save"]
