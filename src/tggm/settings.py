"""Checks of arguments; every message names the argument, the value and the remedy."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from numbers import Integral, Real
from os import PathLike, fspath
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return the value if it is one of the allowed words."""
    options = sorted(allowed)
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, options))}; got {value!r}.")
    return value


def count(name: str, value: Any, *, least: int = 1) -> int:
    """Return the value if it is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"`{name}` must be an integer of at least {least}; got {value!r}.")
    return int(value)


def number(
    name: str, value: Any, *, above: float = -np.inf, least: float = -np.inf, below: float = np.inf
) -> float:
    """Return the value as a float if it is finite and within the bounds."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise ValueError(f"`{name}` must be a number; got {value!r}.")
    x = float(value)
    if not (np.isfinite(x) and x > above and x >= least and x < below):
        bounds = {"greater than": above, "at least": least, "less than": below}
        wanted = " and ".join(f"{words} {bound:g}" for words, bound in bounds.items() if np.isfinite(bound))
        raise ValueError(f"`{name}` must be finite and {wanted}; got {value!r}.")
    return x


def flag(name: str, value: Any) -> bool:
    """Return True or False; 1 and 0 are accepted."""
    if not isinstance(value, bool | np.bool_ | Integral) or value not in (0, 1):
        raise ValueError(f"`{name}` must be True or False; got {value!r}.")
    return bool(value)


def precision(value: Any) -> str:
    """Return "float32" or "float64", from a word or a NumPy type."""
    name = str(np.dtype(value)) if isinstance(value, type | np.dtype) else value
    return one_of("dtype", name, ("float32", "float64"))


def standardize(value: Any, *, whole: bool) -> None:
    """Check True, False, "robust", or "whole" where it is allowed."""
    words = ("robust", "whole") if whole else ("robust",)
    if not (value in words if isinstance(value, str) else isinstance(value, bool | np.bool_ | Integral)):
        listed = ", ".join(map(repr, words))
        raise ValueError(f"`standardize` must be {listed}, True or False; got {value!r}.")
    if not isinstance(value, str):
        flag("standardize", value)


def or_auto(check: Callable[..., T], name: str, value: Any, **bounds: float) -> T | None:
    """Return the value that `check` returns; None for "auto"."""
    return None if isinstance(value, str) and value == "auto" else check(name, value, **bounds)


def neighbors(value: Any) -> int | None:
    """Return the number of neighbours, 0 for False; None for "auto"."""
    return 0 if value is False else or_auto(count, "neighbors", value)


def n_jobs(value: Any) -> int | None:
    """Return None or a number of workers as joblib counts them: −1 is one for each core."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or not value):
        raise ValueError(f"`n_jobs` must be None, a number of workers, or -1 for all cores; got {value!r}.")
    return None if value is None else int(value)


def word_or_none(name: str, value: Any, allowed: Iterable[Any]) -> str | None:
    """Return one of the allowed words, or None."""
    return None if value is None else one_of(name, value, [word for word in allowed if word is not None])


def hold_out(value: Any) -> Any:
    """Return a fraction of the rows, a number of folds, an object with a method `split`, or None.

    Pairs of rows to train on and rows to hold out become such an object.
    """
    if isinstance(value, list | tuple):
        from sklearn.model_selection import check_cv  # not needed for predictions

        return check_cv(value)
    if value is None or (hasattr(value, "split") and hasattr(value, "get_n_splits")):
        return value
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if whole and value >= 2:
        return int(value)
    if whole or isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"`cv` must be a fraction below 1, two folds or more, or a splitter; got {value!r}.")
    return float(value)


def layers(value: Any) -> tuple[int, ...] | None:
    """Return the sizes of the hidden layers; an integer is one layer; None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    sizes = (value,) if isinstance(value, Integral) else value
    try:
        found = tuple(count("hidden", size) for size in sizes)
    except (TypeError, ValueError):
        found = ()
    if not found:
        raise ValueError(f"`hidden` must be 'auto', or units such as 50 or (50, 50); got {value!r}.")
    return found


def cycles(value: Any) -> tuple[int, int]:
    """Return the first and last number of cycles, from a number or a pair."""
    ends = tuple(value) if isinstance(value, tuple | list | np.ndarray) else (value, value)
    if len(ends) != 2:
        raise ValueError(f"`n_cycles` must be a number or (first, last), for example (30, 5); got {value!r}.")
    return count("n_cycles", ends[0]), count("n_cycles", ends[1])


def gauge(value: Any, most: float) -> float:
    """Validate sigma0 and return its square."""
    sigma0 = number("sigma0", value, above=0)
    if not 1 / most <= sigma0 <= most:
        raise ValueError(f"`sigma0` must be between {1 / most:g} and {most:g}, such as 0.1; got {value!r}.")
    return sigma0**2


def noise_variance(value: Any, n_outputs: int) -> np.ndarray | None:
    """Return a fixed noise variance for each output, or None to learn it."""
    if value is None:
        return None
    with suppress(TypeError, ValueError):
        noise = np.broadcast_to(np.asarray(value, dtype=np.float64), (n_outputs,))
        if (np.isfinite(noise) & (noise > 0)).all():
            return noise
    several = f"or one for each of {n_outputs} outputs"
    raise ValueError(f"`noise` is the variance, positive, {several}, or None (learned); got {value!r}.")


def checkpoint(path: Any, random_state: Any) -> None:
    """Check the file of checkpoints; only a fit with a fixed seed can be resumed."""
    if path is None:
        return
    name = fspath(path) if isinstance(path, str | PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"`checkpoint` must be None or the name of a file; got {path!r}.")
    if not isinstance(random_state, Integral):
        raise ValueError(f"`checkpoint` needs an integer `random_state`, such as 0; got {random_state!r}.")


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator seeded by an integer, a RandomState or None."""
    from sklearn.utils import check_random_state

    state = check_random_state(random_state)
    return np.random.default_rng(state.randint(np.iinfo(np.int32).max, size=4))


def plain(value: Any) -> Any:
    """Return a setting as JSON values: NumPy scalars, arrays and tuples become numbers and lists."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):  # keys of JSON are strings; ours may be numbers
        value = list(value.items())
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, np.dtype | type):
        return str(np.dtype(value))
    return value
