"""Structured precision matrices: diagonal, dense, diagonal plus low rank, block tridiagonal.

The contract is stated as identities against the dense matrix. A structure holds P once; a batch of rows
shares it. Rows differ in a nonnegative diagonal that an engine adds (curvature in mean field, sites in EP),
so all linear algebra concerns P + diag(extra) with `extra` of shape (rows, m). With D = dense() and r of
shape (rows, m):

    diagonal()                       == diag(D)                                 (m,)
    off_diagonal(r)[i]               == (D - diag(diag(D))) @ r[i]              (rows, m)
    factor(extra).solve(r)[i]        == inv(D + diag(extra[i])) @ r[i]          (rows, m)
    factor(extra).cavity()[i]        == 1 / diag(inv(D + diag(extra[i]))) - extra[i]    (rows, m)
    factor(extra).log_det()[i]       == log det(D + diag(extra[i]))             (rows,)

`cavity` subtracts nothing from the size of `extra`, which may exceed P by any factor.

Every structure is a pytree whose leaves are its parameters, and every result is differentiable with respect
to them.

**Diagonal.** P = diag(d): independent variables, the prior of every shallow model.

**Dense.** Any positive definite matrix. Costs a Cholesky factorisation of m×m per row.

**Low rank.** P = diag(d) + UᵀU, the posterior of a shallow model, U = W1 / σ1. The Woodbury identity needs an
n×n matrix per row, n the number of rows of U:

    K = I + U E⁻¹ Uᵀ,  E = diag(d + extra),    (E + UᵀU)⁻¹ = E⁻¹ − E⁻¹ Uᵀ K⁻¹ U E⁻¹,    det = det E · det K.

The cost is O(m n²) per row, and no m×m matrix is formed. A small K is inverted by elimination over all rows
at once, with rows along the last axis, which is much faster than one factorisation per row.

**Layers.** Block tridiagonal: each layer of variables is connected to the next, as in deep models. With
diagonal blocks A_0 … A_L and B_l the block between layer l + 1 (rows) and layer l (columns), elimination from
the first layer gives the Schur complements

    C_0 = A_0,   C_{l+1} = A_{l+1} − B_l C_l⁻¹ B_lᵀ,   log det = Σ log det C_l,

and, from the last layer back, the blocks of the inverse at the positions of those of P, with G_l = B_l C_l⁻¹,

    Σ_LL = C_L⁻¹,   Σ_ll = C_l⁻¹ + G_lᵀ Σ_{l+1,l+1} G_l,   Σ_{l+1,l} = −Σ_{l+1,l+1} G_l.

Cost O(Σ m_l³) per row, against O((Σ m_l)³) for a dense matrix.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar, dataclass_transform, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve
from jax.typing import ArrayLike

from tggm.runtime import full_precision

__all__ = ["Dense", "Diagonal", "Factor", "Layered", "LowRank", "Precision"]
ELIMINATE_UP_TO = 24  # rows of U; elimination is unrolled over them


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


# ---- structures ----


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


@pytree
class Dense(Precision):
    """P given entry by entry.

    Attributes
    ----------
    matrix : array_like, shape (m, m)
        Symmetric positive definite.
    """

    matrix: Array

    def __post_init__(self) -> None:
        matrix = as_float("matrix", self.matrix, ndim=2)
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"`matrix` must be square; got shape {matrix.shape}.")
        require_positive_definite("matrix", matrix)
        object.__setattr__(self, "matrix", matrix)

    def diagonal(self) -> Array:
        return jnp.diagonal(self.matrix)

    @full_precision
    def off_diagonal(self, v: Array) -> Array:
        return v @ self.matrix - v * self.diagonal()[None, :]

    def factor(self, extra: Array) -> "DenseFactor":
        eye = jnp.eye(self.size, dtype=self.matrix.dtype)
        return DenseFactor.of(self.matrix[None] + extra[:, :, None] * eye[None], self.matrix[None])

    def dense(self) -> Array:
        return self.matrix


@pytree
class DenseFactor:
    """One Cholesky factor L per row, its inverse R, and the matrix without `extra`.

    All methods use products only: independent batched triangular solves run at the same time on a CPU and may
    deadlock on its thread pool (jaxlib 0.10).
    """

    L: Array
    R: Array
    P: Array

    @classmethod
    def of(cls, matrices: Array, P: Array) -> "DenseFactor":
        """Factorise matrices of shape (rows, m, m)."""
        L = cholesky(matrices)
        eye = jnp.broadcast_to(jnp.eye(L.shape[-1], dtype=L.dtype)[None], L.shape)
        return cls(L, triangular_solve(L, eye, left_side=True, lower=True), P)

    @full_precision
    def solve(self, r: Array) -> Array:
        return jnp.einsum("bji,bj->bi", self.R, jnp.einsum("bij,bj->bi", self.R, r))

    @full_precision
    def cavity(self) -> Array:
        """Return diag(C P) / diag(C), C the inverse, as C (P + extra) = I."""
        C = self.covariance()
        return (C * self.P).sum(-1) / jnp.diagonal(C, axis1=1, axis2=2)

    @full_precision
    def covariance(self) -> Array:
        """Return the inverse, RᵀR."""
        return self.R.mT @ self.R

    def log_det(self) -> Array:
        return 2 * jnp.log(jnp.diagonal(self.L, axis1=1, axis2=2)).sum(-1)


@pytree
class LowRank(Precision):
    """P = diag(base) + weightsᵀ weights.

    Attributes
    ----------
    base : array_like, shape (m,)
        Diagonal part d, positive.
    weights : array_like, shape (n, m)
        Factor U; a shallow model has U = W1 / σ1, one row per output.
    """

    base: Array
    weights: Array

    def __post_init__(self) -> None:
        base = as_float("base", self.base, ndim=1)
        weights = as_float("weights", self.weights, ndim=2)
        require_positive("base", base)
        if weights.shape[1] != base.shape[0]:
            raise ValueError(
                f"`weights` must have one column per variable: base has {base.shape[0]} entries, "
                f"weights has shape {weights.shape}. Transpose it if its rows are variables."
            )
        if is_concrete(base, weights) and base.dtype != weights.dtype:
            common = np.promote_types(base.dtype, weights.dtype)
            base, weights = base.astype(common), weights.astype(common)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "weights", weights)

    @property
    def rank(self) -> int:
        """Return the number of rows n of U."""
        return int(self.weights.shape[0])

    def diagonal(self) -> Array:
        return self.base + (self.weights**2).sum(0)

    @full_precision
    def off_diagonal(self, v: Array) -> Array:
        U = self.weights
        return (v @ U.T) @ U - v * (U**2).sum(0)[None, :]

    @full_precision
    def factor(self, extra: Array) -> "LowRankFactor":
        E = self.base[None, :] + extra
        U = self.weights
        # one product with the n(n + 1)/2 distinct pairs of rows of U, unpacked by a gather
        i, j = np.tril_indices(self.rank)
        place = np.zeros((self.rank, self.rank), np.int32)
        place[i, j] = place[j, i] = np.arange(len(i))
        K = ((U[i] * U[j]) @ (1 / E).T)[place] + jnp.eye(self.rank, dtype=E.dtype)[:, :, None]
        if self.rank <= ELIMINATE_UP_TO:
            return LowRankFactor(E, U, *_invert(K), self.base)
        K = jnp.moveaxis(K, 2, 0)
        root = DenseFactor.of(K, K)
        return LowRankFactor(E, U, jnp.moveaxis(root.covariance(), 0, 2), root.log_det(), self.base)

    @full_precision
    def dense(self) -> Array:
        return jnp.diag(self.base) + self.weights.T @ self.weights


def _invert(K: Array) -> tuple[Array, Array]:
    """Return inverses and log-determinants of K, shape (n, n, rows), by Gauss-Jordan elimination.

    K ≽ I needs no pivoting.
    """
    n = K.shape[0]
    log_det = jnp.zeros(K.shape[2:], K.dtype)
    A = K
    for j in range(n):  # in place: column j of the identity replaces column j of A
        pivot = A[j, j]
        log_det = log_det + jnp.log(pivot)
        row = A[j].at[j].set(1) / pivot[None]
        A = (A.at[:, j].set(0) - A[:, j][:, None] * row[None]).at[j].set(row)
    return A, log_det


@pytree
class LowRankFactor:
    """E + UᵀU per row, with the inverse of K = I + U E⁻¹ Uᵀ, (n, n, rows), and its log-determinant."""

    E: Array
    U: Array
    inverse: Array
    log_det_inner: Array
    base: Array  # E without `extra`

    @full_precision
    def solve(self, r: Array) -> Array:
        x = r / self.E
        t = (self.inverse * (self.U @ x.T)[None]).sum(1)
        return x - (t.T @ self.U) / self.E

    @full_precision
    def cavity(self) -> Array:
        """Return d_k + q_k / (1 − q_k / E_k), q_k = U_kᵀ K⁻¹ U_k."""
        n = len(self.U)
        pairs = (self.U[:, None] * self.U[None]).reshape(n * n, -1)
        q = self.inverse.reshape(n * n, -1).T @ pairs
        # the difference is positive in exact arithmetic; rounding must not change that
        return self.base[None, :] + q / jnp.maximum(1 - q / self.E, rounding(self.E.dtype))

    def log_det(self) -> Array:
        return jnp.log(self.E).sum(-1) + self.log_det_inner


@pytree
class Layered(Precision):
    """P with blocks A_l on the diagonal and B_l below it.

    Attributes
    ----------
    diagonal_blocks : sequence of array_like, shapes (m_l, m_l)
        Symmetric blocks A_l, one per layer.
    lower_blocks : sequence of array_like, shapes (m_{l+1}, m_l)
        Blocks B_l = P[layer l + 1, layer l], one fewer than layers.
    """

    diagonal_blocks: tuple[Array, ...]
    lower_blocks: tuple[Array, ...]

    def __post_init__(self) -> None:
        A = tuple(as_float(f"diagonal_blocks[{i}]", a, ndim=2) for i, a in enumerate(self.diagonal_blocks))
        B = tuple(as_float(f"lower_blocks[{i}]", b, ndim=2) for i, b in enumerate(self.lower_blocks))
        if not A:
            raise ValueError("`diagonal_blocks` must hold at least one block; got none.")
        if len(B) != len(A) - 1:
            raise ValueError(
                f"`lower_blocks` must have one block fewer than `diagonal_blocks` ({len(A)}); got {len(B)}."
            )
        for i, a in enumerate(A):
            if a.shape[0] != a.shape[1]:
                raise ValueError(f"`diagonal_blocks[{i}]` must be square; got shape {a.shape}.")
        for i, b in enumerate(B):
            want = (A[i + 1].shape[0], A[i].shape[0])
            if b.shape != want:
                raise ValueError(
                    f"`lower_blocks[{i}]` must have shape {want} (layer {i + 1} by layer {i}); got {b.shape}."
                )
        common = A[0].dtype
        for x in A + B:
            common = np.promote_types(common, x.dtype)
        object.__setattr__(self, "diagonal_blocks", tuple(a.astype(common) for a in A))
        object.__setattr__(self, "lower_blocks", tuple(b.astype(common) for b in B))
        if is_concrete(*A, *B):
            known: tuple[Any, Any] = jax.tree.map(np.asarray, (self.diagonal_blocks, self.lower_blocks))
            require_positive_definite("precision", _matrix(*known, np))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of variables in each layer."""
        return tuple(int(a.shape[0]) for a in self.diagonal_blocks)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def split(self, v: Array) -> list[Array]:
        """Split the last axis of v into layers."""
        return list(jnp.split(v, np.cumsum(self.sizes)[:-1].tolist(), axis=-1))

    def diagonal(self) -> Array:
        return jnp.concatenate([jnp.diagonal(a) for a in self.diagonal_blocks])

    @full_precision
    def off_diagonal(self, v: Array) -> Array:
        """Return P v without its diagonal part, block by block."""
        parts = self.split(v)
        out = [p @ a for p, a in zip(parts, self.diagonal_blocks, strict=True)]
        for i, b in enumerate(self.lower_blocks):
            out[i] = out[i] + parts[i + 1] @ b
            out[i + 1] = out[i + 1] + parts[i] @ b.T
        return jnp.concatenate(out, axis=-1) - v * self.diagonal()[None, :]

    @full_precision
    def factor(self, extra: Array) -> "LayeredFactor":
        """Factorise P + diag(extra) for each row, by block elimination."""
        roots: list[DenseFactor] = []
        gains: list[Array] = []
        for i, (a, e) in enumerate(zip(self.diagonal_blocks, self.split(extra), strict=True)):
            C = a[None] + e[:, :, None] * jnp.eye(a.shape[0], dtype=a.dtype)[None]
            if i:
                C = C - gains[-1] @ self.lower_blocks[i - 1].T
            roots.append(DenseFactor.of(C, a[None]))
            if i < len(self.lower_blocks):
                R, B = roots[-1].R, self.lower_blocks[i]
                gains.append((jnp.broadcast_to(B[None], (len(extra), *B.shape)) @ R.mT) @ R)
        return LayeredFactor(tuple(roots), tuple(gains), self.lower_blocks)

    def dense(self) -> Array:
        return _matrix(self.diagonal_blocks, self.lower_blocks, jnp)


