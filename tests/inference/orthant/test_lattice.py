import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.inference.orthant.lattice import generator, next_prime, tent_points


def squared_error(z, weights):
    """Worst-case error of a lattice, summed term by term as defined."""
    n = round(1 / z[0])
    x = np.outer(np.arange(n), z) % 1.0
    return np.prod(1 + weights * 2 * np.pi**2 * (x * x - x + 1 / 6), axis=1).mean() - 1


def test_every_component_visits_every_point():
    n, dim = 101, 12
    z = np.rint(generator(n, dim) * n).astype(int)
    for zj in z:
        assert sorted(np.arange(n) * zj % n) == list(range(n))


def test_construction_is_greedy_optimal():
    n, dim = 31, 4
    z = generator(n, dim)
    weights = 1 / np.arange(1, dim + 1) ** 2
    for j in range(1, dim):
        others = [squared_error(np.append(z[:j], k / n), weights[: j + 1]) for k in range(1, n)]
        assert_allclose(squared_error(z[: j + 1], weights[: j + 1]), min(others), rtol=1e-10)


@pytest.mark.parametrize(("n", "expected"), [(1, 3), (4, 5), (90, 97), (1000, 1009), (8192, 8209)])
def test_next_prime(n, expected):
    assert next_prime(n) == expected


def test_composite_size_is_refused():
    with pytest.raises(ValueError, match="`n` must be prime; got 15"):
        generator(15, 2)


def test_smooth_integrand_converges_faster_than_monte_carlo(rng):
    dim = 5
    shifts = jnp.asarray(rng.random((4, 2, dim)))

    def error(n):
        u = tent_points(jnp.asarray(generator(n, dim)), n, shifts)
        assert float(u.min()) > 0
        assert float(u.max()) < 1
        u = np.asarray(u).reshape(4, dim, 2, n)
        f = np.exp(u / np.arange(1, dim + 1)[None, :, None, None]).prod(1)
        exact = np.prod([k * (np.exp(1 / k) - 1) for k in range(1, dim + 1)])
        return np.sqrt(np.mean((f.mean(-1) / exact - 1) ** 2))

    assert error(2003) < error(101) / 20  # Monte Carlo would gain a factor of 4.5
