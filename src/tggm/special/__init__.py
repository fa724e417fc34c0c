"""Functions of the univariate normal truncated to h >= 0 or to a box.

Names are imported when first used, so that `tggm.special.coefficients` can be read without JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tggm.special.quantile import truncated_quantile as truncated_quantile
    from tggm.special.truncated import hazard as hazard
    from tggm.special.truncated import log_ndtr as log_ndtr
    from tggm.special.truncated import log_ndtr_interval as log_ndtr_interval
    from tggm.special.truncated import standard_moments as standard_moments
    from tggm.special.truncated import truncated_entropy as truncated_entropy
    from tggm.special.truncated import truncated_log_z as truncated_log_z
    from tggm.special.truncated import truncated_mean as truncated_mean
    from tggm.special.truncated import truncated_var as truncated_var

__all__ = [
    "hazard", "log_ndtr", "log_ndtr_interval", "standard_moments", "truncated_entropy", "truncated_log_z",
    "truncated_mean", "truncated_quantile", "truncated_var",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tggm.special' has no attribute {name!r}")
    home = "quantile" if name == "truncated_quantile" else "truncated"
    return getattr(importlib.import_module(f"tggm.special.{home}"), name)