def _matrix(diagonal: tuple[Any, ...], lower: tuple[Any, ...], xp: Any) -> Any:
    """Assemble the matrix from its blocks, with JAX or NumPy."""
    blocks = {(i, i): a for i, a in enumerate(diagonal)}
    for i, b in enumerate(lower):
        blocks |= {(i + 1, i): b, (i, i + 1): b.T}
    layers = range(len(diagonal))

    def block(i: int, j: int) -> Any:
        shape = (len(diagonal[i]), len(diagonal[j]))
        return blocks[i, j] if (i, j) in blocks else xp.zeros(shape, diagonal[0].dtype)

    return xp.block([[block(i, j) for j in layers] for i in layers])


@pytree
class LayeredFactor:
    """Factors of the Schur complements C_l and G_l = B_l C_l⁻¹, per row; see `DenseFactor`."""

    roots: tuple[DenseFactor, ...]
    gains: tuple[Array, ...]
    lower_blocks: tuple[Array, ...]

    @full_precision
    def solve(self, r: Array) -> Array:
        """Solve by block forward and backward substitution."""
        ends = np.cumsum([root.L.shape[-1] for root in self.roots])
        parts = list(jnp.split(r, ends[:-1].tolist(), axis=-1))
        for i, G in enumerate(self.gains):
            parts[i + 1] = parts[i + 1] - jnp.einsum("bij,bj->bi", G, parts[i])
        out = [self.roots[-1].solve(parts[-1])]
        for root, G, part in zip(self.roots[-2::-1], self.gains[::-1], parts[-2::-1], strict=True):
            out.insert(0, root.solve(part) - jnp.einsum("bij,bi->bj", G, out[0]))
        return jnp.concatenate(out, axis=-1)

    @full_precision
    def blocks(self) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Return the blocks of the inverse on the diagonal and below it, by the backward recursion."""
        diagonal = [self.roots[-1].covariance()]
        lower: list[Array] = []
        for root, G in zip(self.roots[-2::-1], self.gains[::-1], strict=True):
            side = diagonal[0] @ G
            lower.insert(0, -side)
            diagonal.insert(0, root.covariance() + G.mT @ side)
        return tuple(diagonal), tuple(lower)

    def cavity(self) -> Array:
        """Return diag(C P) / diag(C), C the inverse, from the blocks of C where P has blocks."""
        diagonal, lower = self.blocks()
        own = [(C * root.P).sum(-1) for C, root in zip(diagonal, self.roots, strict=True)]
        for i, (C, B) in enumerate(zip(lower, self.lower_blocks, strict=True)):
            own[i], own[i + 1] = own[i] + (C * B[None]).sum(1), own[i + 1] + (C * B[None]).sum(2)
        scale = [jnp.diagonal(C, axis1=1, axis2=2) for C in diagonal]
        return jnp.concatenate([x / c for x, c in zip(own, scale, strict=True)], axis=-1)

    def log_det(self) -> Array:
        return jnp.stack([root.log_det() for root in self.roots]).sum(0)
