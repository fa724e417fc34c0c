"""Truncated Gaussian graphical models: nonlinear regression and classification that know how sure they are.

Names are looked up when first used, so that `import tggm` costs nothing and the parts cost what they need.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tggm.deployment.export import export_onnx as export_onnx
    from tggm.estimators import TGGMClassifier as TGGMClassifier
    from tggm.estimators import TGGMRegressor as TGGMRegressor
    from tggm.estimators import fit_together as fit_together
    from tggm.files import ModelFileError as ModelFileError
    from tggm.files import load as load
    from tggm.files import save as save
    from tggm.gaussian import TruncatedGaussian as TruncatedGaussian
    from tggm.graph import Censored as Censored
    from tggm.graph import Graph as Graph
    from tggm.graph import fit_graph as fit_graph
    from tggm.tables import TableTransformer as TableTransformer
    from tggm.tables import TableWarning as TableWarning
    from tggm.truncated_normal import MultivariateTruncatedNormal as MultivariateTruncatedNormal

__version__ = "0.2.0"

_HOME = {
    "Censored": "tggm.models.graph",
    "Graph": "tggm.graph",
    "ModelFileError": "tggm.files",
    "MultivariateTruncatedNormal": "tggm.truncated_normal",
    "TGGMClassifier": "tggm.estimators",
    "TGGMRegressor": "tggm.estimators",
    "TableTransformer": "tggm.tables",
    "TableWarning": "tggm.tables",
    "TruncatedGaussian": "tggm.gaussian",
    "export_onnx": "tggm.deployment.export",
    "fit_graph": "tggm.graph",
    "fit_together": "tggm.estimators",
    "load": "tggm.files",
    "save": "tggm.files",
}

__all__ = [
    "Censored",
    "Graph",
    "ModelFileError",
    "MultivariateTruncatedNormal",
    "TGGMClassifier",
    "TGGMRegressor",
    "TableTransformer",
    "TableWarning",
    "TruncatedGaussian",
    "__version__",
    "export_onnx",
    "fit_graph",
    "fit_together",
    "load",
    "save",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tggm' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
