"""Targets of which some are limits or intervals instead of measurements, and scores of survival functions."""

from dataclasses import dataclass
from typing import Any

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


def read_limits(y: Any, censored: Any) -> tuple[Floats, Floats, Floats]:
    """Return values, sides and half widths of targets with two parts, (rows,) each; side 2 is an interval.

    `y` is a structured array with an event indicator and a time, as in scikit-survival, or, with
    ``censored="interval"``, has two columns, the ends of the intervals: equal ends are a measurement, and an
    infinite end leaves a limit.
    """
    array = np.asarray(y)
    if names := array.dtype.names:
        kinds = "".join(array.dtype[name].kind for name in names)
        if censored is not None or len(names) != 2 or kinds.count("b") != 1:
            raise ValueError(
                f"`y` is a structured array with the fields {names}; it must have an event indicator (bool) "
                "and a time, and `censored` must be None."
            )
        event, time = array[names[kinds.index("b")]], array[names[1 - kinds.index("b")]]
        return np.asarray(time, np.float64), np.where(event, 0.0, 1.0), np.zeros(len(array))
    if censored != "interval":
        raise ValueError(f"`censored` must be 'interval' or an array of sides; got {censored!r}.")
    ends = np.asarray(array, np.float64)
    if ends.ndim != 2 or ends.shape[1] != 2 or not (ends[:, 0] <= ends[:, 1]).all():
        raise ValueError(
            "`y` must have two columns with `censored='interval'`, lower <= upper ends without NaN; got "
            f"shape {ends.shape}."
        )
    low, high = ends.T
    open_low, open_high = np.isinf(low), np.isinf(high)
    if (open_low & open_high).any() or (low == np.inf).any() or (high == -np.inf).any():
        raise ValueError("`y` has a row without a finite end; leave such rows out.")
    side = np.select([low == high, open_low, open_high], [0.0, -1.0, 1.0], 2.0)
    low, high = np.where(open_low, high, low), np.where(open_high, low, high)
    return 0.5 * (low + high), side, 0.5 * (high - low)
