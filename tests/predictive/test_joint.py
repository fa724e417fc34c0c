"""Joint distributions of several outputs: Gaussian mixtures and copulas of calibrated marginals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from tggm.predictive import joint as module
from tggm.predictive.calibration import Calibration, pooled
from tggm.predictive.gaussian_mixture import GaussianMixture
from tggm.predictive.observed import Observed
from tggm.predictive.student import StudentPredictive

MEAN, WIDTH = np.array([[1.0, -2.0]]), np.array([[0.5, 3.0]])
RHO = 0.7
R = np.array([[[1.0, RHO], [RHO, 1.0]]])


def law(*heaviness):
    def marginal(m, w, h):
        return StudentPredictive(m, w, h) if h else GaussianMixture(m[None], w[None] ** 2)

    return module.CopulaPredictive([*map(marginal, MEAN.T, WIDTH.T, heaviness)], R)


def ensemble(scale=(1.0, 1.0)):
    """Draw five members, three rows, two outputs."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 3, 2, 4))
    mean, cov = rng.standard_normal((5, 3, 2)), A @ np.swapaxes(A, 2, 3)
    return module.MultivariateGaussianMixture(mean, cov, loc=[1.0, 2.0], scale=scale)


def test_gaussian_marginals_make_a_gaussian():
    cov = R[0] * WIDTH[0][:, None] * WIDTH[0][None, :]
    witness = stats.multivariate_normal(MEAN[0], cov)
    for y in ([1.0, -2.0], [3.0, 4.0], [-9.0, 20.0]):
        assert_allclose(law(0.0, 0.0).logpdf([y])[0], witness.logpdf(y), rtol=1e-9)
    assert_allclose(law(0.0, 0.0).cov()[0], cov, rtol=1e-9)


def test_the_density_integrates_to_the_marginals():
    joint = law(0.3, 0.1)
    s = np.linspace(-9, 9, 401)  # y = mean + width · sinh s: tails fall slowly
    points, slope = MEAN[0, 1] + WIDTH[0, 1] * np.sinh(s), WIDTH[0, 1] * np.cosh(s)
    many = module.CopulaPredictive(
        [StudentPredictive(np.repeat(MEAN[:, j], 401), np.repeat(WIDTH[:, j], 401), h)
         for j, h in enumerate((0.3, 0.1))],
        np.repeat(R, 401, axis=0),
    )  # fmt: skip
    for y in (-1.0, 1.0, 1.8):
        density = many.pdf(np.column_stack([np.full(401, y), points]))
        assert_allclose((density * slope).sum() * (s[1] - s[0]), joint.marginal(0).pdf([y])[0], rtol=1e-5)


@pytest.mark.parametrize(("nu", "tolerance"), [(2.5, 0.01), (5.0, 1e-4)])
def test_covariances_against_another_quadrature(nu, tolerance):
    """E Q(Φ(z)) Q(Φ(z')) by sums on a plain grid: integrands are smooth and vanish at its ends."""
    z = np.linspace(-9, 9, 1201)
    q = np.where(z < 0, stats.t.ppf(stats.norm.cdf(z), nu), stats.t.isf(stats.norm.sf(z), nu))
    pairs = np.stack(np.meshgrid(z, z), axis=-1)
    density = stats.multivariate_normal(np.zeros(2), R[0]).pdf(pairs)
    want = (density * np.outer(q, q)).sum() * (z[1] - z[0]) ** 2
    cov = law(1 / nu, 1 / nu).cov()[0]
    deviations = WIDTH[0] * np.sqrt(nu / (nu - 2))
    assert_allclose(np.sqrt(np.diag(cov)), deviations, rtol=1e-9)
    assert abs(cov[0, 1] - want * WIDTH[0].prod()) < tolerance * deviations.prod()


def test_draws_have_the_marginals_and_the_rank_correlation():
    size = 20_000
    draws = law(0.1, 0.1).rvs(size, random_state=0)[:, 0]
    for j in range(2):
        assert stats.kstest(draws[:, j], stats.t(10, MEAN[0, j], WIDTH[0, j]).cdf).pvalue > 0.01
    # Kendall's tau of a Gaussian copula is 2 arcsin(ρ) / π; five standard errors of at most √(2/(9 n)) · 2
    tau = stats.kendalltau(draws[:, 0], draws[:, 1]).statistic
    assert abs(tau - 2 / np.pi * np.arcsin(RHO)) < 5 * 2 * np.sqrt(2 / (9 * size))


def test_draws_and_covariances_of_outputs_with_limits_and_steps():
    marginals = [law(0.0, 0.0).marginal(j) for j in (0, 1)]
    parts = [Observed(marginals[0], 0.8, None), Observed(marginals[1], -4.0, None, 1.0)]
    joint = module.CopulaPredictive(parts, R)
    draws = joint.rvs(40_000, random_state=0)[:, 0]
    for j, part in enumerate(parts):
        assert np.all(part.support.contains(draws[:, j]))
        for y in (0.8, 1.0, 2.0) if j == 0 else (-4.0, -2.0, 1.0):
            p = part.cdf(y)[0]
            assert abs((draws[:, j] <= y).mean() - p) < 4.5 * np.sqrt(p * (1 - p) / 40_000)
    # both normal variables below z: Owen's formula by SciPy
    ends = [(0.8 - 1.0) / 0.5, (-3.5 + 2.0) / 3.0]
    want = stats.multivariate_normal([0, 0], R[0]).cdf(ends)
    both = np.mean((draws[:, 0] == 0.8) & (draws[:, 1] == -4.0))
    assert abs(both - want) < 4.5 * np.sqrt(want * (1 - want) / 40_000)
    assert_allclose(joint.cov()[0], np.cov(draws.T), atol=0.03 * joint.std()[0].prod(), rtol=0.03)
    with pytest.raises(ValueError, match=r"no joint density; use marginal\(j\).logpdf\(y\[:, j\]\)"):
        joint.logpdf([[1.0, 2.0]])


