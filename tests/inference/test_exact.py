"""The exact engine against brute force in NumPy; its gradients are in test_log_partition.py."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr

from tests.inference.references import grid_moments, log_integral, random_precision
from tggm.gaussian import TruncatedGaussian
from tggm.inference._exact import exact, exact_log_z
from tggm.precision import Dense, LowRank


def check(tg, P, rtol=1e-10):
    got = exact(tg)
    assert got.kind == "exact"
    for i, gamma in enumerate(np.asarray(tg.shift)):
        log_z, mean, var = grid_moments(P, gamma, np.asarray(tg.truncated), n_nodes=80)
        assert_allclose(float(got.log_z[i]), log_z, rtol=rtol, atol=rtol)
        assert_allclose(np.asarray(got.mean[i]), mean, rtol=rtol, atol=rtol)
        assert_allclose(np.asarray(got.var[i]), var, rtol=rtol)


MASKS = [None, [True, False, True]]


@pytest.mark.parametrize("mask", MASKS, ids=["all", "some"])
def test_rank_one_of_three(mask):
    d, u = np.array([0.5, 2.0, 1.0]), np.array([[1.0, -1.5, 0.6]])
    shift = np.array([[1.0, -0.5, 2.0], [-2.0, 3.0, 0.0]])
    check(TruncatedGaussian(LowRank(d, u), shift, mask), np.diag(d) + u.T @ u)


@pytest.mark.slow  # the largest program; pairs are tested below
@pytest.mark.parametrize("mask", MASKS, ids=["all", "some"])
def test_dense_of_three(rng, mask):
    P = random_precision(rng, 3)
    check(TruncatedGaussian(Dense(P), rng.normal(size=(2, 3)), mask), P)


@pytest.mark.parametrize("gamma", [[-30.0, -5.0], [40.0, 30.0], [-1e3, 2.0], [-200.0, 150.0]])
def test_two_variables_peaked_and_skewed(gamma):
    # one integral in closed form, the other by brute force
    P = np.array([[1.5, 0.9], [0.9, 1.0]])
    got = exact(TruncatedGaussian(Dense(P), np.array(gamma)))

    def log_f(x, power=0):
        a = gamma[1] - P[0, 1] * x
        inner = 0.5 * a * a + log_ndtr(a)
        return -0.5 * P[0, 0] * x * x + gamma[0] * x + inner + power * np.log(np.maximum(x, 1e-300))

    upper = max(gamma) * 3 + 60
    log_z = log_integral(log_f, 0.0, upper)
    mean = np.exp(log_integral(lambda x: log_f(x, 1), 0.0, upper) - log_z)
    assert_allclose(float(got.log_z), log_z + 0.5 * np.log(2 * np.pi), rtol=1e-10)
    assert_allclose(float(got.mean[0]), mean, rtol=1e-9)  # the witness subtracts logarithms of size |gamma|^2


def test_errors_name_other_engines(rng):
    P = LowRank(np.ones(10), rng.normal(size=(2, 10)))
    with pytest.raises(ValueError, match=r"LowRank of rank 2 with 10 variables. Use `ep`.*`orthant`"):
        exact(TruncatedGaussian(P, np.zeros(10)))
    with pytest.raises(ValueError, match=r"Dense with 4 variables"):
        exact_log_z(TruncatedGaussian(Dense(np.eye(4)), np.zeros(4)))
    box = TruncatedGaussian(LowRank(np.ones(5), np.ones((1, 5))), np.zeros(5), -1.0, 1.0)
    with pytest.raises(ValueError, match=r"got LowRank of rank 1 in a box with 5 variables"):
        exact(box)
