"""The multivariate normal in a box against closed forms, SciPy and one-dimensional integrals."""

import warnings

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm, truncnorm

import tggm
from tests.inference.references import grid_box
from tggm import MultivariateTruncatedNormal, box_log_prob, truncated_normal

D, RHO = 3, 0.5  # one size, so that one program serves all
COV = (1 - RHO) * np.eye(D) + RHO
LOWER, UPPER = np.linspace(-1.5, 0.3, D), np.linspace(0.1, 2.0, D)


def equicorrelated(rho, lower, upper):
    """Return the probability of a box of normals with equal correlations ρ, by one integral."""

    def integrand(x):
        z = np.sqrt(rho) * x
        sides = norm.cdf((upper - z) / np.sqrt(1 - rho)) - norm.cdf((lower - z) / np.sqrt(1 - rho))
        return norm.pdf(x) * np.prod(sides)

    return quad(integrand, -9, 9, epsabs=0, epsrel=1e-11, limit=200)[0]


@pytest.fixture(scope="module")
def law():
    return MultivariateTruncatedNormal(np.zeros(D), COV, LOWER, UPPER)


def test_probability(law):
    found = law.log_prob_box()
    truth = np.log(equicorrelated(RHO, LOWER, UPPER))
    assert abs(found.value - truth) <= found.error <= 5e-3


def test_two_variables_are_integrated():
    cov = np.array([[1.0, 0.3], [0.3, 2.0]])
    law = MultivariateTruncatedNormal([0.5, -1.0], cov, [-1.0, -2.0], [1.0, np.inf])
    truth = multivariate_normal([0.5, -1.0], cov).cdf([1.0, 40.0], lower_limit=[-1.0, -2.0])
    assert_allclose(law.log_prob_box().value, np.log(truth), rtol=1e-9)


def test_moments_by_a_grid(law):
    _, mean, var = grid_box(np.linalg.inv(COV), np.zeros(D), LOWER, UPPER)
    found = law.moments()
    assert np.all(np.abs(found.mean - mean) <= found.mean_error + 1e-6)
    assert np.all(np.abs(np.diag(found.cov) - var) <= np.diag(found.cov_error) + 1e-6)


def test_independent_variables_are_exact():
    mean, var = np.array([1.0, -2.0, 0.0, 9.0]), np.array([1.0, 4.0, 0.25, 1.0])
    lower, upper = np.array([0.0, -1.0, -np.inf, -np.inf]), np.array([np.inf, 3.0, 0.1, np.inf])
    law = MultivariateTruncatedNormal(mean, np.diag(var), lower, upper)
    std = np.sqrt(var)
    one = truncnorm((lower - mean) / std, (upper - mean) / std, loc=mean, scale=std)
    found = law.moments()
    assert_allclose(found.mean, one.mean(), rtol=1e-10)
    assert_allclose(np.diag(found.cov), one.var(), rtol=1e-9)
    x = np.array([[0.5, 0.0, -0.2, 8.0], [-0.5, 0.0, -0.2, 8.0]])
    assert_allclose(law.logpdf(x)[0], one.logpdf(x[0]).sum(), rtol=1e-10)
    assert law.logpdf(x)[1] == -np.inf


def test_draws_have_the_moments_of_the_box(law):
    draws = law.rvs(4000, random_state=3)
    assert draws.shape == (4000, D)
    assert np.all((draws >= LOWER) & (draws <= UPPER))
    found = law.moments()
    error = np.sqrt(np.diag(found.cov) / 4000 + found.mean_error**2)
    assert np.all(np.abs(draws.mean(0) - found.mean) <= 5 * error)
    # the covariance of independent draws: entries have a standard deviation of at most s_i s_j sqrt(2 / n)
    scale = np.sqrt(np.outer(np.diag(found.cov), np.diag(found.cov)))
    assert np.all(np.abs(np.cov(draws.T) - found.cov) <= 5 * scale * np.sqrt(2 / 4000))


def test_marginals(law):
    found = law.marginals()
    draws = law.rvs(4000, random_state=3)
    share = (draws[:, :, None] <= found.quantiles[None]).mean(0)
    q = np.array([0.05, 0.5, 0.95])
    assert np.all(np.abs(share - q) <= 5 * np.sqrt(q * (1 - q) / 4000) + 0.005)
    assert_allclose(found.mean, law.moments().mean)
    assert_allclose(found.std**2, np.diag(law.moments().cov))


def test_improbable_box(law):
    # all of them below −25: nothing may underflow
    far = MultivariateTruncatedNormal(np.zeros(D), COV, LOWER - 30, UPPER - 30).log_prob_box()
    assert -3000 < far.value < -300
    assert far.error <= 5e-3


