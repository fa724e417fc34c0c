"""Gradients against central differences."""

import jax
import jax.numpy as jnp
from numpy.testing import assert_allclose


def assert_gradient(value, model, rng, *, eps=1e-5, rtol=1e-5, atol=0.0):
    """The derivative of a number along a random direction, the gauge held fixed."""
    both = jax.jit(jax.value_and_grad(value))
    along = {name: jnp.asarray(rng.standard_normal(a.shape)) for name, a in model.arrays().items()}
    along = model.replaced(along | {"hidden.s0": jnp.zeros(())})
    pairs = zip(jax.tree.leaves(both(model)[1]), jax.tree.leaves(along), strict=True)
    slope = sum(float(jnp.vdot(g, u)) for g, u in pairs)
    ends = [both(jax.tree.map(lambda p, u, e=e: p + e * u, model, along))[0] for e in (eps, -eps)]
    assert_allclose(slope, float(ends[0] - ends[1]) / (2 * eps), rtol=rtol, atol=atol)
