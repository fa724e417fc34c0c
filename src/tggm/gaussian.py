"""A truncated Gaussian and its moments: the interface between models and engines.

    p(h) = exp(−½ hᵀPh + γᵀh − log Z(P, γ)),    l_k ≤ h_k ≤ u_k,

by default h_k ≥ 0. All rows of a batch share P; each row has its own γ; limits may be shared or per row.
Models build truncated Gaussians, engines compute their `Moments`, and training differentiates their log Z.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from tggm.precision import Dense, Precision, as_float, pytree


class Limits(NamedTuple):
    """A box: infinite where there is no limit. Shape (m,), or that of the shift where rows differ."""

    lower: Array
    upper: Array

    def map(self, change: Callable[[Array], Array]) -> "Limits":
        """Apply a function to both limits."""
        return Limits(change(self.lower), change(self.upper))


Walls = Array | Limits  # a mask of h ≥ 0, or limits


@pytree
class TruncatedGaussian:
    """Truncated Gaussians that share a precision matrix.

    Parameters
    ----------
    precision : Precision or array_like, shape (m, m)
        P: a `Diagonal`, `LowRank`, `Layered` or `Dense`; an array is taken as `Dense`.
    shift : array_like, shape (..., m)
        γ, one row per distribution; P times the mean before truncation.
    lower, upper : array_like, broadcast to (m,) or to the shape of the shift
        Limits of each variable, 0 and infinity by default; −∞ and ∞ leave it free. A boolean `lower` is a
        mask: zero where it is true, free elsewhere.
    """

    precision: Precision
    shift: Array
    truncated: Array  # (m,) which variables have a limit
    limits: Limits | None  # None: zero, for the truncated variables

    def __init__(
        self, precision: Precision | ArrayLike, shift: ArrayLike, lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        P = _as_precision(precision)
        shift = jnp.asarray(shift)
        shift = as_float("shift", shift, ndim=max(shift.ndim, 1))
        if shift.shape[-1] != P.size:
            raise ValueError(
                f"`shift` must have one column per variable: the precision has {P.size}, "
                f"shift has shape {shift.shape}."
            )
        common = np.promote_types(shift.dtype, P.dtype)
        shift = shift.astype(common)
        truncated, limits = _read_limits(shift, lower, upper)
        P = jax.tree.map(lambda a: a.astype(common), P)
        given = {"precision": P, "shift": shift, "truncated": truncated, "limits": limits}
        for name, value in given.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_mean(
        cls, precision: Precision | ArrayLike, mean: ArrayLike, lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
    ) -> "TruncatedGaussian":  # fmt: skip
        """Build N(mean, P⁻¹), truncated; γ = P mean."""
        P = _as_precision(precision)
        mean = jnp.asarray(mean)
        rows = mean.reshape(-1, P.size)
        shift = P.off_diagonal(rows) + rows * P.diagonal()[None, :]
        return cls(P, shift.reshape(mean.shape), lower, upper)

    @property
    def size(self) -> int:
        """Return the number of variables m."""
        return self.precision.size

    def walls(self) -> Walls:
        """Return the mask or the limits, with an axis of rows in front: (1 or rows, m)."""
        if self.limits is None:
            return self.truncated[None, :]
        return self.limits.map(lambda a: a.reshape(-1, self.size))

    def rows(self) -> "TruncatedGaussian":
        """Return the same distributions with one leading axis: shift of shape (rows, m)."""
        return self._map_rows(lambda a: a.reshape(-1, self.size))

    def with_shift(self, shift: Array) -> "TruncatedGaussian":
        """Return the same precision and limits with another shift, checked only if rows have own limits."""
        if self.limits is not None and self.limits.lower.ndim > 1 and shift.shape != self.shift.shape:
            raise ValueError(
                f"`shift` must keep its shape {self.shift.shape} because each row has its own limits; "
                f"got {shift.shape}. Use limits of shape ({self.size},)."
            )
        return _with_arrays(self, shift, self.limits)

    def _map_rows(self, change: Callable[[Array], Array]) -> "TruncatedGaussian":
        """Apply a function to the shift and to limits of the same shape."""
        own = self.limits is not None and self.limits.lower.ndim > 1
        return _with_arrays(
            self, change(self.shift), self.limits.map(change) if own and self.limits else self.limits
        )

    def __getitem__(self, index: Any) -> "TruncatedGaussian":
        return self._map_rows(lambda a: a[index])

    def __len__(self) -> int:
        return int(self.shift.shape[0])


def _with_arrays(tg: TruncatedGaussian, shift: Array, limits: Limits | None) -> TruncatedGaussian:
    """Return the same precision and mask with another shift and limits."""
    leaves, tree = jax.tree.flatten(tg, is_leaf=lambda x: x is not tg)
    return jax.tree.unflatten(tree, [leaves[0], shift, leaves[2], limits])


def _read_limits(
    shift: Array, lower: ArrayLike | None, upper: ArrayLike | None
) -> tuple[Array, Limits | None]:
    """Return the mask of variables with a limit, and the limits unless they are zero and infinity."""
    m = shift.shape[-1]
    if lower is None and upper is None:
        return jnp.ones(m, bool), None
    low, high = _as_numpy(0.0 if lower is None else lower), _as_numpy(jnp.inf if upper is None else upper)
    if low.dtype == bool:
        if low.shape != (m,):
            raise ValueError(f"`lower` as a mask must have shape ({m},); got {low.shape}.")
        if upper is None:
            return jnp.asarray(low), None
        low = np.where(low, 0.0, -np.inf) if isinstance(low, np.ndarray) else jnp.where(low, 0.0, -jnp.inf)
    low, high = low.astype(shift.dtype), high.astype(shift.dtype)
    shape = (m,) if max(low.ndim, high.ndim) <= 1 else shift.shape
    for name, value in (("lower", low), ("upper", high)):
        pairs = zip(reversed(value.shape), reversed(shape), strict=False)
        if value.ndim > len(shape) or not all(n in (1, size) for n, size in pairs):
            raise ValueError(
                f"`{name}` must have one number per variable ({m}), or the shape {shift.shape} of the shift; "
                f"got shape {value.shape}."
            )
    if isinstance(low, np.ndarray) and isinstance(high, np.ndarray):
        low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        wrong = ~(low < high)
        if wrong.any():
            k = tuple(np.argwhere(wrong)[0])
            raise ValueError(
                f"`lower` must be below `upper`; variable {k[-1]} has lower {low[k]:g} and upper "
                f"{high[k]:g}. Widen the box, or remove a variable of known value."
            )
        known = (np.isfinite(low) | np.isfinite(high)).reshape(-1, m).any(0)
        zero = (low == 0) | (low == -np.inf)  # h ≥ 0, for the same variables in all rows, is the fastest case
        orthant = zero.all() and (low == low.reshape(-1, m)[:1]).all() and (high == np.inf).all()
        limits = None if orthant else Limits(jnp.asarray(low), jnp.asarray(high))
        return jnp.asarray(known), limits
    limits = Limits(jnp.broadcast_to(low, shape), jnp.broadcast_to(high, shape))
    truncated = jnp.isfinite(limits.lower) | jnp.isfinite(limits.upper)
    return truncated.reshape(-1, m).any(0), limits


def _as_numpy(a: ArrayLike) -> Any:
    """Return a NumPy array unless the argument is traced, so that values can be checked."""
    return a if isinstance(a, jax.core.Tracer) else np.asarray(a)


def _as_precision(precision: Precision | ArrayLike) -> Precision:
    """Return a structure unchanged and an array as `Dense`."""
    return precision if isinstance(precision, Precision) else Dense(jnp.asarray(precision))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Moments:
    """The result of an engine for each row.

    `kind` describes `log_z`: "exact", a lower "bound", an "estimate", or absent ("sample").
    """

    mean: Array  # (..., m) E[h]
    var: Array  # (..., m) Var[h]
    log_z: Array | None  # (...,)
    converged: Array  # (...,) bool
    n_iter: Array  # (...,) iterations of the row
    kind: str = field(default="estimate", metadata={"static": True})
    log_z_error: Array | None = None  # (...,) bound of the error of log_z, at 99.9 % if it is random
    mean_error: Array | None = None  # (..., m) such bounds for the means
    ess: Array | None = None  # (..., m) effective number of independent draws for the means
    draws: Array | None = None  # (n, ..., m) samples, if the engine draws
