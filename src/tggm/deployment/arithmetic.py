"""The operations that predictions are made of, so that NumPy and a graph can carry out the same formulas.

Values have the operators of arrays (+, −, ·, /, @, <, >), broadcast, and are of double precision. What has no
operator is a method here.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

Value = Any  # an array of float64, or a value of a graph that stands for one
Step = Callable[[list[Value]], list[Value]]


class Arithmetic(Protocol):
    """What formulas may ask for."""

    def constant(self, value: Any) -> Value:
        """Numbers that are known, as a value."""

    def exp(self, x: Value) -> Value:
        """The exponential."""

    def log(self, x: Value) -> Value:
        """The natural logarithm."""

    def sqrt(self, x: Value) -> Value:
        """The square root."""

    def cos(self, x: Value) -> Value:
        """The cosine."""

    def round(self, x: Value) -> Value:
        """The nearest whole number."""

    def abs(self, x: Value) -> Value:
        """The size."""

    def minimum(self, x: Value, y: Value) -> Value:
        """The smaller of two."""

    def maximum(self, x: Value, y: Value) -> Value:
        """The larger of two."""

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        """The first where the condition holds, the second elsewhere."""

    def sum(self, x: Value, axis: int) -> Value:
        """The sum over one axis, which stays with length 1."""

    def max(self, x: Value, axis: int) -> Value:
        """The largest over one axis, which stays with length 1."""

    def is_largest(self, x: Value) -> Value:
        """Whether each is the first largest of the last axis."""

    def concat(self, parts: Sequence[Value]) -> Value:
        """Values joined along the last axis."""

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        """The same numbers in another shape; −1 is the rest."""

    def squeezed(self, x: Value) -> Value:
        """Without a first axis of length 1."""

    def repeated(self, step: Step, start: list[Value], count: int) -> list[Value]:
        """What so many steps make of the values they start from."""


class NumPyArithmetic:
    """Arrays of float64."""

    exp: Any = staticmethod(np.exp)
    log: Any = staticmethod(np.log)
    sqrt: Any = staticmethod(np.sqrt)
    cos: Any = staticmethod(np.cos)
    round: Any = staticmethod(np.rint)
    abs: Any = staticmethod(np.abs)
    minimum: Any = staticmethod(np.minimum)
    maximum: Any = staticmethod(np.maximum)
    where: Any = staticmethod(np.where)
    reshape: Any = staticmethod(np.reshape)

    def constant(self, value: Any) -> Value:
        """As an array."""
        return np.asarray(value, dtype=np.float64)

    def sum(self, x: Value, axis: int) -> Value:
        """By NumPy."""
        return x.sum(axis=axis, keepdims=True)

    def max(self, x: Value, axis: int) -> Value:
        """By NumPy."""
        return x.max(axis=axis, keepdims=True)

    def is_largest(self, x: Value) -> Value:
        """By comparing places."""
        return x.argmax(-1)[..., None] == np.arange(x.shape[-1])

    def concat(self, parts: Sequence[Value]) -> Value:
        """By NumPy."""
        return np.concatenate(parts, axis=-1)

    def squeezed(self, x: Value) -> Value:
        """By indexing."""
        return x[0]

    def repeated(self, step: Step, start: list[Value], count: int) -> list[Value]:
        """By a loop."""
        for _ in range(count):
            start = step(start)
        return start
