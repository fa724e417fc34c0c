"""A truncated Gaussian and its moments: the only types that cross layers.

    p(h) = exp(−½ hᵀPh + γᵀh − log Z(P, γ)),    h_k ≥ 0 for the truncated k.

P is shared by a batch, γ is per row. Models emit these; engines turn them into `Moments`; learning
differentiates their log Z.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from tggm.precision import Dense, Precision
from tggm.precision.protocol import as_float, pytree


@pytree("precision", "shift", "truncated")
@dataclass(frozen=True, eq=False)
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
    truncated: Array = None  # type: ignore[assignment]  # filled in by __post_init__

    def __post_init__(self) -> None:
        P = self.precision
        if not hasattr(P, "factor"):
            P = Dense(P)
        shift = jnp.asarray(self.shift)
        shift = as_float("shift", shift, ndim=max(shift.ndim, 1))
        if shift.shape[-1] != P.size:
            raise ValueError(
                f"`shift` must have one column per variable: the precision has {P.size}, shift has shape {shift.shape}."
            )
        common = jnp.promote_types(shift.dtype, P.dtype)
        P = jax.tree.map(lambda a: a.astype(common), P)
        if self.truncated is None:
            truncated = jnp.ones(P.size, dtype=bool)
        else:
            truncated = jnp.asarray(self.truncated)
            if truncated.dtype != bool or truncated.shape != (P.size,):
                raise ValueError(
                    f"`truncated` must be a boolean mask of shape ({P.size},); "
                    f"got dtype {truncated.dtype}, shape {truncated.shape}."
                )
        object.__setattr__(self, "precision", P)
        object.__setattr__(self, "shift", shift.astype(common))
        object.__setattr__(self, "truncated", truncated)

    @classmethod
    def from_mean(cls, precision: Precision, mean: ArrayLike, truncated: ArrayLike | None = None) -> "TruncatedGaussian":
        """The Gaussian N(mean, P⁻¹), truncated; γ = P mean."""
        P = precision if hasattr(precision, "factor") else Dense(precision)
        mean = jnp.asarray(mean)
        rows = mean.reshape(-1, P.size)
        shift = P.off_diagonal(rows) + rows * P.diagonal()[None, :]
        return cls(P, shift.reshape(mean.shape), truncated)  # type: ignore[arg-type]

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
        return jax.tree.unflatten(tree, [leaves[0], shift, leaves[2]])

    def __getitem__(self, index: object) -> "TruncatedGaussian":
        return self.with_shift(self.shift[index])  # type: ignore[index]

    def __len__(self) -> int:
        return int(self.shift.shape[0])


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
