"""Separation of variables against closed forms, grids and one-factor integrals; lattices and tilts."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from jax.scipy.special import log_ndtr as reference_log_ndtr
from numpy.testing import assert_allclose
from scipy.special import log_ndtr

from tests.inference.references import random_precision
from tggm.gaussian import Limits, TruncatedGaussian
from tggm.inference import estimate_log_z, orthant, weighted_points
from tggm.inference._log_partition import choose_engine
from tggm.inference._orthant import generator, minimax_tilt, ordered_cholesky, tent_points
from tggm.precision import Dense, Diagonal, LowRank


def equicorrelated(d, rho, mean=0.0):
    covariance = (1 - rho) * np.eye(d) + rho
    P = np.linalg.inv(covariance)
    return TruncatedGaussian.from_mean(Dense((P + P.T) / 2), np.full(d, mean))


def log_probability(tg, moments):
    """Return the log orthant probability: log Z less the Gaussian's normaliser, computed separately."""
    P, shift = np.asarray(tg.precision.dense(), float), np.asarray(tg.shift, float)
    _, log_det = np.linalg.slogdet(P)
    quadratic = (shift * np.linalg.solve(P, shift[..., None])[..., 0]).sum(-1)
    return np.asarray(moments.log_z) - 0.5 * (len(P) * np.log(2 * np.pi) - log_det + quadratic)


def one_factor_log_probability(d, rho, mean):
    """Return log ∫ φ(f) Φ((mean + √ρ f) / √(1 − ρ))^d df in 30 digits."""
    mp.mp.dps = 30
    root, rest = mp.sqrt(rho), mp.sqrt(1 - mp.mpf(rho))

    def log_integrand(f):
        return -f * f / 2 + d * mp.log(mp.erfc(-(mean + root * f) / rest / mp.sqrt(2)) / 2)

    peak = mp.findroot(lambda f: mp.diff(log_integrand, f), -mean)
    top = log_integrand(peak)
    area = mp.quad(lambda f: mp.exp(log_integrand(f) - top), [peak - 8, peak - 1, peak, peak + 1, peak + 8])
    return float(top + mp.log(area) - mp.log(2 * mp.pi) / 2)


def test_error_estimate_has_the_size_of_the_error():
    tg = equicorrelated(15, 0.5)
    results = [orthant(tg, n_points=61, key=seed) for seed in range(40)]
    errors = np.array([log_probability(tg, r) + np.log(16) for r in results])
    # bounds at 99.9 %: 5.41 standard errors of Student's law with 7 degrees of freedom
    claimed = np.array([r.log_z_error for r in results]) / 5.41
    # 40 errors: their root mean square is within 30 % of its expectation in all but 1 case of 100
    assert 0.6 < np.sqrt(np.mean(errors**2) / np.mean(claimed**2)) < 1.5


def test_diagonal_is_exact_at_any_distance_from_the_limit():
    p = np.array([0.5, 1.0, 4.0])
    mean = np.array([[1.0, -1.0, 0.3], [-20.0, -30.0, -5.0], [-200.0, -1e3, 50.0]])
    tg = TruncatedGaussian(Diagonal(p), mean * p)
    moments = orthant(tg, n_points=50, n_shifts=2)
    want = log_ndtr(mean * np.sqrt(p)).sum(-1)
    assert want[1] < -500
    assert_allclose(
        moments.log_z, want + (0.5 * np.log(2 * np.pi / p) + 0.5 * p * mean**2).sum(-1), rtol=1e-10
    )


@pytest.mark.parametrize(("rho", "mean"), [(0.5, -9.0), (0.9, -3.0), (0.3, -19.5)])
def test_tiny_probabilities_of_a_one_factor_model(rho, mean):
    d = 15
    tg = equicorrelated(d, rho, mean)
    moments = orthant(tg)
    want = one_factor_log_probability(d, rho, mean)
    assert_allclose(log_probability(tg, moments), want, atol=float(moments.log_z_error))
    assert float(moments.log_z_error) < 2e-2