def test_errors():
    with pytest.raises(ValueError, match=r"`mean` must be finite; got nan"):
        MultivariateTruncatedNormal([np.nan, 0], np.eye(2))
    with pytest.raises(
        ValueError, match=r"`lower` must have one number per variable \(3\).*got shape \(2,\)"
    ):
        MultivariateTruncatedNormal(np.zeros(3), np.eye(3), [0, 1])
    with pytest.raises(ValueError, match=r"`q` must be probabilities between 0 and 1; got \[1.5\]"):
        MultivariateTruncatedNormal([0, 0], np.eye(2), 0).marginals([1.5])
    with pytest.raises(ValueError, match=r"`cov` must have shape \(2, 2\).*got \(3, 3\)"):
        MultivariateTruncatedNormal([0, 0], np.eye(3))
    with pytest.raises(ValueError, match=r"`cov` must be positive definite; smallest eigenvalue is -1"):
        MultivariateTruncatedNormal([0, 0], [[1, 2], [2, 1]])
    with pytest.raises(
        ValueError, match=r"`lower` must be below `upper`; variable 1 has lower 2 and upper 1"
    ):
        MultivariateTruncatedNormal([0, 0], np.eye(2), [0, 2], 1)
    with pytest.raises(ValueError, match=r"`engine` must be one of"):
        MultivariateTruncatedNormal([0, 0], np.eye(2), engine="scipy")
    with pytest.raises(ValueError, match=r"`x` must have 2 columns; got shape \(3,\)"):
        MultivariateTruncatedNormal([0, 0], np.eye(2), 0).logpdf(np.zeros(3))
    assert "MultivariateTruncatedNormal" in tggm.__all__


