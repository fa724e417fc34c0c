"""Between which two limits the units of a layer lie: fixed by the kind of unit, or learned for each layer.

Limits are in units of σ0, so that σ0 stays a gauge. Shifting both limits of a layer, with the biases into and
out of it, changes nothing: a kind of unit is known by its width alone. A wide unit has a corner, as soft as
σ0, at each limit and is linear between them; a narrow one is a smooth sigmoid, and nearly as noisy as wide.
"""

from abc import ABC, abstractmethod
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.models.part import Zeros, part

TwoLimits = tuple[Any, Any]
LEAST_LOG_WIDTH, MOST_LOG_WIDTH = -4.0, 8.0  # as computed with; what is learned may go on beyond, unnoticed
FARTHEST = 1e4  # a limit, in the same sense
MOST_STORED = 1e6  # of what was learned
START = (0.0, 12.0)  # where learned limits begin: near a ReLU
SIDE = 4.0  # limits of 1 are this many σ0: narrower units are noisier, and predict worse


class UnitLimits(ABC):
    """Lower and upper limit of the units of every layer."""

    @abstractmethod
    def at(self, level: int) -> TwoLimits:
        """Both limits of a layer, counted from 0, in units of σ0."""

    @classmethod
    def draw(cls, levels: int) -> Self:
        """Where training of so many layers starts."""
        return cls()

    @classmethod
    def template(cls, zeros: Zeros, levels: int) -> Self:
        """The same shapes, made by `zeros`."""
        return cls()

    def check(self) -> None:  # noqa: B027  # fixed limits have nothing to check
        """Raise for numbers that cannot be computed with."""


@part
class TanhLimits(UnitLimits):
    """From −1 to 1, where σ0 is ¼."""

    def at(self, level: int) -> TwoLimits:
        """The same for all layers."""
        return -SIDE, SIDE


@part
class SigmoidLimits(UnitLimits):
    """Of the width of 0 to 1, where σ0 is ¼; centred, which is the same model and trains better."""

    def at(self, level: int) -> TwoLimits:
        """The same for all layers."""
        return -0.5 * SIDE, 0.5 * SIDE


@part
class LearnedLimits(UnitLimits):
    """Learned with the weights."""

    lower: Array  # (layers,)
    log_width: Array  # (layers,)

    def at(self, level: int) -> TwoLimits:
        """The two numbers of the layer, kept within what can be computed with."""
        lower = jnp.clip(self.lower[level], -FARTHEST, FARTHEST)
        return lower, lower + jnp.exp(jnp.clip(self.log_width[level], LEAST_LOG_WIDTH, MOST_LOG_WIDTH))

    @classmethod
    def draw(cls, levels: int) -> Self:
        """From `START`, in every layer."""
        lower: Any = np.full(levels, START[0])
        log_width: Any = np.full(levels, np.log(START[1] - START[0]))
        return cls(lower, log_width)

    @classmethod
    def template(cls, zeros: Zeros, levels: int) -> Self:
        """Two numbers a layer."""
        return cls(zeros(levels), zeros(levels))

    def check(self) -> None:
        """Of a size that training can reach."""
        size = max(float(np.abs(a).max()) for a in (self.lower, self.log_width))
        if not size <= MOST_STORED:
            raise ValueError(f"limits of units must be at most {MOST_STORED:g}; they reach {size:.3g}")


UNITS: dict[str, type[UnitLimits]] = {
    "tanh": TanhLimits,
    "sigmoid": SigmoidLimits,
    "learned": LearnedLimits,
}
