"""ψ(x) = x̃: columns as they are near their mean, and their logarithm far from it."""

from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np

from tggm.models.features.base import Features
from tggm.models.part import part
from tggm.models.template import Zeros

BULK = 4.0  # deviations within which a column is left as it is
MOST = 1e6  # deviations; beyond, the logarithm says nothing that a model could have learned


def bounded(X: Any) -> Any:
    """The same within `BULK`, its logarithm beyond: one outlier moves nothing, and no row overflows.

    NumPy arrays stay such, for which nothing has to be compiled.
    """
    xp: Any = np if isinstance(X, np.ndarray) else jnp
    far = xp.abs(X) - BULK
    return xp.where(far <= 0, X, xp.sign(X) * (BULK + xp.log1p(xp.maximum(far, 0.0))))


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
