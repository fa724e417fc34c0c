"""From the scale of the model to the units of the target, with the operations of an `Arithmetic`.

A target y = T⁻¹(shift + scale · z) has the quantiles of z, mapped. Mean and deviation are in closed form
where there is one (no transform; lognormal distributions) and quadratures otherwise, as in
`tggm.predictive.transformed`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tggm.deployment.arithmetic import Arithmetic, Value
from tggm.deployment.laws import Law
from tggm.predictive.transforms import Transform

N_NODES = 241  # of the quadrature
REACH = float(np.arcsinh(60.0))  # it ends 60 widths from the median
_LARGEST = 709.0  # exponent of which the exponential is finite
_SMALLEST = 1e-100  # power that is taken for 0


class Units(NamedTuple):
    """Of one output: y = T⁻¹(shift + scale · z)."""

    shift: float
    scale: float
    transform: Transform | None


class MeanAndDeviation(NamedTuple):
    """Mean and standard deviation in the units of the target, (rows, 1) each."""

    mean: Value
    deviation: Value


def in_units(ops: Arithmetic, units: Units, z: Value) -> Value:
    """The targets that these z stand for."""
    v = z * units.scale + units.shift
    return v if units.transform is None else INVERSES[units.transform.kind](ops, units.transform, v)


def point(ops: Arithmetic, units: Units, law: Law) -> MeanAndDeviation:
    """Mean and deviation of the target."""
    if units.transform is None and (known := law.moments()):
        return MeanAndDeviation(known[0] * units.scale + units.shift, ops.sqrt(known[1]) * units.scale)
    if units.transform is not None and units.transform.kind == "log":
        first, second = (law.log_mean_exp(order * units.scale) for order in (1.0, 2.0))
        if first is not None:
            mean = ops.exp(first + units.shift)
            return MeanAndDeviation(mean, mean * ops.sqrt(ops.exp(second - first * 2.0) - 1.0))
    return _by_quadrature(ops, units, law)


def _by_quadrature(ops: Arithmetic, units: Units, law: Law) -> MeanAndDeviation:
    """The trapezoid rule in t, z = median + width · sinh t."""
    ends = law.quantiles([0.16, 0.5, 0.84])
    low, median, high = (ends @ ops.constant(np.eye(3)[:, [k]]) for k in range(3))
    t = np.linspace(-REACH, REACH, N_NODES)
    z = median + (high - low) * 0.5 * ops.constant(np.sinh(t))
    p = ops.exp(law.log_density(z)) * ops.constant(np.cosh(t))
    p = p / ops.sum(p, -1)
    y = in_units(ops, units, z)
    mean = ops.sum(p * y, -1)
    away = y - mean
    return MeanAndDeviation(mean, ops.sqrt(ops.sum(p * away * away, -1)))


def _exponential(ops: Arithmetic, transform: Transform, v: Value) -> Value:
    return ops.exp(ops.minimum(v, ops.constant(_LARGEST)))


def _power(ops: Arithmetic, transform: Transform, v: Value) -> Value:
    """Yeo and Johnson's power backwards."""
    power, loc, scale = transform.numbers
    zero = ops.constant(0.0)
    up, down = _root(ops, ops.maximum(v, zero), power), _root(ops, ops.maximum(-v, zero), 2 - power)
    return ops.where(v < 0.0, -down, up) * scale + loc


def _root(ops: Arithmetic, v: Value, p: float) -> Value:
    """The u with ((1 + u)^p − 1)/p = v."""
    log = v if p < _SMALLEST else ops.log(v * p + 1.0) / p
    return ops.exp(ops.minimum(log, ops.constant(_LARGEST))) - 1.0


INVERSES: dict[str, Callable[[Arithmetic, Transform, Value], Value]] = {
    "identity": lambda ops, transform, v: v,
    "log": _exponential,
    "yeo-johnson": _power,
}
