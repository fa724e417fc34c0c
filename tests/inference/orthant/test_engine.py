import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr

from tests.inference.grid_witness import grid_moments, random_precision
from tggm.gaussian import TruncatedGaussian
from tggm.inference.orthant.engine import orthant
from tggm.precision import Dense, Diagonal


def equicorrelated(d, rho, mean=0.0):
    covariance = (1 - rho) * np.eye(d) + rho
    P = np.linalg.inv(covariance)
    return TruncatedGaussian.from_mean(Dense((P + P.T) / 2), np.full(d, mean))


def log_probability(tg, moments):
    """Log orthant probability: log Z less the Gaussian's own normaliser, computed apart."""
    P, shift = np.asarray(tg.precision.dense(), float), np.asarray(tg.shift, float)
    _, log_det = np.linalg.slogdet(P)
    quadratic = (shift * np.linalg.solve(P, shift[..., None])[..., 0]).sum(-1)
    return np.asarray(moments.log_z) - 0.5 * (len(P) * np.log(2 * np.pi) - log_det + quadratic)


def one_factor_log_probability(d, rho, mean):
    """∫ φ(f) Φ((mean + √ρ f) / √(1 − ρ))^d df in 30 digits, the peak found first."""
    mp.mp.dps = 30
    root, rest = mp.sqrt(rho), mp.sqrt(1 - mp.mpf(rho))

    def log_integrand(f):
        return -f * f / 2 + d * mp.log(mp.erfc(-(mean + root * f) / rest / mp.sqrt(2)) / 2)

    peak = mp.findroot(lambda f: mp.diff(log_integrand, f), -mean)
    top = log_integrand(peak)
    area = mp.quad(lambda f: mp.exp(log_integrand(f) - top), [peak - 8, peak - 1, peak, peak + 1, peak + 8])
    return float(top + mp.log(area) - mp.log(2 * mp.pi) / 2)


@pytest.mark.parametrize("rho", [-0.95, -0.3, 0.0, 0.6, 0.99])
def test_two_variables_follow_the_arcsine_law(rho):
    """Beside a third that is independent: three variables and four rows, as in other tests."""
    P = np.linalg.inv([[1, rho, 0], [rho, 1, 0], [0, 0, 1]])
    tg = TruncatedGaussian(Dense((P + P.T) / 2), np.zeros((4, 3)))
    got = log_probability(tg, orthant(tg))
    assert_allclose(got, np.log((0.25 + np.arcsin(rho) / (2 * np.pi)) / 2), atol=1e-4)


@pytest.mark.parametrize(("d", "tolerance"), [(15, 2e-3), pytest.param(60, 1e-2, marks=pytest.mark.slow)])
def test_equicorrelated_half_is_one_in_d_plus_one(d, tolerance):
    tg = equicorrelated(d, 0.5)
    moments = orthant(tg)
    assert_allclose(log_probability(tg, moments), -np.log(d + 1), atol=tolerance)
    assert float(moments.log_z_error) < tolerance


def test_error_estimate_is_honest():
    tg = equicorrelated(15, 0.5)
    results = [orthant(tg, n_points=61, key=seed) for seed in range(40)]
    errors = np.array([log_probability(tg, r) + np.log(16) for r in results])
    claimed = np.array([r.log_z_error for r in results])
    # 40 errors: their root mean square is within 30 % of its expectation in all but 1 case of 100
    assert 0.6 < np.sqrt(np.mean(errors**2) / np.mean(claimed**2)) < 1.5


def test_diagonal_is_exact_at_any_distance_from_the_wall():
    p = np.array([0.5, 1.0, 4.0])
    mean = np.array([[1.0, -1.0, 0.3], [-20.0, -30.0, -5.0], [-200.0, -1e3, 50.0]])
    tg = TruncatedGaussian(Diagonal(p), mean * p)
    moments = orthant(tg, n_points=50, n_shifts=2)
    want = log_ndtr(mean * np.sqrt(p)).sum(-1)
    assert want[1] < -500
    assert_allclose(
        moments.log_z, want + (0.5 * np.log(2 * np.pi / p) + 0.5 * p * mean**2).sum(-1), rtol=1e-10
    )


@pytest.mark.parametrize(("rho", "mean"), [(0.5, -9.0), (0.2, -8.0), (0.9, -3.0)])
def test_tiny_probabilities_of_a_one_factor_model(rho, mean):
    d = 15
    tg = equicorrelated(d, rho, mean)
    moments = orthant(tg)
    want = one_factor_log_probability(d, rho, mean)
    assert_allclose(log_probability(tg, moments), want, atol=max(2e-3, 5 * float(moments.log_z_error)))
    assert float(moments.log_z_error) < 5e-3


def test_probability_of_exp_minus_500():
    d = 15
    tg = equicorrelated(d, 0.3, -19.5)
    want = one_factor_log_probability(d, 0.3, -19.5)
    assert want < -500
    moments = orthant(tg)
    assert_allclose(log_probability(tg, moments), want, atol=2e-3)


@pytest.mark.parametrize("truncated", [(True, True, True), (True, False, True)])
def test_three_variables_against_a_grid(rng, truncated):
    P = random_precision(rng, 3)
    shift = rng.normal(0, 2, (4, 3))
    moments = orthant(TruncatedGaussian(Dense(P), shift, np.array(truncated)))
    for i in range(4):
        log_z, mean, var = grid_moments(P, shift[i], truncated)
        assert_allclose(moments.log_z[i], log_z, atol=1e-4)
        assert_allclose(moments.mean[i], mean, atol=1e-3)
        assert_allclose(moments.var[i], var, rtol=5e-3)


