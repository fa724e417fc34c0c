"""Mean field: stationarity by independent formulas, bounds, both solvers, linear systems."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from tests.inference.references import deep, shallow
from tggm.gaussian import TruncatedGaussian
from tggm.inference import exact, mean_field
from tggm.inference._common import conjugate_gradient
from tggm.inference._mean_field import solve
from tggm.precision import Dense, Diagonal, Layered, LowRank


def stationarity(tg, moments):
    """Return |θ − γ + P̃m| of every variable, from the means and independent formulas."""
    P = np.asarray(tg.precision.dense())
    p = np.diag(P)
    target = (np.asarray(tg.shift) - np.asarray(moments.mean) @ (P - np.diag(p))) / np.sqrt(
        p
    )  # α at the optimum
    t = np.maximum(-target, 1)  # used below -5 only
    # mean of N(α, 1) truncated: α + φ/Φ; its far tail by the continued fraction 1/(t + 2/(t + 3/(t + ...)))
    tail = np.zeros_like(t)
    for k in range(60, 1, -1):
        tail = k / (t + tail)
    left = 1 / (t + tail)
    right = target + np.exp(norm.logpdf(target) - norm.logcdf(target))
    g = np.where(target < -5, left, right)
    # in units of the residual: a mean that is off by δ means θ is off by δ / v, v <= 1/p
    return np.abs(g - np.asarray(moments.mean) * np.sqrt(p)) / np.maximum(np.asarray(moments.var) * p, 1e-300)


SLOW = [{"n": n, "m": 10 * n, "scale": scale} for n in (10, 20) for scale in (0.3, 3.0)]
STRONG = {"m": 100, "n": 5, "scale": 3.0, "noise": 0.05}  # outputs with very little noise


@pytest.mark.parametrize(
    "case",
    [*({"m": 50, "scale": scale} for scale in (0.3, 1.0, 3.0)), STRONG]
    + [pytest.param(case, marks=pytest.mark.slow) for case in SLOW],
    ids=str,
)
def test_newton_is_stationary_from_a_cold_start(case, rng):
    tg = shallow(rng, **case)
    got = mean_field(tg)
    assert got.converged.all()
    assert np.isfinite(got.log_z).all()
    assert stationarity(tg, got).max() <= 1e-9 * max(1.0, float(jnp.abs(tg.shift).max()))


def test_newton_is_stationary_for_layers_and_a_good_start_needs_fewer_steps(rng):
    tg = deep(rng, m=100)
    cold = mean_field(tg)
    assert cold.converged.all()
    assert stationarity(tg, cold).max() <= 1e-9
    warm = mean_field(tg, start=cold.mean)
    assert warm.n_iter.max() < cold.n_iter.max()
    assert_allclose(warm.mean, cold.mean, atol=1e-9)


def test_cycles_converge_to_the_newton_solution(rng):
    tg = shallow(rng, m=50, scale=0.5)
    newton, few, many = mean_field(tg), mean_field(tg, solver="cyclic", n_cycles=3), None
    many = mean_field(tg, solver="cyclic", n_cycles=500)
    assert_allclose(many.mean, newton.mean, atol=1e-7)
    assert_allclose(many.log_z, newton.log_z, atol=1e-9)
    assert np.all(few.log_z <= newton.log_z + 1e-9)  # any q gives a bound, the optimum the best
    assert many.converged.all()


@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_log_z_is_a_lower_bound(noise, rng):
    tg = shallow(rng, m=50, noise=noise)
    assert np.all(mean_field(tg).log_z <= exact(tg).log_z + 1e-8)


def test_bad_arguments_and_failed_convergence_are_reported(rng):
    tg = shallow(rng, m=50, scale=3.0)
    with pytest.raises(ValueError, match="`solver` must be one of"):
        mean_field(tg, solver="gauss")
    with pytest.raises(ValueError, match="`n_cycles` must be an integer of at least 1; got 0"):
        mean_field(tg, solver="cyclic", n_cycles=0)
    with pytest.warns(RuntimeWarning, match="raise `max_iter`"):
        assert not mean_field(tg, max_iter=1).converged.all()


@pytest.mark.parametrize("times", [10, 100])
def test_strong_layers_converge_in_few_steps(times):
    """Use weights of scale 3, for which a third of the rows do not converge without a line search."""
    rng = np.random.default_rng(2)
    W = 3 * rng.normal(size=(50, 50))
    P = Layered([np.eye(50) + W.T @ W, np.eye(50)], [-W])
    assert mean_field(TruncatedGaussian(P, times * rng.normal(size=(16, 100))), max_iter=50).converged.all()


def precisions(rng):
    U, W = rng.normal(size=(2, 6)), rng.normal(size=(3, 3))
    yield Diagonal(rng.uniform(0.5, 2, 6))
    yield LowRank(rng.uniform(0.5, 2, 6), U)
    yield Layered([np.eye(3) + W.T @ W, np.eye(3)], [-W])
    yield Dense(np.eye(6) + U.T @ U)


def test_systems_are_solved(rng):
    """Check all methods, with and without the curvature of a term."""
    extra, r, A = rng.uniform(0, 2, (4, 6)), rng.normal(size=(4, 6)), rng.normal(size=(2, 6))
    for P in precisions(rng):
        tg = TruncatedGaussian(P, r)
        for hessian, less in ((None, 0), (lambda x: -(x @ A.T) @ A, -A.T @ A)):
            H = np.asarray(P.dense()) + np.stack([np.diag(e) for e in extra]) - less
            got = jax.jit(solve, static_argnums=3)(tg, extra, r, hessian)
            assert_allclose(got, np.linalg.solve(H, r[:, :, None])[:, :, 0], rtol=1e-6, atol=1e-6)


def test_systems_with_small_right_hand_sides_are_solved(rng):
    B = rng.normal(size=(4, 4))
    A = B @ B.T + np.eye(4)
    r = np.stack([rng.normal(size=4), np.zeros(4), 1e-6 * rng.normal(size=4)]).astype(np.float32)

    def product(x):
        return x @ jnp.asarray(A, jnp.float32)

    diagonal = jnp.broadcast_to(jnp.asarray(np.diag(A), jnp.float32), r.shape)
    assert_allclose(conjugate_gradient(product, r, diagonal), np.linalg.solve(A, r.T).T, rtol=5e-3, atol=1e-9)
    loose = np.asarray(conjugate_gradient(product, r, diagonal, enough=1e-8))
    assert loose[2].any()
    assert not loose[1].any()
