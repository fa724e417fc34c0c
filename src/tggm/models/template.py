"""Arrays that have a shape and take no memory: what a model of given sizes consists of."""

from collections.abc import Callable
from typing import Any

import numpy as np

Zeros = Callable[..., Any]  # sizes of the axes in, an array out


def shapes_only(members: int) -> Zeros:
    """A maker of arrays of one repeated zero, with a leading axis of members."""
    zero = np.zeros((), np.float32)
    return lambda *shape: np.broadcast_to(zero, (members, *shape))
