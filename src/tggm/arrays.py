"""Names for the arrays that cross the package."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = np.ndarray[Any, np.dtype[np.intp]]
