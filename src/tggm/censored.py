"""`Censored`: targets of which some are limits instead of measurements."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Floats

SIDES = {"left": -1, "none": 0, "right": 1}


@dataclass(frozen=True, eq=False)
class Censored:
    """Values of which some are limits.

    Parameters
    ----------
    value : array_like
        Measurements; limits where `side` is not 0; NaN where the value is missing.
    side : array_like of the same shape
        0 or "none": measured. 1 or "right": the true value is at least `value` (right-censored). −1 or
        "left": it is at most `value`.
    """

    value: ArrayLike
    side: ArrayLike

    def __post_init__(self) -> None:
        sides("side", self.side, np.shape(self.value))


def sides(name: str, side: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Convert sides given as numbers or words to −1, 0 and 1; `name` is the argument's name in errors."""
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
