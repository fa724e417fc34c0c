"""Labels of a classifier as a model file holds them."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LABEL_DTYPE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|object|[<>]?U[0-9]{1,9}")


def stored_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Labels as a model file holds them."""
    values: list[Any] = classes.tolist()
    if not all(isinstance(value, str | bool | int | float) for value in values):
        kinds = sorted({type(value).__name__ for value in values})
        raise TypeError(f"labels of type {', '.join(kinds)} cannot be stored; use strings or numbers")
    return {"classes": values, "class_dtype": str(classes.dtype)}


def restored_classes(meta: Mapping[str, Any]) -> NDArray[Any]:
    """The labels of a model file."""
    name = str(meta["class_dtype"])
    if not _LABEL_DTYPE.fullmatch(name):  # NumPy would interpret more than we write
        raise ValueError(f"labels of dtype {name[:20]!r} are not known")
    # text as wide as it is, not as a file claims
    classes = np.asarray(meta["classes"], dtype=str if "U" in name else np.dtype(name))
    if classes.ndim != 1 or len(classes) < 2 or len(set(classes.tolist())) != len(classes):
        raise ValueError("labels must be at least two different ones")
    return classes
