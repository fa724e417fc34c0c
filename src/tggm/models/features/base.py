"""What a feature map offers."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from tggm.models.part import Zeros


class Features(ABC):
    """ψ(x): a map of the inputs, with parameters of its own or none."""

    linear: ClassVar[bool]  # whether an affine map of the inputs may go into the first layer's weights
    most: ClassVar[float] = np.inf  # size of an input beyond which a larger one may be taken for this one

    @abstractmethod
    def __call__(self, X: Any) -> Any:
        """ψ of each row: something with a product ``@`` with matrices."""

    def inputs(self, X: Any) -> Any:
        """What the linear part of a likelihood sees of each row."""
        return X

    @classmethod
    def width(cls, n_inputs: int) -> int:
        """Columns of ψ(x) for so many of x: as many, unless a map says otherwise."""
        return n_inputs

    @classmethod
    def n_inputs(cls, width: int) -> int:
        """Columns of x for so many of ψ(x), if each column has as many."""
        return width // cls.width(1)

    @classmethod
    def draw(cls, rng: np.random.Generator, n_inputs: int) -> Self:
        """Where training starts, as NumPy arrays; nothing is drawn for a map without parameters."""
        return cls()

    @classmethod
    def template(cls, zeros: Zeros, n_inputs: int) -> Self:
        """The same shapes, made by `zeros`."""
        return cls()
