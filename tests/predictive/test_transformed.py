"""Distributions of transformed targets against scipy, grids and draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import kstest, lognorm, norm

from tggm.predictive import MomentPredictive
from tggm.predictive.beta_map import BetaMapped
from tggm.predictive.calibration import Calibration, pooled
from tggm.predictive.exact import Predictive
from tggm.predictive.student import StudentPredictive
from tggm.predictive.transformed import Transformed
from tggm.predictive.transforms import IdentityTransform, LogTransform, YeoJohnsonTransform

LAW = MomentPredictive([[0.0, 1.0], [0.6, 0.2]], [[0.3, 0.1], [0.2, 0.5]], loc=0.5, scale=1.5)
CASES = {
    "log": Transformed(LAW, LogTransform()),
    "log of a mapped pool": Transformed(BetaMapped(LAW, 2.0, 1.5), LogTransform()),
    "power 0.3": Transformed(LAW, YeoJohnsonTransform(0.3, 1.0, 2.0)),
    "power 1.6": Transformed(LAW, YeoJohnsonTransform(1.6)),
    "power 0.6 of a Student": Transformed(
        StudentPredictive(np.zeros(2), np.array([0.5, 1.0]), 0.1), YeoJohnsonTransform(0.6)
    ),
    "power 0.3 of widths": Transformed(
        pooled(Calibration("scales", (0.7, 0.5, 0.4)), LAW), YeoJohnsonTransform(0.3, 1.0, 2.0)
    ),
    "identity": Transformed(LAW, IdentityTransform()),
}


@pytest.fixture(params=CASES, ids=str)
def dist(request):
    return CASES[request.param]


def grid_of(dist, n=100_001):
    """Points of each row from one far quantile to the other, dense where the distribution is."""
    t = np.linspace(-7.5, 7.5, n)
    ends = np.stack([dist.ppf(q) for q in (1e-13, 1 - 1e-13)], 1)
    middle, spread = dist.ppf(0.5)[:, None], (dist.ppf(0.7) - dist.ppf(0.3))[:, None]
    y = middle + spread * np.sinh(t)
    return np.clip(y, ends[:, :1], ends[:, 1:])


def test_density_is_the_derivative_of_a_cdf_from_0_to_1(dist):
    y = grid_of(dist)
    F, f = dist.cdf(y), dist.pdf(y)
    assert np.all(np.diff(F, axis=1) >= -1e-15)
    assert_allclose(np.trapezoid(f, y, axis=1), 1, rtol=1e-6)
    inner = dist.ppf(np.linspace(0.01, 0.99, 25)[None])
    h = 1e-5 * (dist.ppf(0.7) - dist.ppf(0.3))[:, None]
    assert_allclose((dist.cdf(inner + h) - dist.cdf(inner - h)) / (2 * h), dist.pdf(inner), rtol=1e-6)
    assert_allclose(dist.logpdf(inner), np.log(dist.pdf(inner)), rtol=1e-9, atol=1e-9)


def test_moments_and_scores_by_a_grid(dist):
    y = grid_of(dist)
    f, F = dist.pdf(y), dist.cdf(y)
    mean = np.trapezoid(y * f, y, axis=1)
    assert_allclose(dist.mean(), mean, rtol=1e-6)
    assert_allclose(dist.var(), np.trapezoid((y - mean[:, None]) ** 2 * f, y, axis=1), rtol=1e-4)
    apart = np.trapezoid(F * (1 - F), y, axis=1)
    for q in (0.001, 0.3, 0.5, 0.9, 1 - 1e-6):
        at = dist.ppf(q)
        to_y = np.trapezoid(np.abs(y - at[:, None]) * f, y, axis=1)
        assert_allclose(dist.crps(at), to_y - apart, rtol=1e-5)


def test_quantiles_and_draws(dist):
    q = np.array([[1e-9, 0.05, 0.5, 0.95, 1 - 1e-9]])
    assert_allclose(dist.cdf(dist.ppf(q)), np.tile(q, (2, 1)), rtol=1e-8)
    low, high = dist.interval(0.8)
    assert_allclose(dist.cdf(high) - dist.cdf(low), 0.8, rtol=1e-10)
    for row in dist.cdf(dist.rvs(2000, random_state=3).T):
        assert kstest(row, "uniform").pvalue > 1e-3
    assert_allclose(dist[1:].mean(), dist.mean()[1:])


def test_every_finite_target_has_a_finite_log_density(dist):
    far = np.array([[-1e300, -1e50, -1.0, 0.0, 1e-300, 1e50, 1e300]])
    assert np.all(np.isfinite(dist.logpdf(far)))
    assert np.all(np.diff(dist.cdf(far), axis=1) >= 0)
    assert np.all(np.isfinite(dist.crps(np.array([[-1e10, 0.0, 1e10]]))))


def test_one_gaussian_is_a_lognormal():
    mean, std = np.array([0.3, -2.0, 1.0]), np.array([0.5, 2.5, 5.0])  # of the last, far tails matter
    dist = Transformed(MomentPredictive(mean[None], std[None] ** 2), LogTransform())
    want = lognorm(std, scale=np.exp(mean))
    y = np.array([3.0, 1e-4, 1e3])
    for name in ("pdf", "logpdf", "cdf", "logcdf", "logsf"):
        assert_allclose(getattr(dist, name)(y), getattr(want, name)(y), rtol=1e-10)
    for name in ("mean", "std"):
        assert_allclose(getattr(dist, name)(), getattr(want, name)(), rtol=1e-10)
    # Baran & Lerch (2015): the score of a lognormal
    w = (np.log(y) - mean) / std
    score = y * (2 * norm.cdf(w) - 1) - 2 * np.exp(mean + std**2 / 2) * (
        norm.cdf(w - std) + norm.cdf(std / np.sqrt(2)) - 1
    )
    assert_allclose(dist.crps(y), score, rtol=1e-5)
    assert_allclose(dist.crps(-1.0) - dist.crps(-2.0), -1.0)
    assert dist.ppf(0.0).tolist() == [0.0, 0.0, 0.0]


def test_scores_of_an_exact_law_ask_for_few_tails(monkeypatch):
    """Z = 0.2 + 0.5 h + ε, h ~ N(α, 1) above 0: the score of e^Z against nested quadratures."""
    alpha, asked = np.linspace(-1.0, 2.0, 4), []
    law = Predictive(alpha[None, :, None], [[0.5]], [0.2], 1.0, 0.3**2)
    tails = Predictive._log_tails

    def counted(self, rows, z):
        asked.append(len(rows))
        return tails(self, rows, z)

    monkeypatch.setattr(Predictive, "_log_tails", counted)
    y = np.array([0.5, 1.0, 2.0, 40.0])
    found = Transformed(law, LogTransform()).crps(y)
    assert sum(asked) < 241  # of 4 rows; those of all nodes would be 964
    t, v = np.polynomial.legendre.leggauss(200)
    h, v = 5 * (t + 1), 5 * v  # up to 10
    for a, at, score in zip(alpha, y, found, strict=True):
        p = v * norm.pdf(h - a) / norm.cdf(a)

        def cdf(z, p=p):
            return p @ norm.cdf((z - 0.2 - 0.5 * h) / 0.3)

        below = quad(lambda z: cdf(z) ** 2 * np.exp(z), -4, np.log(at), epsabs=1e-11)[0]
        above = quad(lambda z: (1 - cdf(z)) ** 2 * np.exp(z), np.log(at), 7, epsabs=1e-11)[0]
        assert_allclose(score, below + above, rtol=1e-6)


def test_moments_of_an_exact_law_ask_for_few_tails(monkeypatch):
    """Under a power, against a fine grid of densities."""
    law = Predictive(np.array([[[0.5], [-0.5]]]), [[0.8]], [0.3], 1.0, 0.4**2)
    dist = Transformed(law, YeoJohnsonTransform(0.5))
    asked, density = [], Predictive._log_density

    def counted(self, rows, z):
        asked.append(len(rows))
        return density(self, rows, z)

    y = grid_of(dist, 20_001)
    f = dist.pdf(y)
    monkeypatch.setattr(Predictive, "_log_density", counted)
    mean, var = dist.mean(), dist.var()
    assert sum(asked) < 120  # of 2 rows; those of all nodes would be 482
    assert_allclose(mean, np.trapezoid(y * f, y, axis=1), rtol=1e-6)
    assert_allclose(var, np.trapezoid((y - mean[:, None]) ** 2 * f, y, axis=1), rtol=1e-5)


def test_a_student_has_no_mean_under_a_logarithm():
    dist = Transformed(StudentPredictive(np.zeros(1), np.ones(1), 0.1), LogTransform())
    assert dist.mean() == np.inf
    assert dist.var() == np.inf
    assert_allclose(dist.ppf(0.5), 1.0)
