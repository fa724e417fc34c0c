"""Convert the table section of a model file to JSON and back, checking all of it.

The fields of the dataclasses and their types define what a file may contain; relations between values are
checked by the dataclasses themselves and by `preparation_from_json`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import accumulate
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from tggm.tables.baselines import Baselines, Figures
from tggm.tables.columns import COLUMNS, Column
from tggm.tables.target import TASKS, Target

_AXES = {"naive": 1, "coef": 2, "intercept": 1}
_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("text", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a count", lambda value: type(value) is int and value >= 0),
    float: ("a finite number", lambda value: type(value) in (int, float) and math.isfinite(value)),
}


@dataclass(frozen=True)
class FitRecord:
    """What `tggm fit` stores about a fit: source, numbers of rows, and scores on held-out rows."""

    source: str
    rows: int
    held_out: int
    seed: int
    seconds: float
    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True)
class Preparation:
    """A fitted `TableTransformer` and its target, as a model file stores them."""

    columns: tuple[Column, ...]
    target: Target
    left_out: tuple[tuple[str, str], ...] = ()  # name and reason
    gaps: tuple[str, ...] = ()  # words that are missing values, besides the usual ones
    names: tuple[str, ...] = ()  # of all input columns, in order
    named: bool = True  # false for the columns of an array
    notes: tuple[str, ...] = ()  # of the fit
    baselines: Baselines | None = None
    fitted: FitRecord | None = None

    @property
    def feature_names(self) -> list[str]:
        """Return the names of the model's inputs."""
        return [name for column in self.columns for name in column.features]

    @property
    def groups(self) -> dict[str, dict[str, int]]:
        """Return the inputs of each column of words: the position of each category."""
        return {
            c.name: dict(zip(c.categories, at, strict=True)) for c, at in self._positions() if c.categories
        }

    @property
    def parts(self) -> dict[str, tuple[int, ...]]:
        """Return the positions of the inputs of each other column that has several."""
        return {c.name: tuple(at) for c, at in self._positions() if len(at) > 1 and not c.categories}

    def _positions(self) -> list[tuple[Column, range]]:
        ends = accumulate(len(column.features) for column in self.columns)
        return [(c, range(end - len(c.features), end)) for c, end in zip(self.columns, ends, strict=True)]


def preparation_to_json(p: Preparation) -> dict[str, Any]:
    """Return dictionaries, lists, strings, numbers, booleans and None."""
    table: dict[str, Any] = _plain(p)
    return table


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        entries = [("kind", name) for name, column in COLUMNS.items() if isinstance(value, column)]
        return dict(entries + [(f.name, _plain(getattr(value, f.name))) for f in fields(value)])
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def preparation_from_json(value: Any) -> Preparation:
    """Build the object that gave this data; raise ValueError for the first error found."""
    found: Preparation = _build(Preparation, "table", value)
    target, names = found.target, [column.name for column in found.columns]
    if not names or len({*names, target.name}) < len(names) + 1:
        raise ValueError("its table must have columns, all of different names")
    if target.task not in TASKS:
        raise ValueError(f"its target is for {target.task!r}, not for one of {', '.join(TASKS)}")
    if found.baselines is not None:
        _check_baselines(found.baselines, len(found.feature_names), target.is_class)
    return found


def _check_baselines(b: Baselines, width: int, is_class: bool) -> None:
    naive, variance = b.naive, 1.0 if b.variance is None else b.variance
    if not is_class and (len(naive) != 2 or naive[1] <= 0 or variance <= 0):
        raise ValueError("the baselines of a regression must have a mean and positive variances")
    outputs = len(naive) if is_class else 1
    coef, intercept = b.coef, b.intercept
    if coef is None or intercept is None:
        if coef is not None or intercept is not None:
            raise ValueError("its linear baseline must have coefficients and intercepts, or neither")
    elif coef.shape != (outputs, width) or intercept.shape != (outputs,):
        raise ValueError(f"its linear baseline has shape {coef.shape}, not {(outputs, width)}")


def _build(cls: Any, what: str, value: Any, *more: str) -> Any:
    """Build an object from a dictionary of its fields; `more` are further entries that must be there."""
    hints = get_type_hints(cls)
    if not isinstance(value, dict) or set(value) != {*more, *hints}:
        raise ValueError(f"{what} must have exactly the entries {', '.join([*more, *hints])}")
    return cls(**{name: _read(hint, name, value[name]) for name, hint in hints.items()})


def _read(hint: Any, what: str, value: Any) -> Any:
    """Convert a JSON value to the type of an annotation."""
    kind, parts = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        words, fits = _PLAIN[hint]
        if not fits(value):
            raise ValueError(f"{what} must be {words}, not {value!r}")
        return hint(value)
    if hint is Column:
        name = value.get("kind") if isinstance(value, dict) else None
        if not isinstance(name, str) or name not in COLUMNS:
            raise ValueError(f"a column of its table is of kind {name!r}, not one of {', '.join(COLUMNS)}")
        return _build(COLUMNS[name], "a column", value, "kind")
    if is_dataclass(hint):
        return _build(hint, what, value)
    if kind is UnionType and NoneType in parts:
        return None if value is None else _read(parts[0], what, value)
    if kind is dict:
        if not isinstance(value, dict):
            raise ValueError(f"{what} must be given by name")
        return {_read(str, what, key): _read(parts[1], key, item) for key, item in value.items()}
    return _read_tuple(parts, what, value) if kind is tuple else _read_array(what, value)


def _read_tuple(parts: tuple[Any, ...], what: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{what} must be a list")
    if parts[-1] is ...:
        return tuple(_read(parts[0], what, item) for item in value)
    if len(value) != len(parts):
        raise ValueError(f"{what} must hold pairs of name and reason")
    return tuple(_read(part, what, item) for part, item in zip(parts, value, strict=True))


def _read_array(what: str, value: Any) -> Any:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.ndim != _AXES[what] or not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite numbers, in {_AXES[what]} dimensions")
    return array