def test_free_variables_only_is_a_gaussian(rng):
    P, shift = random_precision(rng, 3), rng.standard_normal((4, 3))
    moments = orthant(TruncatedGaussian(Dense(P), shift, np.zeros(3, bool)))
    covariance = np.linalg.inv(P)
    quadratic = ((shift @ covariance) * shift).sum(-1)
    want = 1.5 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(P)[1] + 0.5 * quadratic
    assert_allclose(moments.log_z, want, rtol=1e-12)
    assert_allclose(moments.mean, shift @ covariance, rtol=1e-10)
    assert_allclose(moments.var, np.broadcast_to(np.diag(covariance), (4, 3)), rtol=1e-10)


def test_order_of_variables_does_not_matter(rng):
    P, shift = random_precision(rng, 15), rng.standard_normal(15)
    p = rng.permutation(15)
    one = orthant(TruncatedGaussian(Dense(P), shift))
    other = orthant(TruncatedGaussian(Dense(P[np.ix_(p, p)]), shift[p]))
    assert_allclose(other.log_z, one.log_z, rtol=1e-9)  # the same order of integration is found
    assert_allclose(other.mean, one.mean[p], rtol=1e-7)


def test_scaling_shifts_log_z_by_the_logarithm(rng):
    P, shift, c = random_precision(rng, 15), rng.standard_normal(15), 7.0
    one = orthant(TruncatedGaussian(Dense(P), shift))
    scaled = orthant(TruncatedGaussian(Dense(P / c**2), shift / c))  # h -> c h
    assert_allclose(scaled.log_z, one.log_z + 15 * np.log(c), rtol=1e-9)
    assert_allclose(scaled.mean, c * one.mean, rtol=1e-7)


def test_rows_are_independent_and_keep_their_shape(rng):
    P, shift = random_precision(rng, 3), rng.standard_normal((2, 2, 3))
    moments = orthant(TruncatedGaussian(Dense(P), shift))
    assert moments.mean.shape == moments.var.shape == (2, 2, 3)
    assert moments.log_z.shape == moments.log_z_error.shape == moments.converged.shape == (2, 2)
    among_others = np.array([shift[0, 1], 5 * shift[0, 0], shift[1, 1] - 3, shift[1, 1] + 1])
    again = orthant(TruncatedGaussian(Dense(P), among_others))
    assert_allclose(moments.log_z[0, 1], again.log_z[0], rtol=1e-12)
    assert_allclose(moments.mean[0, 1], again.mean[0], rtol=1e-12)


def test_tolerance_is_met_by_doubling():
    tg = equicorrelated(15, 0.5)
    rough = orthant(tg, n_points=61)
    fine = orthant(tg, n_points=500, tol=1e-3)
    assert float(rough.log_z_error) > 1e-3 >= float(fine.log_z_error)
    assert int(fine.n_iter) > int(rough.n_iter)
    assert bool(fine.converged)
    assert_allclose(log_probability(tg, fine), -np.log(16), atol=4e-3)


def test_unreached_error_warns():
    with pytest.warns(RuntimeWarning, match=r"standard error of log Z is .* raise `n_points`"):
        moments = orthant(equicorrelated(15, 0.95), n_points=2, n_shifts=2)
    assert not bool(moments.converged)


def test_single_precision_in_and_out():
    with jax.enable_x64(False):
        shift = jnp.tile(jnp.asarray([-30.0, 0.0, 1.0]), (3, 1))  # as in the test of diagonals
        moments = orthant(TruncatedGaussian(Diagonal(jnp.ones(3)), shift), n_points=50, n_shifts=2)
    assert moments.log_z.dtype == moments.mean.dtype == jnp.float32
    want = log_ndtr(np.array([-30.0, 0.0, 1.0])).sum() + 1.5 * np.log(2 * np.pi) + 450.5
    assert_allclose(moments.log_z, [want] * 3, rtol=1e-6)


def test_inside_jit():
    tg = equicorrelated(15, 0.3)
    traced = jax.jit(lambda shift: orthant(tg.with_shift(shift)).log_z)(tg.shift)
    assert_allclose(traced, orthant(tg).log_z, rtol=1e-12)
    with jax.enable_x64(False):
        single = TruncatedGaussian(Diagonal(jnp.ones(3)), jnp.ones(3))
        with pytest.raises(ValueError, match="orthant works in float64, which cannot be switched on"):
            jax.jit(lambda shift: orthant(single.with_shift(shift)).log_z)(single.shift)


def test_key_decides():
    tg = equicorrelated(15, 0.3)
    assert_array_equal(orthant(tg, key=3).log_z, orthant(tg, key=jax.random.key(3)).log_z)
    assert float(orthant(tg, key=4).log_z) != float(orthant(tg, key=3).log_z)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_points": 0}, "`n_points` must be at least 1; got 0"),
        ({"n_shifts": 1}, "`n_shifts` must be at least 2.*got 1"),
        ({"tol": -1.0}, "`tol` must be positive; got -1.0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        orthant(equicorrelated(2, 0.5), **arguments)