def test_log_density_is_finite_far_out():
    assert np.isfinite(law(0.0, 0.3).logpdf([[1e9, -1e9]])).all()
    assert np.isfinite(law(0.3, 0.3).logpdf([[1e200, -1e200]])).all()


def joined(pools, members):
    mixtures = [members.marginal(j) for j in range(members.n_outputs)]
    return module.pooled_joint(pools, members, list(map(pooled, pools, mixtures)))


def test_uncalibrated_members_are_returned_unchanged():
    members = ensemble()
    assert module.pooled_joint((), members, []) is members
    assert module.pooled_joint([Calibration(), Calibration()], members, []) is members


def test_marginals_are_calibrated_and_correlations_are_those_of_the_pool():
    pools = [Calibration("student", (0.5, 2.0, 0.1)), Calibration("student", (2.0, 0.3, 0.0))]
    for scale in ([1.0, 1.0], [10.0, 0.1]):
        members = ensemble(scale)
        joint = joined(pools, members)
        for j, pool in enumerate(pools):
            assert_allclose(joint.std()[:, j], pooled(pool, members.marginal(j)).std(), rtol=1e-12)
    mean, cov = members._mean, members._cov
    C = cov.mean(0)
    B = np.stack([np.cov(mean[:, n].T) for n in range(3)])
    f, g = np.array([0.5, 2.0]), np.array([2.0, 0.3])
    S = np.outer(f, f) * C + np.outer(g, g) * B
    want = S[:, 0, 1] / np.sqrt(S[:, 0, 0] * S[:, 1, 1])
    # a joint of Gaussians with these pools has that correlation
    plain = joined([Calibration("student", (*p.numbers[:2], 0.0)) for p in pools], members).cov()
    assert_allclose(plain[:, 0, 1] / np.sqrt(plain[:, 0, 0] * plain[:, 1, 1]), want, rtol=1e-9)


def test_mixture_marginals_draws_and_covariance_agree():
    joint, n = ensemble([2.0, 0.5]), 20_000
    draws = joint.rvs(n, random_state=3)
    assert draws.shape == (n, 3, 2)
    assert_allclose(np.einsum("njj->nj", joint.cov()), joint.var(), rtol=1e-12)
    for i in range(3):
        away = draws[:, i] - joint.mean()[i]
        products = away[:, 0] * away[:, 1]
        assert abs(products.mean() - joint.cov()[i, 0, 1]) < 4.5 * products.std() / np.sqrt(n)
    assert_allclose((draws <= joint.ppf(0.3)[None]).mean(0), 0.3, atol=4.5 * np.sqrt(0.21 / n))
    assert_allclose(joint.cdf(joint.ppf(0.3)), 0.3, atol=1e-10)
    low, high = joint.interval(0.5)
    assert low.shape == high.shape == (3, 2)
    assert_allclose(joint.crps(joint.mean())[:, 1], joint.marginal(1).crps(joint.mean()[:, 1]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.marginal(5), "`output` must be the number of an output, 0 to 1; got 5"),
        (lambda d: d.marginal("y"), "`output` must be the number of an output, 0 to 1; got 'y'"),
        (lambda d: d.cdf(0.0), r"`y` must be finite, of shape \(3, 2\).*got shape \(\)"),
        (lambda d: d.crps(np.zeros((3, 3))), r"of shape \(3, 2\).*got shape \(3, 3\).*use marginal"),
        (lambda d: d.rvs(-1), "`size` must be the number of draws"),
        (lambda d: d.interval([0.9]), r"`level` must be between 0 and 1; got \[0.9\]"),
        (lambda d: module.CopulaPredictive([d.marginal(0)], R), r"`correlation` must have shape \(3, 1, 1\)"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call(ensemble())


def test_log_densities_against_scipy(rng):
    A = rng.normal(size=(4, 3, 3))
    C = A @ A.transpose(0, 2, 1) + 0.1 * np.eye(3)
    errors = rng.normal(size=(4, 3))
    expected = [stats.multivariate_normal(cov=c).logpdf(e) for c, e in zip(C, errors, strict=True)]
    assert_allclose(module.log_densities(errors, module.factors(C)), expected, rtol=1e-10)


def test_singular_covariances_are_changed_little():
    w = np.array([[1.0, 1e10], [1e-5, 3.0]])
    C = w[:, :, None] * w[:, None, :]  # two outputs of one unit without noise
    L = module.factors(C)
    assert_allclose(L @ L.transpose(0, 2, 1), C, rtol=1e-8)
    assert np.isfinite(module.log_densities(np.ones((2, 2)), L)).all()
    assert np.isfinite(module.log_densities(np.full((2, 2), 1e200), L)).all()


def test_log_densities_without_variance_are_finite():
    assert np.isfinite(module.log_densities(np.zeros((1, 2)), module.factors(np.zeros((1, 2, 2))))).all()
