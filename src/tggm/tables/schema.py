"""Convert the table section of a model file to JSON and back, and check all of it.

The fields of the dataclasses and their types define what a file may contain; relations between values are
checked by the dataclasses themselves and by `preparation_from_json`.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tggm.tables.baselines import Baselines, Figures
from tggm.tables.columns import COLUMNS, Column
from tggm.tables.table import TASKS, Target

_LABEL_DTYPE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|object|[<>]?U[0-9]{1,9}")
_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("text", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a count", lambda value: type(value) is int and value >= 0),
    float: ("a finite number", lambda value: type(value) in (int, float) and math.isfinite(value)),
}


@dataclass(frozen=True)
class FitRecord:
    """Facts about a fit that `tggm fit` stores: source, numbers of rows, and scores on held-out rows."""

    source: str
    rows: int
    held_out: int
    seed: int
    seconds: float
    figures: Figures = field(default_factory=dict)
    positive: str | None = None  # the positive class of the figures, if there are two


@dataclass(frozen=True)
class Preparation:
    """A fitted `TableTransformer` and its target, in the form of model files."""

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


def preparation_to_json(p: Preparation) -> dict[str, Any]:
    """Return dictionaries, lists, strings, numbers, booleans and None."""
    return _plain(p)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        entries = [("kind", name) for name, column in COLUMNS.items() if isinstance(value, column)]
        return dict(entries + [(f.name, _plain(getattr(value, f.name))) for f in fields(value)])
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def preparation_from_json(value: Any) -> Preparation:
    """Build the object from its JSON values; raise ValueError for the first error."""
    found: Preparation = _build(Preparation, "table", value)
    target, names = found.target, [column.name for column in found.columns]
    if not names or len({*names, target.name}) < len(names) + 1:
        raise ValueError("its table must have columns, all of different names")
    if target.task not in TASKS:
        raise ValueError(f"its target is for {target.task!r}, not for one of {', '.join(TASKS)}")
    if found.baselines is not None:
        found.baselines.check(len(found.feature_names), target.is_class)
    return found


def _build(cls: Any, what: str, value: Any, *more: str) -> Any:
    """Build an object from a dictionary of its fields; `more` are further required entries."""
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
            raise ValueError(f"{what} must be an object")
        return {_read(str, what, key): _read(parts[1], key, item) for key, item in value.items()}
    if kind is get_origin(NDArray[Any]):  # an alias of its own since NumPy 2.5
        numbers = np.asarray(_read(tuple[float, ...], what, np.ravel(value).tolist()))
        return numbers.reshape(np.shape(value))
    if not isinstance(value, list):
        raise ValueError(f"{what} must be a list")
    hints = parts[:1] * len(value) if parts[-1] is ... else parts
    if len(value) != len(hints):
        raise ValueError(f"{what} must hold pairs of name and reason")
    return tuple(_read(each, what, item) for each, item in zip(hints, value, strict=True))


def stored_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Return labels as JSON values."""
    strange = {type(label).__name__ for label in classes.tolist()} - {"str", "bool", "int", "float"}
    if strange:
        raise TypeError(f"labels of type {min(strange)} cannot be stored; use strings or numbers")
    return {"classes": classes.tolist(), "class_dtype": str(classes.dtype)}


def restored_classes(meta: Mapping[str, Any]) -> NDArray[Any]:
    """Return the labels of a model file."""
    name = str(meta["class_dtype"])
    if not _LABEL_DTYPE.fullmatch(name):  # NumPy accepts more names than are written
        raise ValueError(f"labels of dtype {name[:20]!r} are not supported")
    # the width of text follows from the values, not from the file
    classes = np.asarray(meta["classes"], dtype=str if "U" in name else np.dtype(name))
    if classes.ndim != 1 or len(classes) < 2 or len(set(classes.tolist())) != len(classes):
        raise ValueError("there must be at least two labels, all different")
    return classes
