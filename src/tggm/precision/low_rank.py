"""Diagonal plus low rank: P = diag(d) + UᵀU. The posterior of a shallow model, U = W1 / σ1.

The Woodbury identity needs an n×n matrix per row, n the number of rows of U:

    K = I + U E⁻¹ Uᵀ,  E = diag(d + extra),    (E + UᵀU)⁻¹ = E⁻¹ − E⁻¹ Uᵀ K⁻¹ U E⁻¹,    det = det E · det K.

The cost is O(m n²) per row, and no m×m matrix is formed. A small K is inverted by elimination over all rows
at once, with rows along the last axis, which is much faster than one factorisation per row.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.precision.dense import DenseFactor
from tggm.precision.protocol import Precision, as_float, is_concrete, pytree, require_positive, rounding
from tggm.runtime import full_precision

ELIMINATE_UP_TO = 24  # rows of U; elimination is unrolled over them


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
