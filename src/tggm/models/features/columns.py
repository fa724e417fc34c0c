"""ψ(x) = x, or x̃: columns as they are near their mean, and their logarithm far from it."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from tggm import formulas
from tggm.models.features.base import Features
from tggm.models.part import part

BULK, MOST = formulas.BULK, formulas.MOST_INPUT


@part
class Identity(Features):
    """The inputs as they are."""

    linear: ClassVar = True

    def __call__(self, X: Any) -> Any:
        """The same."""
        return X


@part
class Bounded(Features):
    """Columns that cannot be very large."""

    linear: ClassVar = False
    most: ClassVar = MOST

    def __call__(self, X: Any) -> Any:
        """x̃."""
        return bounded(X)

    def inputs(self, X: Any) -> Any:
        """x̃."""
        return bounded(X)


def bounded(X: Any) -> Any:
    """Return `formulas.bounded` of NumPy or JAX arrays; nothing is compiled for NumPy arrays."""
    return formulas.bounded(np if isinstance(X, np.ndarray) else jnp, X)