def test_tolerance_is_met_by_doubling():
    tg = equicorrelated(15, 0.5)
    rough = orthant(tg, n_points=61)
    fine = orthant(tg, n_points=500, tol=5e-3)
    assert float(rough.log_z_error) > 5e-3 >= float(fine.log_z_error)
    assert int(fine.n_iter) > int(rough.n_iter)
    assert bool(fine.converged)
    assert_allclose(log_probability(tg, fine), -np.log(16), atol=4e-3)


def test_unreached_error_warns():
    with pytest.warns(RuntimeWarning, match=r"the error of log Z is above .* raise `n_points`"):
        moments = orthant(equicorrelated(15, 0.95), n_points=2, n_shifts=2)
    assert not bool(moments.converged)


def test_inside_jit():
    tg = equicorrelated(15, 0.3)
    traced = jax.jit(lambda shift: orthant(tg.with_shift(shift)).log_z)(tg.shift)
    assert_allclose(traced, orthant(tg).log_z, rtol=1e-12)
    with jax.enable_x64(False):
        single = TruncatedGaussian(Diagonal(jnp.ones(3)), jnp.ones(3))
        with pytest.raises(ValueError, match="orthant needs float64, which cannot be enabled"):
            jax.jit(lambda shift: orthant(single.with_shift(shift)).log_z)(single.shift)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_points": 0}, "`n_points` must be an integer of at least 1; got 0"),
        ({"n_shifts": 1}, "`n_shifts` must be an integer of at least 2; got 1"),
        ({"tol": -1.0}, "`tol` must be finite and greater than 0; got -1.0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        orthant(equicorrelated(2, 0.5), **arguments)


def squared_error(z, weights):
    """Return the squared worst-case error of a lattice by its definition."""
    n = round(1 / z[0])
    x = np.outer(np.arange(n), z) % 1.0
    return np.prod(1 + weights * 2 * np.pi**2 * (x * x - x + 1 / 6), axis=1).mean() - 1


def test_construction_is_greedy_optimal():
    n, dim = 31, 4
    z = generator(n, dim)
    weights = 1 / np.arange(1, dim + 1) ** 2
    for j in range(1, dim):
        others = [squared_error(np.append(z[:j], k / n), weights[: j + 1]) for k in range(1, n)]
        assert_allclose(squared_error(z[: j + 1], weights[: j + 1]), min(others), rtol=1e-10)


def test_composite_size_raises():
    with pytest.raises(ValueError, match="`n` must be prime; got 15"):
        generator(15, 2)


def test_smooth_integrand_converges_faster_than_monte_carlo(rng):
    dim = 5
    shifts = jnp.asarray(rng.random((8, dim)))

    def error(n):
        u = tent_points(jnp.asarray(generator(n, dim)), n, shifts)
        assert float(u.min()) > 0
        assert float(u.max()) < 1
        f = np.exp(np.asarray(u).reshape(dim, 8, n) / np.arange(1, dim + 1)[:, None, None]).prod(0)
        exact = np.prod([k * (np.exp(1 / k) - 1) for k in range(1, dim + 1)])
        return np.sqrt(np.mean((f.mean(-1) / exact - 1) ** 2))

    assert error(2003) < error(101) / 20  # Monte Carlo would gain a factor of 4.5


def psi(z, mu, U, c):
    below = U - jnp.eye(len(c))
    return (mu * mu / 2 - mu * z + reference_log_ndtr(-(c - below @ z - mu))).sum()


slopes = jax.jit(jax.grad(psi, argnums=(0, 1)))
ordered, tilt = jax.jit(ordered_cholesky), jax.jit(minimax_tilt)


def half_lines(lower):
    lower = jnp.asarray(lower)
    return Limits(lower, jnp.full_like(lower, jnp.inf))


@jax.jit
def _ascend(z, mu, U, c):
    slope, curvature = jax.grad(psi)(z, mu, U, c), jax.hessian(psi)(z, mu, U, c)
    return z.at[:-1].add(
        -jnp.linalg.solve(curvature[:-1, :-1], slope[:-1])
    )  # psi does not depend on the last


@pytest.mark.parametrize("level", [-3.0, 0.0, 2.0, 6.0])
def test_tilt_is_the_saddle_point(rng, level):
    m = 12
    covariance = np.linalg.inv(random_precision(rng, m))
    L = np.asarray(ordered(covariance, half_lines(np.full(m, level)))[0])
    U, c = L / np.diag(L)[:, None], level / np.diag(L)
    mu, _ = tilt(U, half_lines(c))
    # z maximises psi at this mu: Newton on the concave inner problem, by automatic differentiation
    z = mu
    for _ in range(20):
        z = _ascend(z, mu, U, c)
    g_z, g_mu = map(np.asarray, slopes(z, mu, U, c))
    assert np.abs(g_z[:-1]).max() < 1e-8
    assert np.abs(g_mu[:-1]).max() < 1e-4 * (1 + abs(level))
    assert abs(float(mu[-1])) < 1e-12 * (1 + abs(level))  # the tilt of the last variable is zero


def test_ordered_cholesky_factorises_and_puts_free_variables_last(rng):
    m = 7
    covariance = np.linalg.inv(random_precision(rng, m))
    truncated = np.array([1, 0, 1, 1, 0, 1, 1], bool)
    lower = np.where(truncated, rng.standard_normal(m), -np.inf)
    L, order = ordered_cholesky(jnp.asarray(covariance), half_lines(lower))
    assert sorted(order.tolist()) == list(range(m))
    assert not truncated[np.asarray(order)[-2:]].any()
    np.testing.assert_allclose(L @ L.T, covariance[np.ix_(order, order)], rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(jnp.triu(L, 1), 0)
    # the least likely variable comes first
    assert ordered_cholesky(jnp.eye(3), half_lines([-1.0, 2.0, -0.5]))[1].tolist() == [1, 2, 0]


def correlated(rho):
    cov = np.array([[1.0, rho], [rho, 1.0]])
    return TruncatedGaussian(Dense(jnp.asarray(np.linalg.inv(cov))), jnp.zeros((1, 2)))


@pytest.mark.parametrize(("engine", "tolerance"), [("auto", 1e-11), ("orthant", 1e-3), ("ep", 2e-2)])
def test_two_correlated_variables(engine, tolerance):
    want = np.log(0.25 + np.arcsin(-0.7) / (2 * np.pi))
    found = estimate_log_z(correlated(-0.7), engine)
    got = found.value - np.log(2 * np.pi) - 0.5 * np.log(1 - 0.7**2)
    assert_allclose(got, [want], atol=tolerance)
    assert np.abs(got[0] - want) < 8 * found.error[0]


def test_auto_is_exact_where_possible():
    many = LowRank(jnp.ones(8), jnp.ones((2, 8)))
    shift = jnp.zeros((1, 8))
    assert choose_engine(TruncatedGaussian(many, shift), "auto") == "ep"
    assert choose_engine(TruncatedGaussian(LowRank(jnp.ones(8), jnp.ones((1, 8))), shift), "auto") == "exact"
    assert choose_engine(TruncatedGaussian(many, shift), "orthant") == "orthant"
    # independent variables always have a closed form
    assert choose_engine(TruncatedGaussian(Diagonal(jnp.ones(8)), shift), "ep") == "exact"
    with pytest.raises(
        ValueError, match=r"`engine` must be one of 'auto', 'ep', 'exact', 'orthant'; got 'guess'"
    ):
        estimate_log_z(TruncatedGaussian(many, shift), "guess")


D, RHO = 10, 0.5
COV = (1 - RHO) * np.eye(D) + RHO
LOWER = np.linspace(-2.0, 0.0, D)
UPPER = LOWER + np.linspace(1.5, 3.0, D)


def log_weights(single, far=0.0):
    with jax.enable_x64(True):
        limits = Limits(jnp.asarray(LOWER + far), jnp.asarray(UPPER + far))
        options = {"n_points": 1000, "n_shifts": 8, "seed": 0, "single": single}
        return weighted_points(jnp.asarray(COV), jnp.zeros(D), limits, **options).log_w


def test_float32_changes_a_probability_by_less_than_1e_5():
    double, single = log_weights(False), log_weights(True)
    assert double.dtype == single.dtype == np.float64
    assert np.any(double != single)  # float32 was used
    assert abs(np.exp(single).mean() / np.exp(double).mean() - 1) < 1e-5


def test_a_distant_box_is_computed_in_float64():
    np.testing.assert_array_equal(log_weights(True, 60.0), log_weights(False, 60.0))
