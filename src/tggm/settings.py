"""Checks of arguments; every message names argument, value and remedy."""

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from os import PathLike, fspath
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


def counts_or_auto(given: Mapping[str, Any], *names: str) -> None:
    """Integers of at least 1, or "auto"; patience may be None."""
    for name in names:
        if given[name] != "auto" and not (name == "patience" and given[name] is None):
            count(name, given[name])


def standardize(value: Any, *, whole: bool) -> None:
    """True or False, "robust", or "whole" where that is known."""
    words = ("robust", "whole") if whole else ("robust",)
    if not (value in words if isinstance(value, str) else isinstance(value, bool | np.bool_ | Integral)):
        listed = ", ".join(map(repr, words))
        raise ValueError(f"`standardize` must be {listed}, True or False; got {value!r}.")
    if not isinstance(value, str):
        flag("standardize", value)


def flag_or_auto(name: str, value: Any) -> bool | None:
    """True or False; None for "auto"."""
    return None if isinstance(value, str) and value == "auto" else flag(name, value)


def word_or_none(name: str, value: Any, allowed: Iterable[Any]) -> str | None:
    """One of a few words, or None."""
    return None if value is None else one_of(name, value, [word for word in allowed if word is not None])


def optimizer(value: Any, names: Iterable[str]) -> Any:
    """A name, or an object with the two methods of an optax optimiser."""
    if not (hasattr(value, "init") and hasattr(value, "update")):
        one_of("optimizer", value, names)
    return value


def layers(value: Any) -> tuple[int, ...] | None:
    """Sizes of the hidden layers; an integer means one layer, "auto" none that are known yet."""
    if isinstance(value, str) and value == "auto":
        return None
    sizes = (value,) if isinstance(value, Integral) else value
    try:
        found = tuple(count("hidden", size) for size in sizes)
    except (TypeError, ValueError):
        found = ()
    if not found:
        raise ValueError(
            "`hidden` must be 'auto', a number of units, or one for each layer, at least 1 each, as 50 or "
            f"(50, 50); got {value!r}."
        )
    return found


def cycles(value: Any) -> tuple[int, int]:
    """First and last number of cycles, from a number or a pair."""
    ends = tuple(value) if isinstance(value, tuple | list | np.ndarray) else (value, value)
    if len(ends) != 2:
        raise ValueError(f"`n_cycles` must be a number or (first, last), as (30, 5); got {value!r}.")
    return count("n_cycles", ends[0]), count("n_cycles", ends[1])


def gauge(value: Any, most: float) -> float:
    """σ0² of a σ0 whose square, and its inverse, are numbers that can be computed with."""
    sigma0 = number("sigma0", value, above=0)
    if not 1 / most <= sigma0 <= most:
        raise ValueError(
            f"`sigma0` must be between {1 / most:g} and {most:g}; got {value!r}. It is a matter of scale "
            "only: 0.1 to 1 serves all data."
        )
    return sigma0**2


def noise_variance(value: Any, n_outputs: int | None = None) -> np.ndarray | None:
    """A fixed noise variance for each output (of which there may be any number), or None to learn it."""
    if value is None:
        return None
    try:
        noise = np.asarray(value, dtype=np.float64)
        noise = noise if n_outputs is None else np.broadcast_to(noise, (n_outputs,))
    except (TypeError, ValueError):
        raise ValueError(
            "`noise` must be None (learned), a variance, or one per output"
            f"{'' if n_outputs is None else f' ({n_outputs})'}; got {value!r}."
        ) from None
    if not (np.isfinite(noise) & (noise > 0)).all():
        raise ValueError(
            f"`noise` is the variance of the output noise and must be positive; got {value!r}. "
            "Pass None to learn it."
        )
    return noise


def checkpoint(path: Any, random_state: Any, optimizer: Any = "auto") -> None:
    """Check the file of checkpoints; only a fit with a fixed seed and a named optimiser can be resumed."""
    if path is None:
        return
    name = fspath(path) if isinstance(path, str | PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"`checkpoint` must be None or the name of a file; got {path!r}.")
    if not isinstance(random_state, Integral):
        raise ValueError(
            f"`checkpoint` needs a fixed `random_state`, as 0, to resume the same fit; got {random_state!r}."
        )
    if not isinstance(optimizer, str):
        raise ValueError(f"`checkpoint` needs an optimizer by name, as 'adam'; got {optimizer!r}.")


def plain(value: Any) -> Any:
    """A setting as JSON holds it: NumPy scalars, arrays and tuples become numbers and lists."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, np.dtype | type):
        return str(np.dtype(value))
    return value
