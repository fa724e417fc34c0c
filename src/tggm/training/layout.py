"""The layout of a model's arrays in the parameter vector of training."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.arrays import Tree


@dataclass(frozen=True)
class Layout:
    """Positions of the arrays of a pytree in a vector; hashable, so that it can be a static argument."""

    tree: Any  # jax.tree_util.PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, params: Tree, *, axes: int = 0) -> "Layout":
        """Return the layout of `params` without its first `axes` axes."""
        pairs, tree = jax.tree_util.tree_flatten_with_path(params)
        names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in pairs]
        return cls(tree, tuple([tuple(leaf.shape[axes:]) for _, leaf in pairs]), tuple(names))

    @property
    def sizes(self) -> list[int]:
        """Return the number of entries of each array."""
        return [int(np.prod(shape)) for shape in self.shapes]

    def join(self, params: Tree) -> Array:
        """Return the vector of a traced pytree."""
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(params)])

    def split(self, vector: Array) -> Any:
        """Return the pytree of a traced vector."""
        parts = jnp.split(vector, np.cumsum(self.sizes)[:-1].tolist())
        return jax.tree.unflatten(self.tree, [p.reshape(s) for p, s in zip(parts, self.shapes, strict=True)])

    def join_members(self, params: Tree) -> np.ndarray:
        """Return the matrix (members, parameters) of a pytree of NumPy arrays stacked over members."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
        return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)

    def split_members(self, matrix: Any) -> Any:
        """Invert `join_members`."""
        matrix = np.asarray(matrix)
        parts = np.split(matrix, np.cumsum(self.sizes)[:-1], axis=1)
        leaves = [p.reshape(len(p), *s) for p, s in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.tree, leaves)

    def rates(self, fixed: Collection[str]) -> np.ndarray:
        """Return a vector that multiplies steps: zero for the arrays with these names, else one."""
        return np.repeat([float(name not in fixed) for name in self.names], self.sizes)

    def with_hidden_weights(self, vector: Array, found: Callable[[Array], Array], of: Array) -> Array:
        """Return the vector with `found(part of `of`)` in the place of the weights of hidden units."""
        ends = np.cumsum(self.sizes)[:-1].tolist()
        parts, sources = jnp.split(vector, ends), jnp.split(of, ends)
        for k, (name, shape) in enumerate(zip(self.names, self.shapes, strict=True)):
            if name.startswith("hidden.") and len(shape) == 2:
                parts[k] = found(sources[k].reshape(shape)).reshape(-1)
        return jnp.concatenate(parts)
