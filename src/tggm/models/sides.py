"""Which side of a limit the truth is on: −1 at most, 0 measured, 1 at least."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

SIDES = {"left": -1, "none": 0, "right": 1}


def sides(name: str, side: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Flags −1, 0, +1 from numbers or words; errors name the argument."""
    array = np.asarray(side)
    if array.dtype.kind in "US":
        unknown = sorted(set(np.unique(array).tolist()) - SIDES.keys())
        if unknown:
            raise ValueError(f"`{name}`: sides are 'left', 'none' or 'right'; got {unknown[0]!r}.")
        array = np.vectorize(SIDES.__getitem__, otypes=[float])(array)
    array = np.asarray(array, np.float64)
    if array.size != np.prod(shape) or not np.isin(array, (-1, 0, 1)).all():
        raise ValueError(
            f"`{name}`: sides must be -1 (at most), 0 (measured) or 1 (at least), shape {shape}; "
            f"got shape {array.shape}."
        )
    return array.reshape(shape)
