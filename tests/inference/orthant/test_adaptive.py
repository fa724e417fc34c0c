"""Points that grow with the accuracy asked for, in float32 where that is enough."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import few
from tests.inference.boxes import equicorrelated
from tggm.gaussian import Limits
from tggm.inference.orthant.adaptive import AdaptivePoints
from tggm.inference.orthant.points import weighted_points
from tggm.inference.orthant.weights import probability

D, RHO = 10, 0.5
COV = (1 - RHO) * np.eye(D) + RHO
LOWER = np.linspace(-2.0, 0.0, D)
UPPER = LOWER + np.linspace(1.5, 3.0, D)


def log_weights(short, far=0.0):
    with jax.enable_x64(True):
        limits = Limits(jnp.asarray(LOWER + far), jnp.asarray(UPPER + far))
        found = weighted_points(
            jnp.asarray(COV),
            jnp.zeros(D),
            limits,
            n_points=1000,
            n_shifts=8,
            seed=0,
            short=short,
            places=False,
        )
    return found.log_w


def test_float32_moves_a_probability_by_less_than_a_hundred_thousandth():
    long, short = log_weights(False), log_weights(True)
    assert long.dtype == short.dtype == np.float64
    assert np.any(long != short)  # so it was float32
    assert abs(np.expm1(probability(short).value - probability(long).value)) < 1e-5


def test_a_box_that_is_far_away_stays_in_float64():
    np.testing.assert_array_equal(log_weights(True, 60.0), log_weights(False, 60.0))


@pytest.mark.parametrize("tol", few([1e-3, 1e-5], "0.001"))
def test_probability_reaches_its_tolerance(tol):
    found = probability(AdaptivePoints(COV, np.zeros(D), LOWER, UPPER, 1).log_weights(tol))
    truth = np.log(equicorrelated(RHO, LOWER, UPPER))
    assert found.error <= tol
    assert abs(found.value - truth) <= 6 * found.error + 1e-5  # t with 7 degrees of freedom; float32


def test_points_are_used_again_where_they_are_good_enough():
    points = AdaptivePoints(COV, np.zeros(D), LOWER, UPPER, 1)
    first = points.log_weights(1e-3)
    assert points.log_weights(1e-2) is first
    assert np.any(points.log_weights(5e-5) != first)  # float32 is not good enough
    assert points.log_weights(1e-5).shape[1] > first.shape[1]
    places = points.points(1e-2)[1]
    assert np.all((places >= LOWER) & (places <= UPPER))
