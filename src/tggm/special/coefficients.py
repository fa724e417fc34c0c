"""Coefficients of the fitted functions, read from coefficients.json without importing JAX.

`tools/precompute/coefficients.py` computes and writes the file.
"""

import json
from importlib.resources import files
from typing import Any

Fit = tuple[float, float, tuple[float, ...]]

_DATA: dict[str, Any] = json.loads((files("tggm.special") / "coefficients.json").read_text())

# (start, c, coefficients) of each tail fit, by dtype and name; see `tggm.special.kernels`
FITS: dict[str, dict[str, Fit]] = {
    dtype: {name: (fit["start"], fit["c"], tuple(fit["coefficients"])) for name, fit in fits.items()}
    for dtype, fits in _DATA["tails"].items()
}
# coefficients of x^i, a row for each power of eps; see `tggm.special.box_kernels`
NARROW: dict[str, dict[str, list[list[float]]]] = _DATA["narrow"]
ERFCX: list[float] = _DATA["erfcx"]
SURVIVAL_QUANTILE: dict[str, Any] = _DATA["survival_quantile"]
