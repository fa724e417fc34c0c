"""Functions of the univariate normal truncated to h >= 0, or to a box.

Names are imported when first used, so that `tggm.special.coefficients` can be read without JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tggm.special.boxes import box_entropy as box_entropy
    from tggm.special.boxes import box_log_z as box_log_z
    from tggm.special.boxes import box_mean as box_mean
    from tggm.special.boxes import box_moments as box_moments
    from tggm.special.boxes import box_third as box_third
    from tggm.special.boxes import box_var as box_var
    from tggm.special.boxes import log_ndtr_interval as log_ndtr_interval
    from tggm.special.characteristic import complex_moments as complex_moments
    from tggm.special.characteristic import log_characteristic as log_characteristic
    from tggm.special.quantile import box_quantile as box_quantile
    from tggm.special.truncated import hazard as hazard
    from tggm.special.truncated import log_ndtr as log_ndtr
    from tggm.special.truncated import standard_moments as standard_moments
    from tggm.special.truncated import truncated_entropy as truncated_entropy
    from tggm.special.truncated import truncated_log_z as truncated_log_z
    from tggm.special.truncated import truncated_mean as truncated_mean
    from tggm.special.truncated import truncated_third as truncated_third
    from tggm.special.truncated import truncated_var as truncated_var

_MODULES = {
    "boxes": "box_entropy box_log_z box_mean box_moments box_third box_var log_ndtr_interval",
    "characteristic": "complex_moments log_characteristic",
    "quantile": "box_quantile",
    "truncated": "hazard log_ndtr standard_moments truncated_entropy truncated_log_z truncated_mean "
    "truncated_third truncated_var",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tggm.special' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tggm.special.{_HOME[name]}"), name)
