"""Checks of constructor arguments, made once in `fit`; every message names argument, value and remedy."""

from collections.abc import Iterable
from numbers import Integral
from os import PathLike, fspath
from typing import Any

import numpy as np

from tggm.training.settings import count as count
from tggm.training.settings import flag as flag
from tggm.training.settings import number as number
from tggm.training.settings import one_of as one_of
from tggm.training.settings import precision as precision


def count_or_auto(name: str, value: Any) -> None:
    """An integer of at least 1, or "auto"."""
    if value != "auto":
        count(name, value)


def optimizer(value: Any, names: Iterable[str]) -> Any:
    """A name, or an object with the two methods of an optax optimiser."""
    if not (hasattr(value, "init") and hasattr(value, "update")):
        one_of("optimizer", value, names)
    return value


def layers(value: Any) -> tuple[int, ...]:
    """Sizes of the hidden layers; an integer means one layer."""
    sizes = (value,) if isinstance(value, Integral) else value
    try:
        found = tuple(count("hidden", size) for size in sizes)
    except (TypeError, ValueError):
        found = ()
    if not found:
        raise ValueError(
            "`hidden` must be a number of units, or one for each layer, at least 1 each, as 50 or (50, 50); "
            f"got {value!r}."
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


def noise_variance(value: Any, n_outputs: int) -> np.ndarray | None:
    """A fixed noise variance for each output, or None when it is to be learned."""
    if value is None:
        return None
    try:
        noise = np.broadcast_to(np.asarray(value, dtype=np.float64), (n_outputs,))
    except (TypeError, ValueError):
        raise ValueError(
            f"`noise` must be None (learned), a variance, or one per output ({n_outputs}); got {value!r}."
        ) from None
    if not (np.isfinite(noise) & (noise > 0)).all():
        raise ValueError(
            f"`noise` is the variance of the output noise and must be positive; got {value!r}. "
            "Pass None to learn it."
        )
    return noise


def checkpoint(path: Any, random_state: Any) -> None:
    """Where a fit keeps its state, if anywhere; only a fit that can be repeated can be gone on with."""
    if path is None:
        return
    name = fspath(path) if isinstance(path, str | PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"`checkpoint` must be None or the name of a file; got {path!r}.")
    if not isinstance(random_state, Integral):
        raise ValueError(
            "`checkpoint` needs a fixed `random_state`, as 0, to go on with the same fit; "
            f"got {random_state!r}."
        )


def plain(value: Any) -> Any:
    """A setting as JSON holds it: NumPy scalars, arrays and tuples become numbers and lists."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, np.dtype | type):
        return str(np.dtype(value))
    return value
