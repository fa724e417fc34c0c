"""ψ(x) = x."""

from typing import Any, ClassVar, Self

import numpy as np

from tggm.models.features.base import Features
from tggm.models.part import part
from tggm.models.template import Zeros


@part
class Identity(Features):
    """The inputs as they are."""

    linear: ClassVar = True

    def __call__(self, X: Any) -> Any:
        """The same."""
        return X

    @classmethod
    def width(cls, n_inputs: int) -> int:
        """As many."""
        return n_inputs

    @classmethod
    def draw(cls, rng: np.random.Generator, n_inputs: int) -> Self:
        """Nothing is drawn."""
        return cls()

    @classmethod
    def template(cls, zeros: Zeros, n_inputs: int) -> Self:
        """It has no arrays."""
        return cls()
