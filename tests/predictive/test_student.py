"""Student-t tails against mpmath; the shape of errors against quadrature and draws."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from tggm.predictive.student import KNOTS, PLACES, Shape, StudentPredictive, fit_shape


@pytest.fixture
def logs(rng):
    return rng.normal(0, 1.5, KNOTS)


def test_cdf_is_the_integral_of_the_density(logs):
    shape = Shape(logs)
    knots = PLACES
    assert_allclose(np.diff(np.log(shape.density(knots))), np.diff(logs), rtol=1e-10)
    for u in (1e-9, 0.03, 0.4, 0.77, 1.0):
        inner = knots[(knots > 0) & (knots < u)]
        area = quad(lambda x: float(shape.density(np.array(x))), 0, u, points=inner, limit=200)[0]
        assert_allclose(shape.cdf(np.array(u)), area, rtol=1e-10)


def test_the_reversed_shape_is_the_upper_tail(logs):
    u = np.linspace(0.05, 0.95, 19)
    assert_allclose(Shape(logs[::-1]).cdf(1 - u), 1 - Shape(logs).cdf(u), rtol=1e-10)


def test_log_tails_of_probabilities_that_underflow(logs):
    shape = Shape(logs)
    assert_allclose(shape.log_cdf(np.array([-1e4])), -1e4 + np.log(shape.end), rtol=1e-12)


def test_a_known_shape_is_estimated(rng):
    """From 20,000 draws or their cells; a height depends on a thousand, with an error of about 1/30."""
    true = Shape(0.8 * np.sin(np.arange(KNOTS) / 2))
    grid = np.linspace(0, 1, 10_001)
    draws = np.interp(rng.random(20_000), true.cdf(grid), grid)
    found = Shape(fit_shape(draws, np.ones(len(draws))))
    u = np.linspace(0.05, 0.95, 50)
    assert_allclose(found.density(u), true.density(u), rtol=0.2)
    assert np.log(found.density(draws)).mean() > np.log(true.density(draws)).mean() - 1e-3
    cuts = np.linspace(0, 1, 41)
    cell = np.searchsorted(cuts, draws) - 1
    found = Shape(fit_shape(draws, np.ones(len(draws)), (cuts[cell], cuts[cell + 1])))
    assert_allclose(found.density(u), true.density(u), rtol=0.2)
    half = np.where(draws < 0.5, draws, 0.5), np.where(draws < 0.5, draws, 1.0)  # censored above one half
    limited = Shape(fit_shape(half[0], np.ones(len(draws)), half))
    assert_allclose(limited.density(u[u < 0.48]), true.density(u[u < 0.48]), rtol=0.2)
    assert_allclose(limited.cdf(np.array([0.5])), true.cdf(np.array([0.5])), atol=0.01)


def test_few_draws_leave_the_shape_nearly_uniform(rng):
    found = Shape(fit_shape(rng.random(5), np.ones(5)))
    assert_allclose(found.density(np.linspace(0, 1, 9)), 1, atol=0.6)


@pytest.mark.parametrize(("nu", "u"), [(4.0, 1e100), (30.0, 1e40), (1000.0, 200.0), (1e4, 36.0)])
def test_student_tail_where_it_underflows(nu, u):
    with mpmath.workdps(40):
        x = mpmath.mpf(nu) / (nu + mpmath.mpf(u) ** 2)
        want = float(mpmath.log(mpmath.betainc(nu / 2, 0.5, 0, x, regularized=True) / 2))
    got = StudentPredictive(np.zeros(1), np.ones(1), 1 / nu).logcdf(-u)
    assert_allclose(got, want, rtol=1e-12)


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"`heaviness` is 1/ν and must be from .* below 0.5; got 0.5"):
        StudentPredictive(np.zeros(1), np.ones(1), 0.5)
    with pytest.raises(ValueError, match="`width` must be positive; smallest is"):
        StudentPredictive(np.zeros(1), np.zeros(1), 0.1)
