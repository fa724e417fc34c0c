"""Every pool is a proper distribution; witnesses are scipy, grids and draws."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import beta, kstest, norm
from scipy.stats import t as student_t

from tggm.predictive import MomentPredictive, Predictive
from tggm.predictive.beta_map import BetaMapped
from tggm.predictive.calibration import Calibration, pooled
from tggm.predictive.pools import POOLS
from tggm.predictive.student import StudentPredictive

CASES = [
    Calibration(),
    Calibration("student", (0.7, 0.5, 0.25)),
    Calibration("student", (0.7, 2.0, 0.0)),
    Calibration("shaped", (0.7, 0.5, 0.25, *np.linspace(-1, 1, 17))),
    Calibration("shaped", (0.7, 2.0, 0.0, *np.sin(np.arange(17)))),
    Calibration("scales", (0.7, 0.5, 0.4)),
    Calibration("beta", (2.5, 1.4)),
    Calibration("beta", (0.6, 0.8)),
    Calibration("beta", (40.0, 35.0)),
]
LOC, SCALE = 2.0, 3.0


@pytest.fixture(scope="module")
def members():
    mean = np.array([[0.0, 1.0], [0.8, -1.0], [-0.5, 0.2]])
    return MomentPredictive(mean, [[1.0, 0.3], [0.25, 2.0], [0.5, 0.5]], loc=LOC, scale=SCALE)


@pytest.fixture(params=CASES, ids=lambda c: f"{c.kind}{c.numbers[:3]}")
def pool(request, members):
    return pooled(request.param, members)


def grid_of(pool, n=80_001):
    """Points of each row, evenly spaced in the inverse hyperbolic sine so that heavy tails are reached."""
    t = np.linspace(-10, 10, n)
    return pool.ppf(0.5)[:, None] + 0.5 * pool.std()[:, None] * np.sinh(t)


def test_density_is_the_derivative_of_a_cdf_from_0_to_1(pool):
    y = grid_of(pool)
    F, f = pool.cdf(y), pool.pdf(y)
    assert np.all(np.diff(F, axis=1) >= -1e-15)
    assert_allclose(F[:, 0], 0, atol=1e-6)  # ν = 4: the grid ends where 1e-12 is left, and less
    assert_allclose(F[:, -1], 1, atol=1e-6)
    assert_allclose(np.trapezoid(f, y, axis=1), 1, rtol=1e-6)
    inner = pool.ppf(np.linspace(0.01, 0.99, 25)[None])
    h = 1e-5 * pool.std()[:, None]
    assert_allclose((pool.cdf(inner + h) - pool.cdf(inner - h)) / (2 * h), pool.pdf(inner), rtol=1e-6)
    assert_allclose(pool.logpdf(inner), np.log(pool.pdf(inner)), rtol=1e-9, atol=1e-9)


def test_moments_and_scores_by_a_grid(pool):
    y = grid_of(pool)
    f, F = pool.pdf(y), pool.cdf(y)
    mean = np.trapezoid(y * f, y, axis=1)
    assert_allclose(pool.mean(), mean, rtol=1e-6)
    # a Student of four degrees of freedom has 1e-5 of its variance beyond the grid
    assert_allclose(pool.var(), np.trapezoid((y - mean[:, None]) ** 2 * f, y, axis=1), rtol=1e-4)
    apart = np.trapezoid(F * (1 - F), y, axis=1)
    for q in (0.001, 0.3, 0.9):
        at = pool.ppf(q)
        to_y = np.trapezoid(np.abs(y - at[:, None]) * f, y, axis=1)
        assert_allclose(pool.crps(at), to_y - apart, rtol=1e-5)


def test_quantiles_invert_the_cdf(pool):
    q = np.array([[1e-12, 1e-7, 0.01, 0.3, 0.5, 0.9, 1 - 1e-7, 1 - 1e-12]])
    y = pool.ppf(q)
    assert np.all(np.diff(y, axis=1) > 0)
    assert_allclose(pool.cdf(y), np.tile(q, (2, 1)), rtol=1e-9)
    assert_allclose(np.exp(pool.logsf(y))[:, -2:], np.tile(1 - q[:, -2:], (2, 1)), rtol=1e-9)
    assert_allclose(pool.ppf(pool.cdf(y[:, 2:6])), y[:, 2:6], rtol=1e-10)


def test_tails_are_finite_far_out(pool):
    far = np.array([[-1e300, -1e100, -1e6, 1e6, 1e100, 1e300]])
    assert np.all(np.isfinite(pool.logpdf(far)))
    assert np.all(pool.logpdf(far) < 0)
    assert np.all(np.isfinite(pool.logcdf(far)))
    assert np.all(np.isfinite(pool.logsf(far)))
    near = np.concatenate([-np.geomspace(1e8, 50, 40), np.geomspace(50, 1e8, 40)])[None]
    assert np.all(np.diff(pool.logcdf(near), axis=1) >= -1e-15)  # near 0 it is rounded
    assert np.all(np.diff(pool.logsf(near), axis=1) <= 1e-15)


def test_draws_follow_it(pool):
    draws = pool.rvs(3000, random_state=1)
    assert draws.shape == (3000, 2)
    for row in pool.cdf(draws.T):
        assert kstest(row, "uniform").pvalue > 1e-3
    assert pool.rvs(random_state=0).shape == (2,)


def test_rows_can_be_chosen(pool):
    y = np.array([1.0, -4.0])
    assert len(pool[1:]) == 1
    assert_allclose(pool[1:].logpdf(y[1:]), pool.logpdf(y)[1:])
    assert_allclose(pool[np.array([1, 0])].crps(y[::-1]), pool.crps(y)[::-1])


def test_neutral_numbers_leave_members_alone(members):
    y = members.ppf(np.array([[0.01, 0.4, 0.99]]))
    for kind in ("linear", "beta"):
        neutral = Calibration(kind, tuple(n.neutral for n in POOLS[kind].numbers))
        assert_allclose(pooled(neutral, members).logpdf(y), members.logpdf(y), rtol=1e-12)


def test_student_against_scipy(members):
    f, g, nu = 0.7, 1.9, 3.3
    pool = pooled(Calibration("student", (f, g, 1 / nu)), members)
    mean, var = members.member_moments()
    width = np.sqrt(f**2 * var.mean(0) + g**2 * mean.var(0, ddof=1))
    want = student_t(nu, LOC + SCALE * mean.mean(0), SCALE * width)
    y = np.array([5.0, -300.0])
    assert_allclose(pool.logpdf(y), want.logpdf(y), rtol=1e-12)
    assert_allclose(pool.logcdf(y), want.logcdf(y), rtol=1e-10)
    assert_allclose(pool.interval(0.9), want.interval(0.9), rtol=1e-10)
    assert_allclose(pool.std(), want.std(), rtol=1e-12)


def test_scales_against_scipy(members):
    """A normal whose log-deviation is nearly normal: five nodes give its variance, exp(2τ²), to 1e-4."""
    f, g, tau = 0.7, 1.9, 0.3
    pool = pooled(Calibration("scales", (f, g, tau)), members)
    mean, var = members.member_moments()
    width = SCALE * np.sqrt(f**2 * var.mean(0) + g**2 * mean.var(0, ddof=1))
    assert_allclose(pool.mean(), LOC + SCALE * mean.mean(0), rtol=1e-12)
    assert_allclose(pool.std(), width * np.exp(tau**2), rtol=1e-4)
    gaussian = pooled(Calibration("scales", (f, g, 0.0)), members)
    y = np.array([5.0, -300.0])
    assert_allclose(gaussian.logpdf(y), norm(LOC + SCALE * mean.mean(0), width).logpdf(y), rtol=1e-12)


@pytest.mark.parametrize(("nu", "u"), [(4.0, 1e100), (30.0, 1e40), (1000.0, 200.0)])
def test_tail_of_a_student_where_it_underflows(nu, u):
    with mpmath.workdps(40):
        x = mpmath.mpf(nu) / (nu + mpmath.mpf(u) ** 2)
        want = float(mpmath.log(mpmath.betainc(nu / 2, 0.5, 0, x, regularized=True) / 2))
    got = StudentPredictive(np.zeros(1), np.ones(1), 1 / nu).logcdf(-u)
    assert_allclose(got, want, rtol=1e-12)


def test_beta_map_of_a_gaussian():
    one = MomentPredictive([[0.5]], [[4.0]])
    got = BetaMapped(one, 3.0, 0.7)
    y = np.array([[-3.0, 0.0, 2.5, 6.0]])
    F = norm.cdf(y, 0.5, 2.0)
    assert_allclose(got.cdf(y), beta.cdf(F, 3.0, 0.7), rtol=1e-12)
    assert_allclose(got.pdf(y), beta.pdf(F, 3.0, 0.7) * norm.pdf(y, 0.5, 2.0), rtol=1e-10)


def test_beta_map_keeps_the_exact_density_of_one_layer():
    rng = np.random.default_rng(3)
    exact = Predictive(rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 4)), [0.1, -0.2], 1.0, [0.05, 0.1])
    mapped = BetaMapped(exact, 2.0, 1.5)
    y = np.linspace(-30, 30, 4001)[None]
    assert_allclose(np.trapezoid(mapped.pdf(y), y, axis=1), 1, rtol=1e-8)
    q = np.array([[1e-9, 0.2, 0.9]])
    assert_allclose(mapped.cdf(mapped.ppf(q)), np.tile(q, (3, 1)), rtol=1e-9)
    assert np.all(np.isfinite(mapped.logpdf(1e5)))


def test_bad_numbers_are_named(members):
    with pytest.raises(ValueError, match=r"`a` and `b` must be positive and finite; got 0\.0"):
        BetaMapped(members, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"`heaviness` is 1/ν and must be from 0 to less than 0.5; got 0.5"):
        StudentPredictive(np.zeros(1), np.ones(1), 0.5)
    with pytest.raises(ValueError, match="`width` must be positive; smallest is"):
        StudentPredictive(np.zeros(1), np.zeros(1), 0.1)
