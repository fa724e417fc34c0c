"""ψ(x) = x, or x̃: columns as they are near their mean, and their logarithm far from it."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from tggm.models.features.base import Features
from tggm.models.part import part

BULK = 4.0  # deviations within which a column is left as it is
MOST = 1e6  # deviations; beyond, the logarithm says nothing that a model could have learned


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
    """The same within `BULK`, its logarithm beyond: one outlier moves nothing, and no row overflows.

    NumPy arrays stay such, for which nothing has to be compiled.
    """
    xp: Any = np if isinstance(X, np.ndarray) else jnp
    far = xp.abs(X) - BULK
    return xp.where(far <= 0, X, xp.sign(X) * (BULK + xp.log1p(xp.maximum(far, 0.0))))
