"""Truncated Gaussian graphical models: predictions for tables with calibrated uncertainty.

Names are imported on first use (PEP 562), so that `import tggm` is fast.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # importing `typing` takes longer than all else here, and Ctrl-C has no handler yet
if TYPE_CHECKING:
    from typing import Any

    from tggm.censored import Censored as Censored
    from tggm.deployment import export_onnx as export_onnx
    from tggm.estimators import TGGMClassifier as TGGMClassifier
    from tggm.estimators import TGGMRegressor as TGGMRegressor
    from tggm.files import ModelFileError as ModelFileError
    from tggm.files import load as load
    from tggm.files import save as save
    from tggm.gaussian import TruncatedGaussian as TruncatedGaussian
    from tggm.graph import Graph as Graph
    from tggm.graph import fit_graph as fit_graph
    from tggm.tables import TableTransformer as TableTransformer
    from tggm.tables import TableWarning as TableWarning
    from tggm.truncated_normal import MultivariateTruncatedNormal as MultivariateTruncatedNormal
    from tggm.truncated_normal import box_log_prob as box_log_prob

__version__ = "0.3.0"

_NAMES = {
    "tggm.censored": ["Censored"],
    "tggm.deployment": ["export_onnx"],
    "tggm.estimators": ["TGGMClassifier", "TGGMRegressor"],
    "tggm.files": ["ModelFileError", "load", "save"],
    "tggm.gaussian": ["TruncatedGaussian"],
    "tggm.graph": ["Graph", "fit_graph"],
    "tggm.tables": ["TableTransformer", "TableWarning"],
    "tggm.truncated_normal": ["MultivariateTruncatedNormal", "box_log_prob"],
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

_MODULES = ("data", "metrics", "paper", "plotting", "report")  # as tggm.metrics after `import tggm`

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"tggm.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'tggm' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
