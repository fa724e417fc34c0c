"""Boxes: one optimum, nonnegative sites, derivatives by the limits, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.inference.references import grid_box
from tggm.gaussian import TruncatedGaussian
from tggm.inference import exact, log_partition, mean_field
from tggm.inference._ep import gaussian_sites, site_tolerance
from tggm.precision import LowRank

P = np.array([[1.5, 0.4, -0.3], [0.4, 1.2, 0.2], [-0.3, 0.2, 1.0]])
SHIFTS = np.array([[0.7, -0.5, 0.3], [-3.0, 2.0, -4.0]])
LOWER = np.array([[-1.0, -0.5, 0.2], [2.0, 0.0, -1.0]])
UPPER = np.array([[0.5, 1.0, 3.0], [2.5, 4.0, 2.0]])


def test_mean_field_has_one_optimum():
    tg = TruncatedGaussian(P, SHIFTS, LOWER, UPPER)
    first, second = (mean_field(tg, start=LOWER + share * (UPPER - LOWER)) for share in (0.01, 0.99))
    assert first.converged.all()
    assert second.converged.all()
    assert_allclose(first.mean, second.mean, rtol=1e-7, atol=1e-9)
    # the Hessian diag(1/v) + P̃ of the problem is at least P: no variance is above 1/P_kk
    assert np.all(np.asarray(first.var) <= 1 / np.diag(P))


def test_sites_are_not_negative():
    tg = TruncatedGaussian(P, SHIFTS, LOWER, UPPER)
    sites = gaussian_sites(tg, jnp.int32(100), site_tolerance(tg.shift.dtype))
    assert np.all(sites.precision >= 0)
    assert np.all(sites.mismatch <= 1e-9)


@pytest.mark.parametrize(
    ("engine", "tol"), [("ep", 5e-3), pytest.param("mean_field", 0.05, marks=pytest.mark.slow)]
)
def test_derivatives_by_the_limits(engine, tol):
    def total(lower, upper):
        return log_partition(TruncatedGaussian(P, SHIFTS, lower, upper), engine=engine).sum()

    by_lower, by_upper = jax.jit(jax.grad(total, argnums=(0, 1)))(LOWER, UPPER)
    h, k = 1e-4, (0, 1)
    moved = []
    for sign in (1, -1):
        lower, upper = LOWER[0].copy(), UPPER[0].copy()
        lower[1] += sign * h
        moved.append(grid_box(P, SHIFTS[0], lower, upper)[0])
    assert_allclose(by_lower[k], (moved[0] - moved[1]) / (2 * h), rtol=tol, atol=tol)
    # a limit moved outwards never lowers log Z
    assert np.all(by_lower <= 0)
    assert np.all(by_upper >= 0)


def test_exact_raises_for_other_problems():
    tg = TruncatedGaussian(LowRank(np.ones(5), np.ones((1, 5))), np.zeros(5), -1.0, 1.0)
    with pytest.raises(ValueError, match=r"got LowRank of rank 1 in a box with 5 variables"):
        exact(tg)
