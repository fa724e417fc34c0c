"""Moments of units in training: their closed derivatives beside automatic ones of the exact functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tggm.models.hidden import unit
from tggm.special import standard

PLACES = np.array([-1e6, -300.0, -20.0, -5.0, -1.0, -0.3, 0.0, 0.5, 3.0, 12.0, 1e4])
SPREADS = np.array([1e-6, 0.1, 1.0, 7.0])


def plain(n_nodes: int, alpha: jax.Array, spread: jax.Array) -> jax.Array:
    """The averages as a sum over an axis of nodes."""
    z, w = np.polynomial.hermite_e.hermegauss(n_nodes)
    z, w = jnp.asarray(z, alpha.dtype), jnp.asarray(w / w.sum(), alpha.dtype)
    g, omega2 = standard.moments(alpha + spread * z)
    c = (w * g).sum()
    return jnp.stack([c, (w * omega2).sum(), (w * (g - c) ** 2).sum()])


@pytest.fixture
def grid(dtype):
    alpha, spread = (a.ravel() for a in np.meshgrid(PLACES, SPREADS))
    return jnp.asarray(alpha, dtype), jnp.asarray(spread, dtype)


def test_values_and_derivatives_are_those_of_the_sums(grid, dtype):
    """Within rounding of the size of what is added up: g itself where nodes reach, squared in v."""
    tolerance = 3e-5 if dtype == np.float32 else 1e-12

    def both(f):
        return jax.jit(jax.vmap(lambda a, s: (f(a, s), jax.jacfwd(f, (0, 1))(a, s))))(*grid)

    values, rates = both(lambda a, s: jnp.stack(unit.averages(3, a, s)))
    expected, expected_rates = both(lambda a, s: plain(3, a, s))
    size = 1 + np.maximum(np.asarray(grid[0]) + 2 * np.asarray(grid[1]), 0)[:, None]
    size = size ** np.array([1, 0, 2])
    for found, wanted in ((values, expected), *zip(rates, expected_rates, strict=True)):
        np.testing.assert_array_less(np.abs(found - wanted) / size, tolerance)


def test_a_loop_over_more_nodes_gives_the_same_sums(grid, dtype):
    """The variance by deviations from g(alpha): its rounding is that of their squares."""
    tolerance = 3e-5 if dtype == np.float32 else 1e-12
    found = jax.jit(lambda a, s: jnp.stack(unit.averages(7, a, s), axis=1))(*grid)
    expected = jax.jit(jax.vmap(lambda a, s: plain(7, a, s)))(*grid)
    size = 1 + np.maximum(np.asarray(grid[0]) + 4 * np.asarray(grid[1]), 0)[:, None]
    scale = size ** np.array([1, 0, 0]) * np.stack([np.ones(len(size))] * 3, 1)
    scale[:, 2] = 1 + (4 * np.asarray(grid[1])) ** 2
    np.testing.assert_array_less(np.abs(found - expected) / scale, tolerance)


def test_one_location(dtype):
    """The slope of the variance, κ3, errs by no more than rounding g; relatively where it matters."""
    a = jnp.asarray(PLACES, dtype)
    ways = (unit.moments, standard.moments)
    found, exact = (jax.jit(jax.vmap(jax.jacfwd(lambda x, f=f: f(x)[1])))(a) for f in ways)
    np.testing.assert_allclose(found, exact, rtol=2e4 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).eps)
