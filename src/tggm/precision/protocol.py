"""The contract of a precision matrix, stated as identities against the dense matrix.

A structure holds P once; a batch of rows shares it. Rows differ in a nonnegative diagonal that an engine adds
(curvature in mean field, sites in EP), so all linear algebra concerns P + diag(extra) with `extra` of shape
(rows, m). With D = dense() and r of shape (rows, m):

    diagonal()                       == diag(D)                                 (m,)
    off_diagonal(r)[i]               == (D - diag(diag(D))) @ r[i]              (rows, m)
    factor(extra).solve(r)[i]        == inv(D + diag(extra[i])) @ r[i]          (rows, m)
    factor(extra).cavity()[i]        == 1 / diag(inv(D + diag(extra[i]))) - extra[i]    (rows, m)
    factor(extra).log_det()[i]       == log det(D + diag(extra[i]))             (rows,)

`cavity` subtracts nothing from the size of `extra`, which may exceed P by any factor.

Every structure is a pytree whose leaves are its parameters, and every result is differentiable with respect
to them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar, dataclass_transform, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike


class Factor(Protocol):
    """P + diag(extra), one factorised matrix per row."""

    def solve(self, r: Array) -> Array: ...

    def cavity(self) -> Array: ...

    def log_det(self) -> Array: ...


@runtime_checkable
class Precision(Protocol):
    """A symmetric positive definite matrix shared by all rows of a batch; the leaves are its parameters."""

    @property
    def size(self) -> int:
        """Return the number of variables m."""
        return int(jax.tree.leaves(self)[0].shape[-1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the floating dtype of the parameters."""
        return jax.tree.leaves(self)[0].dtype

    def diagonal(self) -> Array: ...

    def off_diagonal(self, v: Array) -> Array: ...

    def factor(self, extra: Array) -> Factor: ...

    def dense(self) -> Array: ...


T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def pytree(cls: type[T]) -> type[T]:
    """Make a frozen dataclass whose fields are the children of a pytree.

    JAX rebuilds such objects often, also from placeholders: rebuilding skips the constructor and its checks.
    """
    made: Any = dataclass(frozen=True, eq=False)(cls)
    names = [field.name for field in fields(made)]

    def flatten_with_keys(obj: Any) -> tuple[Any, None]:
        return [(jax.tree_util.GetAttrKey(name), getattr(obj, name)) for name in names], None

    def unflatten(_: None, leaves: Iterable[Any]) -> T:
        obj: T = object.__new__(cls)
        for name, leaf in zip(names, leaves, strict=True):
            object.__setattr__(obj, name, leaf)
        return obj

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten)
    return cls


def rounding(dtype: Any) -> float:
    """Return the distance from 1 to the next number of a floating dtype."""
    return float(np.finfo(np.dtype(dtype)).eps)


def is_concrete(*arrays: Array) -> bool:
    """Return whether no array is traced, so that values can be checked."""
    return not any(isinstance(a, jax.core.Tracer) for a in arrays)


def as_float(name: str, value: ArrayLike, *, ndim: int) -> Array:
    """Return an array of a floating dtype with the given number of axes; errors name the argument."""
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        if not jnp.issubdtype(array.dtype, jnp.integer):
            raise TypeError(f"`{name}` must be real numbers; got dtype {array.dtype}.")
        array = array.astype(jnp.result_type(float))
    if array.ndim != ndim:
        raise ValueError(f"`{name}` must have {ndim} axes; got shape {array.shape}.")
    # with NumPy: JAX would compile a program for every shape
    if is_concrete(array) and not np.isfinite(np.asarray(array)).all():
        where = np.argwhere(~np.isfinite(np.asarray(array)))[0].tolist()
        raise ValueError(
            f"`{name}` must be finite; got {np.asarray(array)[tuple(where)]} at index {where}. "
            "Remove or impute missing values first."
        )
    return array


def require_positive(name: str, array: Array) -> None:
    """Raise unless every entry is positive."""
    if is_concrete(array) and not (np.asarray(array) > 0).all():
        k = int(np.argmin(np.asarray(array)))
        raise ValueError(
            f"`{name}` must be positive; got {float(array[k]):.3g} at index {k}. "
            "A precision is the inverse of a variance: pass 1 / variance."
        )


def require_positive_definite(name: str, matrix: Array) -> None:
    """Raise unless the matrix is symmetric positive definite; the error names its smallest eigenvalue."""
    if not is_concrete(matrix):
        return
    values = np.asarray(matrix, dtype=np.float64)
    asymmetry = float(np.abs(values - values.T).max(initial=0.0))
    scale = float(np.abs(values).max(initial=0.0))
    if asymmetry > 1e3 * rounding(matrix.dtype) * scale:
        raise ValueError(
            f"`{name}` must be symmetric; largest difference between mirrored entries is {asymmetry:.3g}. "
            f"Pass ({name} + {name}.T) / 2 if the difference is rounding."
        )
    try:
        np.linalg.cholesky(values)
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(values)[0])
        raise ValueError(
            f"`{name}` must be positive definite; smallest eigenvalue is {smallest:.3g} (m = {len(values)}). "
            f"If it was assembled from weights, add a ridge: "
            f"{name} + {1.1 * abs(smallest) + 1e-8 * scale:.2g} * eye(m)."
        ) from None
