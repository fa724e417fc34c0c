"""From the scale of the model to the units of the target, with the operations of an `Arithmetic`.

A target y = T⁻¹(shift + scale · z), T the identity or the logarithm, has the mapped quantiles of z. Mean and
deviation are in closed form.
"""

from typing import NamedTuple

from tggm.deployment.arithmetic import Arithmetic, Value
from tggm.deployment.laws import Law
from tggm.predictive.transforms import LogTransform

_LARGEST = 709.0  # exponent of which the exponential is finite


class Units(NamedTuple):
    """Of one output: y = T⁻¹(shift + scale · z)."""

    shift: float
    scale: float
    transform: LogTransform | None


class MeanAndDeviation(NamedTuple):
    """Mean and standard deviation in the units of the target, (rows, 1) each."""

    mean: Value
    deviation: Value


def in_units(ops: Arithmetic, units: Units, z: Value) -> Value:
    """Convert z to targets."""
    v = z * units.scale + units.shift
    return v if units.transform is None else ops.exp(ops.minimum(v, ops.constant(_LARGEST)))


def point(ops: Arithmetic, units: Units, law: Law) -> MeanAndDeviation:
    """Compute mean and deviation of the target."""
    if units.transform is None:
        mean, var = law.moments()
        return MeanAndDeviation(mean * units.scale + units.shift, ops.sqrt(var) * units.scale)
    first, second = (law.log_mean_exp(order * units.scale) for order in (1.0, 2.0))
    mean = ops.exp(first + units.shift)
    return MeanAndDeviation(mean, mean * ops.sqrt(ops.exp(second - first * 2.0) - 1.0))