def test_tolerance_out_of_reach_warns(law, monkeypatch):
    monkeypatch.setattr(truncated_normal, "_MOST_POINTS", 1000)
    with pytest.warns(RuntimeWarning, match=r"above `tol` = 1e-12, with the largest number of points"):
        law.log_prob_box(tol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        law.log_prob_box()


def test_points_are_reused_if_they_are_accurate_enough():
    d = 10
    cov, lower, upper = 0.5 * np.eye(d) + 0.5, np.linspace(-2.0, 0.0, d), np.linspace(-0.5, 3.0, d)
    law = MultivariateTruncatedNormal(np.zeros(d), cov, lower, upper, seed=1)

    def draw(tol):
        return law._refine(tol, lambda found: truncated_normal._probability(found.log_w).error)

    first = draw(5e-3)
    assert draw(5e-2) is first
    assert law._single
    assert draw(1e-5).log_w.shape[1] > first.log_w.shape[1]
    assert not law._single  # float32 is not accurate enough
    assert np.all((first.h >= lower) & (first.h <= upper))


def test_the_mode_of_jax_makes_no_difference():
    """A sum with a float64 outside of the engine would be rounded to single precision, with a warning."""
    dist = MultivariateTruncatedNormal([0.0, 0.0], [[1, 0.5], [0.5, 1]], [0, 0], [1, 2])
    with jax.enable_x64(False):
        single = dist.log_prob_box()
    assert single == dist.log_prob_box()


@pytest.mark.parametrize("seed", range(3))
def test_few_effective_points_have_no_error(seed):
    # one point carries the weight: eight shifts that agree are no evidence
    log_w = np.random.default_rng(seed).normal(size=(8, 100))
    log_w[0, 0] = 50.0
    assert truncated_normal._probability(log_w).error == np.inf
    found = truncated_normal._moments(log_w, np.zeros((8, 100, D)))
    assert np.all(np.isnan(found.mean_error))
    assert np.all(np.isnan(found.cov_error))


def test_the_mean_of_many_points_in_a_narrow_box_is_not_rounded():
    h = 10 + 1e-12 * np.random.default_rng(0).random((8, 20_000, 1))
    found = truncated_normal._moments(np.zeros(h.shape[:2]), h)
    assert h.min() <= found.mean[0] <= h.max()
    assert_allclose(found.cov[0, 0], np.var(h - 10), rtol=1e-6)


def test_a_large_tilt_does_not_round_the_values_in_a_narrow_interval():
    cov, width = np.full((D, D), 1 - 1e-4) + 1e-4 * np.eye(D), 1e-12
    law = MultivariateTruncatedNormal(np.zeros(D), cov, [0.0, 1.0, 1.0], [width, np.inf, np.inf])
    found, draws = law.moments(), law.rvs(200)[:, 0]
    # the density changes by a factor of 1 + 1e-8 there, so the variable is uniform
    assert abs(found.mean[0] - width / 2) <= found.mean_error[0] < 0.05 * width
    assert_allclose(found.cov[0, 0], width**2 / 12, rtol=0.05)
    assert len(np.unique(draws)) > 0.8 * len(draws)
    assert abs(draws.mean() - width / 2) < 4 * width / np.sqrt(12 * len(draws))


def test_a_corner_at_correlation_one_millionth_below_one():
    """Near its corner (2, −2) the density is a product of exponentials: the correction is of order 1e-6."""
    rho = 0.999999
    law = MultivariateTruncatedNormal([0, 0], [[1, rho], [rho, 1]], [2, -3], [3, -2])
    rate, moments = 2 / (1 - rho), law.moments()  # of each variable
    assert_allclose((moments.mean - [2, -2]) * rate, [1, -1], atol=2e-6)
    assert_allclose(moments.cov * rate**2, np.eye(2), atol=2e-6)
    log_p = -4 / (1 - rho) - np.log(2 * np.pi) - 0.5 * np.log1p(-rho * rho) - 2 * np.log(rate)
    found = law.log_prob_box()
    assert abs(found.value - log_p) <= found.error < 0.1
    with pytest.warns(RuntimeWarning, match="Hamiltonian"), pytest.raises(RuntimeError, match="do not mix"):
        law.rvs(100)


gradient = jax.jit(jax.value_and_grad(lambda *a: box_log_prob(*a, n_points=100), argnums=(0, 1, 2, 3)))


@pytest.mark.parametrize("d", [2, 6, 20])
def test_derivatives_are_those_of_the_estimate(d, rng):
    A = rng.normal(size=(d, d))
    lower = np.where(np.arange(d) % 3 == 1, -np.inf, rng.normal(size=d) - 1.5)
    upper = np.where(np.arange(d) % 3 == 2, np.inf, np.maximum(lower, -1) + rng.uniform(1, 3, d))
    given = [lower, upper, rng.normal(size=d), A @ A.T / d + np.eye(d)]
    slopes = gradient(*given)[1]
    for k, slope in enumerate(slopes):
        direction = rng.normal(size=slope.shape)
        direction = np.where(np.isfinite(given[k]), direction + direction.T, 0)
        ends = []
        for step in (1e-4, -1e-4, 2e-4, -2e-4):  # central differences of fourth order
            moved = [*given[:k], given[k] + step * direction, *given[k + 1 :]]
            ends.append(float(gradient(*moved)[0]))
        want = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / 12e-4
        assert_allclose(np.sum(np.asarray(slope) * direction), want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("d", [2, 20])
def test_derivatives_of_independent_variables_have_closed_forms(d):
    var = np.linspace(0.5, 2.0, d)
    lower, upper, mean = np.linspace(-1, 0.5, d), np.linspace(1, 1.5, d), np.linspace(-0.5, 0.5, d)
    value, slopes = gradient(lower, upper, mean, np.diag(var))
    std = np.sqrt(var)
    one = truncnorm((lower - mean) / std, (upper - mean) / std, loc=mean, scale=std)
    mass = norm.cdf(upper, mean, std) - norm.cdf(lower, mean, std)
    assert_allclose(value, np.log(mass).sum(), rtol=1e-10)
    off = one.mean() - mean
    wanted = [-norm.pdf(lower, mean, std) / mass, norm.pdf(upper, mean, std) / mass, off / var]
    for slope, want in zip(slopes[:3], wanted, strict=True):
        assert_allclose(slope, want, rtol=1e-6)
    # off the diagonal: the derivative by a covariance is the product of the scores, half for each entry
    score = np.outer(off / var, off / var)
    score[np.diag_indices(d)] = ((one.var() + off**2) / var - 1) / var
    assert_allclose(slopes[3], score / 2, rtol=1e-3, atol=1e-3)
    assert_allclose(np.diag(slopes[3]), np.diag(score) / 2, rtol=1e-6)


def test_orthants_of_two_variables_in_batches():
    rho = np.array([-0.9, 0.0, 0.5, 0.99])
    cov = np.eye(2) + rho[:, None, None] * (1 - np.eye(2))
    value, error = box_log_prob(0, np.inf, np.zeros(2), cov, n_points=4000, with_error=True)
    want = 0.25 + np.arcsin(rho) / (2 * np.pi)
    assert np.all(np.abs(value - np.log(want)) <= error)
    assert error.max() < 1e-4
    one = jax.grad(lambda r: box_log_prob(0.0, np.inf, 0.0, np.eye(2) + r * (1 - np.eye(2)), n_points=4000))
    slope = jax.jit(jax.vmap(one))(rho[:3])
    assert_allclose(slope, 1 / (2 * np.pi * np.sqrt(1 - rho[:3] ** 2)) / want[:3], rtol=1e-4)


def test_errors_of_box_log_prob():
    with pytest.raises(ValueError, match="`cov` must be positive definite"):
        box_log_prob(0, 1, np.zeros(2), [[1, 2], [2, 1]])
    with pytest.raises(ValueError, match=r"`cov` must have shape \(..., d, d\); got \(2,\)"):
        box_log_prob(0, 1, np.zeros(2), [1, 2])
    with pytest.raises(ValueError, match="`lower` must be below `upper`"):
        box_log_prob(1, 0, np.zeros(2), np.eye(2))
    with jax.enable_x64(False), pytest.raises(ValueError, match="needs float64 in transformations"):
        jax.grad(lambda mean: box_log_prob(0, 1, mean, np.eye(2)))(np.zeros(2, np.float32))


def test_more_constraints_than_variables():
    """The triangle x, y ≥ 0, x + y ≤ 1 by one integral over x."""
    law = MultivariateTruncatedNormal(
        [0, 0], np.eye(2), [0, 0, -np.inf], [np.inf, np.inf, 1], constraints=[[1, 0], [0, 1], [1, 1]]
    )

    def inside(power):
        return quad(lambda x: x**power * norm.pdf(x) * (norm.cdf(1 - x) - 0.5), 0, 1, epsrel=1e-12)[0]

    found, moments = law.log_prob_box(tol=1e-2), law.moments()
    assert abs(found.value - np.log(inside(0))) <= found.error < 0.011
    assert np.all(np.abs(moments.mean - inside(1) / inside(0)) <= moments.mean_error)
    draws = law.rvs(300)
    assert np.all((draws >= 0) & (draws.sum(1, keepdims=True) <= 1))
    assert law.logpdf([0.9, 0.9]) == -np.inf
    rest = law.conditional(0, 0.4).log_prob_box()  # y is in [0, 0.6]
    assert abs(rest.value - np.log(norm.cdf(0.6) - 0.5)) <= rest.error <= 5e-3
    x = np.array([0.2, -0.1])
    want = norm.pdf(0.2) * (norm.cdf(0.8) - 0.5) / inside(0)
    assert_allclose(np.exp(law.marginal_logpdf(0, x[:, None])), [want, 0], atol=0.01)


def test_one_constraint_on_three_variables():
    law = MultivariateTruncatedNormal(np.zeros(D), COV, 1, 2, constraints=[[1, 1, -1]])
    sd = np.sqrt(np.array([1, 1, -1]) @ COV @ [1, 1, -1])
    found = law.log_prob_box()
    assert_allclose(found.value, np.log(norm.cdf(2 / sd) - norm.cdf(1 / sd)), atol=1e-6)
    total = truncnorm(1 / sd, 2 / sd, scale=sd)
    moments = law.moments()
    assert_allclose(moments.mean @ [1, 1, -1], total.mean(), atol=0.01)
    assert np.all(np.abs(moments.mean - COV @ [1, 1, -1] / sd**2 * total.mean()) <= moments.mean_error)


def test_conditional_and_marginal_laws(law):
    rest = law.conditional(0, -0.2)
    joint = law.logpdf([-0.2, 0.0, 1.0]) - rest.logpdf([0.0, 1.0])
    assert_allclose(law.marginal_logpdf(0, [[-0.2], [9.0]]), [joint, -np.inf], rtol=1e-6)
    both = law.marginal_logpdf([2, 1], [[1.0, 0.0]]) + law.conditional([1, 2], [0.0, 1.0]).logpdf([-0.2])
    assert_allclose(both, law.logpdf([-0.2, 0.0, 1.0]), rtol=1e-6)
    assert_allclose(rest.location, [-0.1, -0.1])  # regression on one variable: half of its value
    assert_allclose(rest.scale, [[0.75, 0.25], [0.25, 0.75]])
    with pytest.raises(ValueError, match="`values` must be within the limits"):
        law.conditional(0, 9.0)
    with pytest.raises(ValueError, match=r"`constraints` must have 2 columns and no row of zeros; got shape"):
        MultivariateTruncatedNormal(np.zeros(2), np.eye(2), 0, 1, constraints=[[1, 2, 3]])
    with pytest.raises(ValueError, match="`engine` must be 'separation' with `constraints`"):
        MultivariateTruncatedNormal(np.zeros(2), np.eye(2), 0, 1, constraints=np.eye(2), engine="ep")
