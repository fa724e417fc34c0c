"""Members dealt to the cores of a CPU learn what they would learn together."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from numpy.testing import assert_allclose
from tggm.training.parallel.crew import group_size

from tests.training.straight_line import Squares, fit
from tggm.blas_lock import factorises


@pytest.mark.parametrize(
    ("members", "cores", "size"), [(10, 2, 5), (10, 4, 3), (10, 64, 1), (7, 2, 4), (1, 8, 1), (3, 0, 3)]
)
def test_members_are_dealt_in_equal_groups(members, cores, size):
    assert group_size(members, cores) == size


@pytest.mark.parametrize("cores", [2, 3, 4])
def test_members_learn_the_same_in_any_number_of_groups(data, monkeypatch, cores):
    monkeypatch.setattr("tggm.training.parallel.crew.n_cores", lambda: cores)
    result = fit(data, 4, batch=5, epochs=6, seed=3)
    monkeypatch.setattr("tggm.training.parallel.crew.n_cores", lambda: 1)
    together = fit(data, 4, batch=5, epochs=6, seed=3)
    assert_allclose(result.params["w"], together.params["w"], rtol=1e-12)
    assert_allclose(result.train, together.train, rtol=1e-12)


@dataclass(frozen=True)
class WhitenedSquares(Squares):
    """Squares whose gradient needs batched factorisations, large enough for two of them to meet."""

    def __call__(self, params, rows, progress):
        matrices = jnp.eye(50)[None] * (1 + params["w"][0] ** 2) + jnp.zeros((128, 1, 1))
        L = jax.lax.linalg.cholesky(matrices)
        return super().__call__(params, rows, progress) - 0.0 * L.sum()


def test_programs_that_factorise_run_alone(data, monkeypatch):
    monkeypatch.setattr("tggm.training.parallel.crew.n_cores", lambda: 2)
    traced = jax.jit(jax.vmap(lambda a: lax.fori_loop(0, 2, lambda _, x: jnp.linalg.cholesky(x), a))).trace
    assert factorises(traced(np.ones((2, 3, 3))).jaxpr.jaxpr)
    assert not factorises(jax.jit(jnp.sin).trace(1.0).jaxpr.jaxpr)
    fit(data, 2, objective=WhitenedSquares(), epochs=8)  # would wait for ever in two threads
