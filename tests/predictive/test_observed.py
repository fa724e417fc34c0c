"""Laws of clipped and rounded targets, against sums over cells and integrals of the latent law."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest

from tests.predictive.test_distributions import CASES, grid_of
from tggm.predictive import GaussianMixture, Observed, Support
from tggm.predictive.observed import TERMS

LIMITS = {"between": (1.5, 6.0, None), "above": (1.2, None, None), "below": (None, 4.0, None)}
LATTICES = {"grades": (1.0, 6.0, 1.0), "counts": (0.0, None, 1.0), "halves": (None, None, 0.5)}
ROUND = LATTICES | {"cents": (0.0, 9.0, 0.01)}
LEVELS = np.array([[1e-6, 0.02, 0.3, 0.5, 0.77, 0.99]])


@pytest.fixture(params=CASES, ids=str)
def latent(request):
    return CASES[request.param]


def clipped_grid(latent, lower, upper):
    """Return points of each row that are dense in the bulk of the law, clipped to the limits."""
    ends = -np.inf if lower is None else lower, np.inf if upper is None else upper
    return np.clip(grid_of(latent), *ends)


def score_on(t, F, y, F_y):
    """Integrate (F − 1{y ≤ t})² by the trapezoidal rule on each side of y."""
    left, right = t < y, t > y
    below = np.trapezoid(np.append(F[left], F_y) ** 2, np.append(t[left], y))
    return below + np.trapezoid((1 - np.insert(F[right], 0, F_y)) ** 2, np.insert(t[right], 0, y))


@pytest.mark.parametrize("name", LIMITS)
def test_moments_and_scores_between_limits(latent, name):
    law = Observed(latent, *LIMITS[name])
    t = clipped_grid(latent, *LIMITS[name][:2])
    F, lowest = latent.cdf(t), t[:, 0]
    mean = lowest + np.trapezoid(1 - F, t, axis=1)
    away = t - lowest[:, None]
    second = 2 * np.trapezoid(away * (1 - F), t, axis=1)
    assert_allclose(law.mean(), mean, rtol=1e-6)
    # a Student of four degrees of freedom has 1e-5 of its variance beyond the grid
    assert_allclose(law.var(), second - (mean - lowest) ** 2, rtol=2e-4)
    for level in (0.01, 0.4, 0.9):
        y = law.ppf(level)
        want = [score_on(*row) for row in zip(t, F, y, latent.cdf(y), strict=True)]
        assert_allclose(law.crps(y), want, rtol=5e-5, atol=1e-9)
    if LIMITS[name][0] is not None:  # CRPS falls by 1 per unit below the limits
        assert_allclose(law.crps(-100.0) - law.crps(-99.0), 1.0, rtol=1e-9)


@pytest.mark.parametrize("name", ROUND)
def test_moments_and_scores_on_a_lattice_are_sums_over_its_cells(latent, name):
    lower, upper, step = ROUND[name]
    law = Observed(latent, lower, upper, step)
    low, high = (np.round(latent.ppf(p) / step) for p in (1e-9, 1 - 1e-9))
    k = np.arange(max(low.min(), -40_000), min(high.max(), 40_000) + 1) * step
    k = k[(k >= law.support.ends[0]) & (k <= law.support.ends[1])][None, :]
    p = np.exp(law.logpmf(k))
    F = np.cumsum(p, axis=1)
    heavy = 2e-5 if lower is not None and upper is not None else 1e-3  # of the variance is beyond the cells
    mean = (k * p).sum(1)
    assert_allclose(p.sum(1), 1, atol=1e-7)
    assert_allclose(law.cdf(k), F, atol=1e-7)
    assert_allclose(law.mean(), mean, rtol=1e-5)
    assert_allclose(law.var(), ((k - mean[:, None]) ** 2 * p).sum(1), rtol=heavy)
    for level in (0.01, 0.4, 0.9):
        y = law.ppf(level)
        want = step * ((F - (k >= y[:, None] - 1e-9)) ** 2)[:, :-1].sum(1)
        assert_allclose(law.crps(y), want, rtol=2e-5, atol=1e-7)
    between, left, right = (law.crps(at * step) for at in (2.3, 2.0, 3.0))
    assert_allclose(between, 0.7 * left + 0.3 * right, rtol=1e-5)  # linear between lattice points


def test_limits_of_a_lattice_may_be_rounded():
    normal = GaussianMixture(np.zeros((1, 1)), np.ones((1, 1)))
    law = Observed(normal, None, 0.1 + 0.2, 0.1)
    assert law.cdf(0.3) == law.cdf(0.1 + 0.2) == 1
    assert_allclose(np.exp(law.logpmf(0.3)), normal.cdf(-0.25))
    law = Observed(normal, -0.1 - 0.2, None, 0.1)
    assert_allclose(law.cdf([[-0.3, -0.1 - 0.2, -0.2]])[0], normal.cdf([[-0.25, -0.25, -0.15]])[0])


@pytest.mark.parametrize("support", [*LIMITS.values(), *ROUND.values()], ids=str)
def test_probabilities_quantiles_and_draws_agree(latent, support):
    law = Observed(latent, *support)
    y = law.ppf(LEVELS)
    assert np.all(law.support.contains(y))
    assert np.all(law.cdf(y) >= LEVELS - 1e-9)
    assert_allclose(np.exp(law.logcdf(y)), law.cdf(y), rtol=1e-7)
    assert_allclose(np.exp(law.logsf(y)), 1 - law.cdf(y), rtol=1e-6, atol=1e-12)
    below = y - 1e-5 * (latent.ppf(0.9) - latent.ppf(0.1))[:, None]
    assert np.all(law.cdf(below) <= LEVELS + 1e-9)
    lower, upper = law.interval(0.9)
    assert_allclose(np.stack([lower, upper], 1), law.ppf(np.array([[0.05, 0.95]])), rtol=1e-12)
    draws = law.rvs(20_000, random_state=1)
    for row in law.pit(draws.T):
        assert kstest(row, "uniform").pvalue > 1e-4
    assert np.all(law.support.contains(draws))
    for level in (0.3, 0.77):
        at = law.ppf(level)
        p = law.cdf(at)
        assert np.all(np.abs((draws <= at + 1e-12).mean(0) - p) < 5 * np.sqrt(p * (1 - p) / 20_000) + 1e-9)
    for row in (law[1:], law[np.array([1])]):
        assert_allclose(row.crps(y[1:]), law.crps(y)[1:], rtol=1e-12)
        assert_allclose(row.std(), law.std()[1:], rtol=1e-12)


def test_logpdf_has_atoms_at_limits_and_compares_with_densities(latent):
    law = Observed(latent, 1.5, 6.0)
    assert_allclose(np.exp(law.logpdf(1.5)), latent.cdf(1.5), rtol=1e-9)
    assert_allclose(law.logpdf(6.0), latent.logsf(6.0), rtol=1e-9)
    assert_allclose(law.logpdf(np.array([[2.0, 5.0]])), latent.logpdf(np.array([[2.0, 5.0]])), rtol=1e-9)
    assert_allclose(law.logpmf(1.5), law.logpdf(1.5))
    none = np.array([[1.0, 7.0, -1e300, 1e300]])
    assert np.all(law.logpdf(none) <= -1e300)
    assert_allclose([law.logpdf([[1.0, 7.0]]).mean(), law.logpmf(3.0).mean()], -1e300)
    for step in (1e-3, 1e-6, 1e-12):  # fine cells have the density
        fine = Observed(latent, None, None, step)
        y = np.round(latent.ppf(np.array([[0.2, 0.6]])) / step) * step
        assert_allclose(fine.logpdf(y), latent.logpdf(y), rtol=1e-4, atol=1e-4)
        assert_allclose(fine.logpmf(y), fine.logpdf(y) + np.log(step))
    far = Observed(latent, 0.0, None, 1.0).logpdf(np.array([[50.0, 1e4, 1e8]]))
    assert np.all(np.isfinite(far))


def test_narrow_and_wide_laws_on_a_lattice():
    wide = GaussianMixture([[0.3, 1e6, -5.0]], [[1e-8, 1e8, 1e-8]])
    law = Observed(wide, 0.0, None, 1.0)
    assert_allclose(law.mean(), [0.0, 1e6, 0.0], atol=1e-6)
    assert_allclose(law.std(), [0.0, np.sqrt(1e8 + 1 / 12), 0.0], rtol=1e-6, atol=1e-12)
    assert_allclose(law.crps([0.0, 1e6, 2.0]), [0.0, wide.crps(1e6)[1], 2.0], rtol=1e-6, atol=1e-9)
    # means beyond the lattice sum of 2 × 64 terms
    sums = Observed(GaussianMixture([[0.4]], [[float(TERMS) ** 2]]), 0.0, None, 1.0)
    k = np.arange(2000.0)[None, :]
    assert_allclose(sums.mean(), (k * np.exp(sums.logpmf(k))).sum(1), rtol=1e-5)


def test_means_of_many_rows_are_computed_in_blocks(monkeypatch):
    law = CASES["student"][np.array([0, 1, 1, 0, 1])]
    whole = Observed(law, 0.0, None, 1.0).mean()
    monkeypatch.setattr("tggm.predictive.observed._MANY", 2)
    assert_array_equal(Observed(law, 0.0, None, 1.0).mean(), whole)


def test_lattice_points_are_the_numbers_of_the_data():
    assert_array_equal(Support(None, None, 0.01).observe(np.array([1.1499, 0.296])), [1.15, 0.3])
    assert_array_equal(Support(0.5, 2.5, 1.0).observe(np.array([-3.0, 1.2, 9.0])), [0.5, 1.5, 2.5])
    assert_array_equal(Support(None, 10.0, 3.0).observe(np.array([0.0, 7.4])), [1.0, 7.0])
    assert_array_equal(np.ravel(Support(0.0, 5.0, 1.0).cell(np.array([0.0, 2.0, 5.0]))),
                       [-np.inf, 1.5, 4.5, 0.5, 2.5, np.inf])  # fmt: skip
