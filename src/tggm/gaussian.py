"""A truncated Gaussian and its moments: what models and engines say to each other.

    p(h) = exp(−½ hᵀPh + γᵀh − log Z(P, γ)),    h_k ≥ 0 for the truncated k.

P is shared by a batch, γ is per row. Models emit these; engines turn them into `Moments`; learning
differentiates their log Z.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from tggm.precision import Dense, Precision
from tggm.precision.protocol import as_float, pytree


@pytree("precision", "shift", "truncated")
@dataclass(frozen=True, eq=False, init=False)
class TruncatedGaussian:
    """Truncated Gaussians that share a precision matrix.

    Parameters
    ----------
    precision : Precision or array_like, shape (m, m)
        P: a `Diagonal`, `LowRank`, `Layered` or `Dense`; an array is taken as `Dense`.
    shift : array_like, shape (..., m)
        γ, one row per distribution; P times the mean before truncation.
    truncated : array_like of bool, shape (m,), optional
        Which variables are kept nonnegative; all by default.
    """

    precision: Precision
    shift: Array
    truncated: Array

    def __init__(
        self, precision: Precision | ArrayLike, shift: ArrayLike, truncated: ArrayLike | None = None
    ) -> None:
        P = _as_precision(precision)
        shift = jnp.asarray(shift)
        shift = as_float("shift", shift, ndim=max(shift.ndim, 1))
        if shift.shape[-1] != P.size:
            raise ValueError(
                f"`shift` must have one column per variable: the precision has {P.size}, "
                f"shift has shape {shift.shape}."
            )
        mask = jnp.ones(P.size, bool) if truncated is None else jnp.asarray(truncated)
        if mask.dtype != bool or mask.shape != (P.size,):
            raise ValueError(
                f"`truncated` must be a boolean mask of shape ({P.size},); "
                f"got dtype {mask.dtype}, shape {mask.shape}."
            )
        common = np.promote_types(shift.dtype, P.dtype)
        object.__setattr__(self, "precision", jax.tree.map(lambda a: a.astype(common), P))
        object.__setattr__(self, "shift", shift.astype(common))
        object.__setattr__(self, "truncated", mask)

    @classmethod
    def from_mean(
        cls, precision: Precision | ArrayLike, mean: ArrayLike, truncated: ArrayLike | None = None
    ) -> "TruncatedGaussian":
        """The Gaussian N(mean, P⁻¹), truncated; γ = P mean."""
        P = _as_precision(precision)
        mean = jnp.asarray(mean)
        rows = mean.reshape(-1, P.size)
        shift = P.off_diagonal(rows) + rows * P.diagonal()[None, :]
        return cls(P, shift.reshape(mean.shape), truncated)

    @property
    def size(self) -> int:
        """Number of variables m."""
        return self.precision.size

    def rows(self) -> "TruncatedGaussian":
        """The same distributions with one leading axis: shift of shape (rows, m)."""
        return self.with_shift(self.shift.reshape(-1, self.size))

    def with_shift(self, shift: Array) -> "TruncatedGaussian":
        """The same precision and mask with another shift, unchecked."""
        leaves, tree = jax.tree.flatten(self, is_leaf=lambda x: x is not self)
        result: TruncatedGaussian = jax.tree.unflatten(tree, [leaves[0], shift, leaves[2]])
        return result

    def __getitem__(self, index: Any) -> "TruncatedGaussian":
        return self.with_shift(self.shift[index])

    def __len__(self) -> int:
        return int(self.shift.shape[0])


def _as_precision(precision: Precision | ArrayLike) -> Precision:
    """A structure as it is; an array as a `Dense` one."""
    if isinstance(precision, Precision):
        return precision
    return Dense(jnp.asarray(precision))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Moments:
    """What an engine found out about each row.

    `kind` says what `log_z` is: "exact", a lower "bound", an "estimate", or absent ("sample").
    """

    mean: Array  # (..., m) E[h]
    var: Array  # (..., m) Var[h]
    log_z: Array | None  # (...,)
    converged: Array  # (...,) bool
    n_iter: Array  # (...,) iterations spent on the row
    kind: str = field(default="estimate", metadata={"static": True})
    log_z_error: Array | None = None  # (...,) one standard error of log_z, where it is random
    draws: Array | None = None  # (n, ..., m) samples, where the engine makes them
