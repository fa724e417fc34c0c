"""A preparation as JSON, and back with suspicion: what a file says is checked before anything is built."""

import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tggm.arrays import Floats
from tggm.tables.baselines import Baselines
from tggm.tables.columns import Category, Number
from tggm.tables.preparation import Fitted, Preparation
from tggm.tables.target import TASKS, Target

_KINDS = {Number: "number", Category: "category"}


def preparation_to_json(p: Preparation) -> dict[str, Any]:
    """Plain data: dictionaries, lists, strings, numbers, booleans and None."""
    table: dict[str, Any] = _plain(p)
    return table


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        entries = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": _KINDS[type(value)], **entries} if type(value) in _KINDS else entries
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def preparation_from_json(value: Any) -> Preparation:
    """The preparation that gave this data; ValueError with the first thing found wrong."""
    _entries("table", value, "columns", "target", "left_out", "gaps", "baselines", "fitted")
    columns = tuple(_column(item) for item in _list("columns", value["columns"]))
    names = [column.name for column in columns]
    target = _target(value["target"])
    if not columns or len({*names, target.name}) < len(names) + 1:
        raise ValueError("its table must have columns, all of different names")
    left_out = tuple((_text("left_out", a), _text("left_out", b)) for a, b in _pairs(value["left_out"]))
    gaps = tuple(_text("gaps", word) for word in _list("gaps", value["gaps"]))
    width = sum(len(column.features) for column in columns)
    baselines = None if value["baselines"] is None else _baselines(value["baselines"], width, target)
    fitted = None if value["fitted"] is None else _fitted(value["fitted"])
    return Preparation(columns, target, left_out, gaps, baselines, fitted)


def _column(value: Any) -> Number | Category:
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "number":
        _entries("a column", value, "kind", "name", "fill", "indicator")
        return Number(_text("name", value["name"]), _number("fill", value["fill"]), _flag(value["indicator"]))
    if kind != "category":
        raise ValueError(f"a column of its table is of kind {kind!r}, not 'number' or 'category'")
    _entries("a column", value, "kind", "name", "levels", "other", "missing")
    levels = tuple(_text("levels", level) for level in _list("levels", value["levels"]))
    if not levels or len(set(levels)) < len(levels):
        raise ValueError("the levels of a category must be different words")
    return Category(_text("name", value["name"]), levels, _flag(value["other"]), _flag(value["missing"]))


def _target(value: Any) -> Target:
    _entries("target", value, "name", "task", "integer")
    if value["task"] not in TASKS:
        raise ValueError(f"its target is for {value['task']!r}, not for one of {', '.join(TASKS)}")
    return Target(_text("name", value["name"]), value["task"], _flag(value["integer"]))


def _baselines(value: Any, width: int, target: Target) -> Baselines:
    _entries("baselines", value, "naive", "coef", "intercept", "variance")
    naive = _array("naive", value["naive"], 1)
    outputs = len(naive) if target.is_class else 1
    variance = None if value["variance"] is None else _number("variance", value["variance"])
    if not target.is_class and (len(naive) != 2 or naive[1] <= 0 or (variance is not None and variance <= 0)):
        raise ValueError("the baselines of a regression must have a mean and positive variances")
    if value["coef"] is None or value["intercept"] is None:
        return Baselines(naive)
    coef, intercept = _array("coef", value["coef"], 2), _array("intercept", value["intercept"], 1)
    if coef.shape != (outputs, width) or intercept.shape != (outputs,):
        raise ValueError(f"its linear baseline has shape {coef.shape}, not {(outputs, width)}")
    return Baselines(naive, coef, intercept, variance)


def _fitted(value: Any) -> Fitted:
    _entries("fitted", value, "source", "rows", "held_out", "seed", "seconds", "figures")
    counts = [value[name] for name in ("rows", "held_out", "seed")]
    if not all(type(count) is int and count >= 0 for count in counts):
        raise ValueError(f"rows, held-out rows and seed must be counts, not {counts!r}")
    figures = {
        _text("figures", who): {_text("figures", key): _number(key, x) for key, x in _dict(what).items()}
        for who, what in _dict(value["figures"]).items()
    }
    rows, held_out, seed = counts
    seconds = _number("seconds", value["seconds"])
    return Fitted(_text("source", value["source"]), rows, held_out, seed, seconds, figures)


def _entries(what: str, value: Any, *names: str) -> None:
    if not isinstance(value, dict) or set(value) != set(names):
        raise ValueError(f"{what} must have exactly the entries {', '.join(names)}")


def _dict(value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise ValueError("figures must be given by name")
    return value


def _list(what: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} must be a list")
    return value


def _pairs(value: Any) -> list[Any]:
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in _list("left_out", value)):
        raise ValueError("left_out must hold pairs of name and reason")
    return list(value)


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be text, not {value!r}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} must be true or false")
    return value


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{what} must be a finite number, not {value!r}")
    return float(value)


def _array(what: str, value: Any, axes: int) -> Floats:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.ndim != axes or not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite numbers, in {axes} dimensions")
    return array
