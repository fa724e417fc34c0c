"""Block tridiagonal: layers of variables, each connected to the next. The prior and posterior of deep models.

With diagonal blocks A_0 … A_L and B_l the block between layer l + 1 (rows) and layer l (columns), elimination
from the first layer gives the Schur complements

    C_0 = A_0,   C_{l+1} = A_{l+1} − B_l C_l⁻¹ B_lᵀ,   log det = Σ log det C_l,

and, from the last layer back, the blocks of the inverse at the positions of those of P, with G_l = B_l C_l⁻¹,

    Σ_LL = C_L⁻¹,   Σ_ll = C_l⁻¹ + G_lᵀ Σ_{l+1,l+1} G_l,   Σ_{l+1,l} = −Σ_{l+1,l+1} G_l.

Cost O(Σ m_l³) per row, against O((Σ m_l)³) for a dense matrix.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.precision.dense import DenseFactor
from tggm.precision.protocol import Precision, as_float, is_concrete, pytree, require_positive_definite
from tggm.runtime import full_precision


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
