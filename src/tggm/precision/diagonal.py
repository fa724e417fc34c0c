"""Independent variables: P = diag(d). The prior of every shallow model."""

import jax.numpy as jnp
from jax import Array

from tggm.precision.protocol import Precision, as_float, pytree, require_positive


@pytree
class Diagonal(Precision):
    """P = diag(values).

    Attributes
    ----------
    values : array_like, shape (m,)
        Precision of each variable before truncation, positive.
    """

    values: Array

    def __post_init__(self) -> None:
        values = as_float("values", self.values, ndim=1)
        require_positive("values", values)
        object.__setattr__(self, "values", values)

    def diagonal(self) -> Array:
        return self.values

    def off_diagonal(self, v: Array) -> Array:
        return jnp.zeros_like(v)

    def factor(self, extra: Array) -> "DiagonalFactor":
        return DiagonalFactor(self.values[None, :] + extra, self.values)

    def dense(self) -> Array:
        return jnp.diag(self.values)


@pytree
class DiagonalFactor:
    """One diagonal matrix per row."""

    values: Array
    base: Array  # without `extra`

    def solve(self, r: Array) -> Array:
        return r / self.values

    def cavity(self) -> Array:
        return jnp.broadcast_to(self.base[None, :], self.values.shape)

    def log_det(self) -> Array:
        return jnp.log(self.values).sum(-1)
