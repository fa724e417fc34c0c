"""Checks of settings that are numbers or words; every message names argument, value and remedy."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of a few words."""
    options = sorted(allowed)
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, options))}; got {value!r}.")
    return value


def count(name: str, value: Any, *, least: int = 1) -> int:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"`{name}` must be an integer of at least {least}; got {value!r}.")
    return int(value)


def number(
    name: str, value: Any, *, above: float = -np.inf, least: float = -np.inf, below: float = np.inf
) -> float:
    """A finite real number within bounds."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise ValueError(f"`{name}` must be a number; got {value!r}.")
    x = float(value)
    if not (np.isfinite(x) and x > above and x >= least and x < below):
        bounds = {"greater than": above, "at least": least, "less than": below}
        wanted = " and ".join(f"{words} {bound:g}" for words, bound in bounds.items() if np.isfinite(bound))
        raise ValueError(f"`{name}` must be finite and {wanted}; got {value!r}.")
    return x


def flag(name: str, value: Any) -> bool:
    """True or False, or the numbers that stand for them."""
    if not isinstance(value, bool | np.bool_ | Integral) or value not in (0, 1):
        raise ValueError(f"`{name}` must be True or False; got {value!r}.")
    return bool(value)


def precision(value: Any) -> str:
    """Single or double precision, as a word or a NumPy type."""
    name = str(np.dtype(value)) if isinstance(value, type | np.dtype) else value
    return one_of("dtype", name, ("float32", "float64"))
