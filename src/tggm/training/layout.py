"""Parameters as one vector.

Inside the training program all parameters of a member are one vector, so that clipping, moments, averages,
tests for finiteness and copies are one operation each instead of one per array: fewer kernels to compile and
to launch.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


@dataclass(frozen=True)
class Layout:
    """Where each array of a pytree lies in the vector; hashable, so that it can be a static argument."""

    tree: Any  # jax.tree_util.PyTreeDef
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, params: Any, *, axes: int = 0) -> "Layout":
        """Layout of `params` without its first `axes` axes."""
        leaves, tree = jax.tree.flatten(params)
        return cls(tree, tuple(tuple(leaf.shape[axes:]) for leaf in leaves))

    @property
    def sizes(self) -> list[int]:
        """Number of entries of each array."""
        return [int(np.prod(shape)) for shape in self.shapes]

    def join(self, params: Any) -> Array:
        """The vector of a traced pytree."""
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(params)])

    def split(self, vector: Array) -> Any:
        """The pytree of a traced vector."""
        parts = jnp.split(vector, np.cumsum(self.sizes)[:-1].tolist())
        return jax.tree.unflatten(self.tree, [p.reshape(s) for p, s in zip(parts, self.shapes, strict=True)])

    def join_members(self, params: Any) -> np.ndarray:
        """The matrix, one row a member, of a pytree of NumPy arrays with a leading axis of members."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
        return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)

    def split_members(self, matrix: Any) -> Any:
        """Inverse of `join_members`."""
        matrix = np.asarray(matrix)
        parts = np.split(matrix, np.cumsum(self.sizes)[:-1], axis=1)
        leaves = [p.reshape(len(p), *s) for p, s in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.tree, leaves)

    def spread(self, values: Any) -> np.ndarray:
        """A vector with one number for all entries of each array, from a pytree of numbers."""
        return np.repeat(np.asarray(jax.tree.leaves(values), dtype=np.float64), self.sizes)
