"""Columns of a table in an ONNX graph: what each expects, and the numbers that the model sees of it.

An input has the name of its column and the shape (rows, 1): numbers with NaN for gaps, words with "" for
gaps, dates as days since 1970-01-01. Numbers with marks have a second input, of the marks.
"""

from functools import singledispatch

import numpy as np

from tggm.arrays import Floats
from tggm.deployment.graph import GraphValue, OnnxArithmetic
from tggm.tables.columns import LENGTH, YEAR, Category, Column, DateColumn, Number, Ordinal, Statistic
from tggm.tables.target_encoding import TargetEncoding

GAP = ""


def inputs_of(column: Column) -> dict[str, bool]:
    """Names of what a column expects, and whether these are words."""
    if isinstance(column, Number) and column.marks:
        return {column.name: False, f"{column.name}: mark": True}
    return {column.name: isinstance(column, Category | Ordinal | Statistic)}


@singledispatch
def encoded(column: Column, ops: OnnxArithmetic, *given: GraphValue) -> list[GraphValue]:
    """The columns that the model sees, (rows, ·) each."""
    raise ValueError(f"column {column.name!r} is {column.description}, which cannot be exported.")


@encoded.register
def _(
    column: Number, ops: OnnxArithmetic, given: GraphValue, mark: GraphValue | None = None
) -> list[GraphValue]:
    gaps = ops.node("IsNaN", given)
    filled = ops.where(gaps, ops.constant(column.fill), given)
    ranked = [_interpolated(ops, filled, column.knots, column.ranks)] if column.knots else []
    encoded = [] if column.encoding is None else [_target_encoding(ops, given, column.encoding)]
    if mark is None:
        return [filled, *ranked, *[_indicator(ops, gaps)] * column.indicator, *encoded]
    code = _code(ops, mark, column.marks, other=-1, gap=-1)
    places = ops.constant(np.arange(len(column.marks)), np.int64)
    bare = ops.node("And", gaps, ops.node("Less", code, ops.constant(0, np.int64)))
    marked = _indicator(ops, ops.node("Equal", code, places))
    return [filled, *ranked, *[_indicator(ops, bare)] * column.indicator, marked, *encoded]


def _target_encoding(ops: OnnxArithmetic, x: GraphValue, encoding: TargetEncoding) -> GraphValue:
    """Return the encoding of all other numbers plus the difference at each level."""
    value = np.asarray(encoding.values)
    there = _indicator(ops, ops.node("Equal", x, ops.constant(np.asarray(encoding.levels))))
    found: GraphValue = there @ ops.constant(value[:-1] - value[-1]) + value[-1]
    return found


def _interpolated(ops: OnnxArithmetic, x: GraphValue, knots: tuple[float, ...], values: Floats) -> GraphValue:
    """Linear between knots and constant beyond: a ramp between 0 and 1 for each step."""
    low, step = np.asarray(knots[:-1]), np.diff(knots)
    ramp = ops.minimum(ops.maximum((x - low) / step, 0.0), 1.0)
    found: GraphValue = ops.sum(ramp * np.diff(values), axis=1) + float(values[0])
    return found


@encoded.register
def _(column: Category, ops: OnnxArithmetic, given: GraphValue) -> list[GraphValue]:
    n = len(column.levels)
    code = _code(ops, given, column.levels, other=n if column.other else -2, gap=n + column.other)
    places = ops.constant(np.arange(len(column.categories)), np.int64)
    return [_indicator(ops, ops.node("Equal", code, places))]


@encoded.register
def _(column: Ordinal, ops: OnnxArithmetic, given: GraphValue) -> list[GraphValue]:
    code = _code(ops, given, column.levels, other=-1, gap=-1)
    gaps = ops.node("Less", code, ops.constant(0, np.int64))
    place = _indicator(ops, code)
    return [ops.where(gaps, ops.constant(column.fill), place), *[_indicator(ops, gaps)] * column.indicator]


@encoded.register
def _(column: Statistic, ops: OnnxArithmetic, given: GraphValue) -> list[GraphValue]:
    n = len(column.levels)
    code = _code(ops, given, column.levels, other=n, gap=n + 1)
    table = ops.constant(column.lookup)
    return [ops.node("Gather", table, ops.node("Squeeze", code, ops.constant([1], np.int64)), axis=0)]


@encoded.register
def _(column: DateColumn, ops: OnnxArithmetic, given: GraphValue) -> list[GraphValue]:
    gaps, zero = ops.node("IsNaN", given), ops.constant(0.0)
    parts = [ops.where(gaps, ops.constant(column.fill), (given - column.origin) / YEAR)]
    for part in column.parts:
        angle = given * (2 * np.pi / LENGTH[part])
        parts += [ops.where(gaps, zero, ops.cos(angle - late)) for late in (np.pi / 2, 0.0)]
    return [*parts, *[_indicator(ops, gaps)] * column.indicator]


def _code(
    ops: OnnxArithmetic, given: GraphValue, levels: tuple[str, ...], *, other: int, gap: int
) -> GraphValue:
    """The number of each word."""
    keys, values = [*levels, GAP], [*range(len(levels)), gap]
    return ops.node(
        "LabelEncoder",
        given,
        domain="ai.onnx.ml",
        keys_strings=keys,
        values_int64s=values,
        default_int64=other,
    )


def _indicator(ops: OnnxArithmetic, x: GraphValue) -> GraphValue:
    """As a number of double precision."""
    return ops.number(x)
