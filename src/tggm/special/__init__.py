"""Numbers in, numbers out: functions of the univariate normal truncated to h >= 0, or to a box.

Names are looked up when first used: the fitted tails (`fits`) are read without JAX, too.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tggm.special.box_quantile import box_quantile as box_quantile
    from tggm.special.boxes import box_entropy as box_entropy
    from tggm.special.boxes import box_log_z as box_log_z
    from tggm.special.boxes import box_mean as box_mean
    from tggm.special.boxes import box_moments as box_moments
    from tggm.special.boxes import box_third as box_third
    from tggm.special.boxes import box_var as box_var
    from tggm.special.boxes import log_ndtr_interval as log_ndtr_interval
    from tggm.special.characteristic import complex_moments as complex_moments
    from tggm.special.characteristic import log_characteristic as log_characteristic
    from tggm.special.partition import truncated_entropy as truncated_entropy
    from tggm.special.partition import truncated_log_z as truncated_log_z
    from tggm.special.truncated import hazard as hazard
    from tggm.special.truncated import log_ndtr as log_ndtr
    from tggm.special.truncated import standard_moments as standard_moments
    from tggm.special.truncated import truncated_mean as truncated_mean
    from tggm.special.truncated import truncated_third as truncated_third
    from tggm.special.truncated import truncated_var as truncated_var

_HOME = {
    "box_quantile": "box_quantile",
    "box_entropy": "boxes",
    "box_log_z": "boxes",
    "box_mean": "boxes",
    "box_moments": "boxes",
    "box_third": "boxes",
    "box_var": "boxes",
    "log_ndtr_interval": "boxes",
    "complex_moments": "characteristic",
    "log_characteristic": "characteristic",
    "truncated_entropy": "partition",
    "truncated_log_z": "partition",
    "hazard": "truncated",
    "log_ndtr": "truncated",
    "standard_moments": "truncated",
    "truncated_mean": "truncated",
    "truncated_third": "truncated",
    "truncated_var": "truncated",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tggm.special' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tggm.special.{_HOME[name]}"), name)
    globals()[name] = value  # a module that is called like its function would stand here otherwise
    return value
