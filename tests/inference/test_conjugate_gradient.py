"""Conjugate gradients against a direct solver."""

import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

from tggm.inference.conjugate_gradient import conjugate_gradient


def test_systems_are_solved_and_no_solution_is_zero_for_being_good_enough(rng):
    B = rng.normal(size=(4, 4))
    A = B @ B.T + np.eye(4)
    r = np.stack([rng.normal(size=4), np.zeros(4), 1e-6 * rng.normal(size=4)]).astype(np.float32)

    def product(x):
        return x @ jnp.asarray(A, jnp.float32)

    diagonal = jnp.broadcast_to(jnp.asarray(np.diag(A), jnp.float32), r.shape)
    assert_allclose(conjugate_gradient(product, r, diagonal), np.linalg.solve(A, r.T).T, rtol=5e-3, atol=1e-9)
    loose = np.asarray(conjugate_gradient(product, r, diagonal, enough=1e-8))
    assert loose[2].any()
    assert not loose[1].any()
