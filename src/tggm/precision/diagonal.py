"""Independent variables: P = diag(d). The prior of every shallow model."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.precision.protocol import as_float, pytree, require_positive


@pytree("values")
@dataclass(frozen=True, eq=False)
class Diagonal:
    """P = diag(values).

    Parameters
    ----------
    values : array_like, shape (m,)
        Precision of each variable before truncation, positive.
    """

    values: Array

    def __post_init__(self) -> None:
        values = as_float("values", self.values, ndim=1)
        require_positive("values", values)
        object.__setattr__(self, "values", values)

    @property
    def size(self) -> int:
        return int(self.values.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.values.dtype)

    def diagonal(self) -> Array:
        return self.values

    def off_diagonal(self, v: Array) -> Array:
        """Return zero."""
        return jnp.zeros_like(v)

    def factor(self, extra: Array) -> "DiagonalFactor":
        return DiagonalFactor(self.values[None, :] + extra)

    def dense(self) -> Array:
        return jnp.diag(self.values)


@pytree("values")
@dataclass(frozen=True, eq=False)
class DiagonalFactor:
    """One diagonal matrix per row."""

    values: Array

    def solve(self, r: Array) -> Array:
        """Divide by the diagonal."""
        return r / self.values

    def variances(self) -> Array:
        """Return the reciprocal of the diagonal."""
        return 1 / self.values

    def log_det(self) -> Array:
        """Return the sum of the logarithms."""
        return jnp.log(self.values).sum(-1)
