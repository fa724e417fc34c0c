"""Diagonal plus low rank: P = diag(d) + UᵀU. The posterior of a shallow model, U = W1 / σ1.

All questions are answered by the Woodbury identity with an n×n matrix per row, n the number of rows of U:

    K = I + U E⁻¹ Uᵀ,  E = diag(d + extra),    (E + UᵀU)⁻¹ = E⁻¹ − E⁻¹ Uᵀ K⁻¹ U E⁻¹,    det = det E · det K.

Cost O(m n²) per row and no m×m matrix anywhere.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.precision.dense import DenseFactor
from tggm.precision.protocol import as_float, is_concrete, pytree, require_positive, rounding
from tggm.products import full_precision


@pytree("base", "weights")
@dataclass(frozen=True, eq=False)
class LowRank:
    """P = diag(base) + weightsᵀ weights.

    Parameters
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
    def size(self) -> int:
        """Number of variables m."""
        return int(self.base.shape[0])

    @property
    def rank(self) -> int:
        """Number of rows n of U."""
        return int(self.weights.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating dtype of the parameters."""
        return np.dtype(self.base.dtype)

    def diagonal(self) -> Array:
        """Diagonal of P, d + the squared column norms of U."""
        return self.base + (self.weights**2).sum(0)

    @full_precision
    def off_diagonal(self, v: Array) -> Array:
        """Uᵀ(U v) less its diagonal part."""
        U = self.weights
        return (v @ U.T) @ U - v * (U**2).sum(0)[None, :]

    @full_precision
    def factor(self, extra: Array) -> "LowRankFactor":
        """P + diag(extra) for each row."""
        E = self.base[None, :] + extra
        U = self.weights
        if self.rank == 1:  # a scalar per row: no batched Cholesky of 1×1 matrices
            K = 1 + ((U**2) / E).sum(-1)
            L = jnp.sqrt(K)[:, None, None]
            return LowRankFactor(E, U, L, 1 / L)
        # one product with the n(n + 1)/2 distinct pairs of rows of U, unpacked by a gather
        i, j = np.tril_indices(self.rank)
        place = np.zeros((self.rank, self.rank), np.int32)
        place[i, j] = place[j, i] = np.arange(len(i))
        K = ((1 / E) @ (U[i] * U[j]).T)[:, place] + jnp.eye(self.rank, dtype=E.dtype)[None]
        root = DenseFactor.of(K)
        return LowRankFactor(E, U, root.L, root.R)

    @full_precision
    def dense(self) -> Array:
        """The matrix itself."""
        return jnp.diag(self.base) + self.weights.T @ self.weights


@pytree("E", "U", "L", "R")
@dataclass(frozen=True, eq=False)
class LowRankFactor:
    """E + UᵀU per row, with the Cholesky factor L of K = I + U E⁻¹ Uᵀ and its inverse R."""

    E: Array
    U: Array
    L: Array
    R: Array

    @full_precision
    def solve(self, r: Array) -> Array:
        """E⁻¹ r − E⁻¹ Uᵀ K⁻¹ U E⁻¹ r."""
        x = r / self.E
        s = x @ self.U.T
        t = s / self.L[:, :, 0] ** 2 if self.U.shape[0] == 1 else DenseFactor(self.L, self.R).solve(s)
        return x - (t @ self.U) / self.E

    @full_precision
    def variances(self) -> Array:
        """1/E_k − ‖R U_k‖² / E_k²."""
        q = (
            self.U**2 / self.L[:, :, 0] ** 2
            if self.U.shape[0] == 1
            else ((self.R @ self.U[None]) ** 2).sum(1)
        )
        # the difference is positive: q < E (‖K^-½ U_k‖² E_k⁻¹ < 1); written so that rounding keeps it so
        return jnp.maximum(1 - q / self.E, rounding(self.E.dtype)) / self.E

    def log_det(self) -> Array:
        """Σ log E + 2 Σ log diag L."""
        return jnp.log(self.E).sum(-1) + 2 * jnp.log(jnp.diagonal(self.L, axis1=1, axis2=2)).sum(-1)
