"""The exact engine against closed forms, brute force in NumPy, Monte Carlo and finite differences."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, ndtr, ndtri

from tests.inference.references import grid_moments, log_integral, random_precision
from tggm.gaussian import TruncatedGaussian
from tggm.inference._exact import exact, exact_log_z
from tggm.precision import Dense, Diagonal, Layered, LowRank


def check(tg, P, rtol=1e-10):
    got = exact(tg)
    assert got.kind == "exact"
    for i, gamma in enumerate(np.asarray(tg.shift)):
        log_z, mean, var = grid_moments(P, gamma, np.asarray(tg.truncated), n_nodes=80)
        assert_allclose(float(got.log_z[i]), log_z, rtol=rtol, atol=rtol)
        assert_allclose(np.asarray(got.mean[i]), mean, rtol=rtol, atol=rtol)
        assert_allclose(np.asarray(got.var[i]), var, rtol=rtol)


MASKS = [None, [True, False, True]]


@pytest.mark.parametrize("mask", MASKS, ids=["all", "some"])
def test_rank_one_of_three(mask):
    d, u = np.array([0.5, 2.0, 1.0]), np.array([[1.0, -1.5, 0.6]])
    shift = np.array([[1.0, -0.5, 2.0], [-2.0, 3.0, 0.0]])
    check(TruncatedGaussian(LowRank(d, u), shift, mask), np.diag(d) + u.T @ u)


@pytest.mark.slow  # the largest program; pairs, below
@pytest.mark.parametrize("mask", MASKS, ids=["all", "some"])
def test_dense_of_three(rng, mask):
    P = random_precision(rng, 3)
    check(TruncatedGaussian(Dense(P), rng.normal(size=(2, 3)), mask), P)


@pytest.mark.parametrize("gamma", [[-30.0, -5.0], [40.0, 30.0], [-1e3, 2.0], [-200.0, 150.0]])
def test_two_variables_peaked_and_skewed(gamma):
    # one integral in closed form, the other by brute force
    P = np.array([[1.5, 0.9], [0.9, 1.0]])
    got = exact(TruncatedGaussian(Dense(P), np.array(gamma)))

    def log_f(x, power=0):
        a = gamma[1] - P[0, 1] * x
        inner = 0.5 * a * a + log_ndtr(a)
        return -0.5 * P[0, 0] * x * x + gamma[0] * x + inner + power * np.log(np.maximum(x, 1e-300))

    upper = max(gamma) * 3 + 60
    log_z = log_integral(log_f, 0.0, upper)
    mean = np.exp(log_integral(lambda x: log_f(x, 1), 0.0, upper) - log_z)
    assert_allclose(float(got.log_z), log_z + 0.5 * np.log(2 * np.pi), rtol=1e-10)
    assert_allclose(float(got.mean[0]), mean, rtol=1e-9)  # the witness subtracts logarithms of size |gamma|^2


def rank_one_draws(rng, d, u, gamma, n):
    """Independent truncated normals and importance weights exp(-(u h)^2 / 2)."""
    alpha = gamma / np.sqrt(d)
    h = (alpha - ndtri(rng.uniform(size=(n, len(d))) * ndtr(alpha))) / np.sqrt(d)
    return h, np.exp(-0.5 * (h @ u) ** 2)


def test_rank_one_of_fifty_against_monte_carlo(rng):
    m, n = 50, 300_000
    d, u, gamma = rng.uniform(0.5, 2, m), rng.normal(size=m) * 0.3, rng.normal(size=m)
    got = exact(TruncatedGaussian(LowRank(d, u[None]), gamma))
    total = total_h = total_hh = square = 0.0
    spread = np.zeros(m)
    mean = np.asarray(got.mean)
    for _ in range(10):
        h, w = rank_one_draws(rng, d, u, gamma, n // 10)
        total, square = total + w.sum(), square + (w * w).sum()
        total_h, total_hh = total_h + w @ h, total_hh + w @ (h - mean) ** 2
        spread = spread + (w * w) @ (h - mean) ** 2
    alpha = gamma / np.sqrt(d)
    base = (0.5 * np.log(2 * np.pi / d) + 0.5 * alpha**2 + log_ndtr(alpha)).sum()
    error = np.sqrt(square - total**2 / n) / total
    assert abs(float(got.log_z) - base - np.log(total / n)) < 4.5 * error
    assert np.all(np.abs(total_h / total - mean) < 4.5 * np.sqrt(spread) / total)
    assert_allclose(np.asarray(got.var), total_hh / total, rtol=0.02)


PROBLEMS = {
    "one": Dense([[1.3]]),
    "diagonal": Diagonal(np.array([0.5, 2.0, 1.0])),
    "rank one": LowRank(np.array([0.5, 2.0, 1.0]), np.array([[1.0, -1.5, 0.6]])),
    "layered": Layered([np.array([[1.5]]), np.array([[1.2]])], [np.array([[-0.8]])]),
}


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_log_z_gradient_is_finite_difference(name, rng):
    P = PROBLEMS[name]
    tg = TruncatedGaussian(P, rng.normal(size=(2, P.size)), [True, False, True][: P.size])
    leaves, tree = jax.tree.flatten(tg)

    @jax.jit
    def both(tg):
        return jax.value_and_grad(lambda tg: exact_log_z(tg).sum(), allow_int=True)(tg)

    found = exact(tg)
    value, gradient = both(tg)
    assert_allclose(float(value), float(found.log_z.sum()), rtol=1e-11)
    assert_allclose(np.asarray(gradient.shift), np.asarray(found.mean), rtol=1e-11)
    for k, (leaf, g) in enumerate(zip(leaves, jax.tree.leaves(gradient), strict=True)):
        if leaf.dtype == bool:
            continue
        direction = rng.normal(size=leaf.shape)
        ends = []
        for h in (1e-5, -1e-5):
            moved = [*leaves[:k], leaf + h * direction, *leaves[k + 1 :]]
            ends.append(float(both(jax.tree.unflatten(tree, moved))[0]))
        want = (ends[0] - ends[1]) / 2e-5
        assert_allclose(float((np.asarray(g) * direction).sum()), want, rtol=1e-7, atol=1e-8)


def test_says_which_engine_to_use_instead(rng):
    P = LowRank(np.ones(10), rng.normal(size=(2, 10)))
    with pytest.raises(ValueError, match=r"LowRank of rank 2 with 10 variables. Use `ep`.*`orthant`"):
        exact(TruncatedGaussian(P, np.zeros(10)))
    with pytest.raises(ValueError, match=r"Dense with 4 variables"):
        exact_log_z(TruncatedGaussian(Dense(np.eye(4)), np.zeros(4)))
