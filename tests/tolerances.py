"""Tolerances by dtype. A test that needs another tolerance derives it beside its assertion."""

import numpy as np

# relative error of the functions of tggm.special and of their first derivatives
SPECIAL = {np.dtype("float32"): 1e-6, np.dtype("float64"): 5e-15}
# iterative engines: stationarity residual, relative to the scale of the shift
SOLVER = {np.dtype("float32"): 2e-5, np.dtype("float64"): 1e-9}
# one linear-algebra operation on a well-conditioned matrix of size below 50
LINALG = {np.dtype("float32"): 2e-5, np.dtype("float64"): 1e-12}
