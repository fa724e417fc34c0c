"""Comparison of gradients with finite differences."""

import jax
import numpy as np


def assert_gradient(value, parameters, rng, rtol=1e-6):
    """Compare reverse mode with central differences, along one direction for every leaf."""
    leaves, tree = jax.tree.flatten(parameters)
    both = jax.jit(jax.value_and_grad(value))
    gradient = jax.tree.leaves(both(parameters)[1])
    for i, (leaf, g) in enumerate(zip(leaves, gradient, strict=True)):
        direction = rng.standard_normal(leaf.shape)
        ends = [
            both(jax.tree.unflatten(tree, [*leaves[:i], leaf + t * direction, *leaves[i + 1 :]]))[0]
            for t in (1e-5, -1e-5)
        ]
        np.testing.assert_allclose((g * direction).sum(), (ends[0] - ends[1]) / 2e-5, rtol=rtol, atol=1e-6)
