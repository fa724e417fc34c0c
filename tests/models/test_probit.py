"""The probit model's moments, bound and EP estimate against brute-force integration over two latents."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats

from tggm.models import Shallow
from tggm.models.probit import class_mean, class_moments, contended_moments, contended_of_covariance
from tggm.models.probit_ep import class_log_likelihood_ep
from tggm.models.probit_posterior import class_bound, latent_cycles, latent_posterior
from tggm.models.sparse import DENSE_UP_TO, SparseRows
from tggm.special.probit import log_probit, probit_all
from tggm.special.probit_bound import exact, factorised

S0 = jnp.asarray(0.7)


def problem(rng, rows=6, d=3, m=2, n=4, scale=1.0):
    shapes = ((m, d), (m,), (n, m), (n,))
    params = Shallow(*(jnp.asarray(scale * rng.standard_normal(s)) for s in shapes), jnp.zeros(n))
    return params, jnp.asarray(rng.standard_normal((rows, d))), jnp.asarray(rng.integers(0, n, rows))


def scores(label):
    return lambda eta: exact(eta, label, n_nodes=64, n_steps=6), lambda eta: factorised(
        eta, label, n_steps=12
    )


def true_log_probability(params, X, label, nodes=200):
    """Log ∫ P_c(W1 h + b1) p(h | x) dh on a grid of quantiles of the two truncated normals."""
    a = np.asarray(X @ params.W0.T + params.b0[None, :])
    sd = float(np.sqrt(S0))
    t, w = np.polynomial.legendre.leggauss(nodes)
    u, w = (t + 1) / 2, w / 2
    result = []
    for location, c in zip(a, np.asarray(label), strict=True):
        h = [stats.truncnorm.ppf(u, -ak / sd, np.inf, loc=ak, scale=sd) for ak in location]
        grid = np.stack([part.ravel() for part in np.meshgrid(*h, indexing="ij")], axis=1)
        eta = jnp.asarray(grid @ np.asarray(params.W1).T + np.asarray(params.b1)[None, :])
        p = np.exp(log_probit(eta, jnp.ones_like(eta), jnp.full(len(eta), c)))
        result.append(np.log((p * np.outer(w, w).ravel()).sum()))
    return np.array(result)


@pytest.fixture(scope="module")
def solved():
    rng = np.random.default_rng(5)
    params, X, label = problem(rng)
    return params, X, label, true_log_probability(params, X, label)


def test_contrast_variances_have_the_right_total(rng):
    """The pairwise differences of independent normals with these variances sum to the true variances."""
    params, X, _ = problem(rng, m=5)
    mean, std = (np.asarray(v) for v in class_moments(params, X, S0))
    a = np.asarray(X @ params.W0.T + params.b0[None, :])
    sd = float(np.sqrt(S0))
    h = stats.truncnorm(-a / sd, np.inf, loc=a, scale=sd)
    W1 = np.asarray(params.W1)
    assert_allclose(mean, h.mean() @ W1.T + np.asarray(params.b1)[None, :], rtol=1e-9)
    assert_allclose(mean, class_mean(params, X, S0), rtol=1e-12)
    for i in range(len(a)):
        C = W1 @ np.diag(h.var()[i]) @ W1.T + np.eye(4)
        pairs = np.diag(C)[:, None] + np.diag(C)[None, :] - 2 * C
        D = std[i] ** 2
        assert_allclose(2 * 3 * D.sum(), pairs.sum(), rtol=1e-9)


def test_two_classes_have_the_exact_variance_of_their_difference(rng):
    params, X, _ = problem(rng, m=5, n=2)
    _, std = class_moments(params, X, S0)
    a = np.asarray(X @ params.W0.T + params.b0[None, :])
    sd = float(np.sqrt(S0))
    v = stats.truncnorm(-a / sd, np.inf, loc=a, scale=sd).var()
    expected = 2 + v @ np.asarray(params.W1[0] - params.W1[1]) ** 2
    assert_allclose((std**2).sum(1), expected, rtol=1e-9)


@pytest.mark.parametrize("n", [2, 3])
def test_differences_of_two_or_three_classes_have_their_exact_variances(rng, n):
    params, X, _ = problem(rng, m=5, n=n)
    _, std = (np.asarray(v) for v in contended_moments(params, X, S0))
    a = np.asarray(X @ params.W0.T + params.b0[None, :])
    sd = float(np.sqrt(S0))
    v = stats.truncnorm(-a / sd, np.inf, loc=a, scale=sd).var()
    W1 = np.asarray(params.W1)
    for i in range(n):
        for j in range(i):
            assert_allclose((std**2)[:, i] + (std**2)[:, j], 2 + v @ (W1[i] - W1[j]) ** 2, rtol=1e-9)


def test_contended_deviations_are_those_of_least_squares(rng):
    """The closed form against a general solver, with the weights that the docstring describes."""
    params, X, _ = problem(rng, m=5, n=5)
    mean, std = (np.asarray(v) for v in contended_moments(params, X, S0))
    a = np.asarray(X @ params.W0.T + params.b0[None, :])
    sd = float(np.sqrt(S0))
    v = stats.truncnorm(-a / sd, np.inf, loc=a, scale=sd).var()
    pairs = [(i, j) for i in range(5) for j in range(i)]
    for row in range(len(mean)):
        c = mean[row].argmax()
        C = np.asarray(params.W1) @ np.diag(v[row]) @ np.asarray(params.W1).T
        spread = np.sqrt(2 + np.diag(C) + C[c, c])
        chance = np.where(np.arange(5) == c, 0, stats.norm.cdf((mean[row] - mean[row, c]) / spread) ** 2)
        w = 0.2 / 5 + 0.8 * np.where(np.arange(5) == c, 0.5, 0.5 * chance / chance.sum())
        t = np.array([2 + C[i, i] + C[j, j] - 2 * C[i, j] for i, j in pairs])
        A = np.array([[float(k in pair) for k in range(5)] for pair in pairs])
        root = np.sqrt([w[i] * w[j] for i, j in pairs])
        D = optimize.lsq_linear(A * root[:, None], t * root, (0.25, np.inf), method="bvls").x
        assert_allclose(std[row] ** 2, D, rtol=1e-8)
        cov = jnp.asarray(C + np.eye(5))[None]
        assert_allclose(
            contended_of_covariance(jnp.asarray(mean[row : row + 1]), cov)[0], std[row], rtol=1e-8
        )


def test_predicted_probabilities_agree_with_a_million_draws(rng):
    """Thirty latents and six classes; the simpler variances of training are further off."""
    params, X, _ = problem(rng, m=30, n=6)
    X = X[:2]
    a, sd = np.asarray(X @ params.W0.T + params.b0[None, :]), float(np.sqrt(S0))
    draws = 1_000_000
    for row in range(2):
        h = stats.truncnorm.rvs(-a[row] / sd, np.inf, a[row], sd, size=(draws // 10, 30), random_state=rng)
        h = np.tile(h, (10, 1))  # the same latents with ten draws of the noise
        z = h @ np.asarray(params.W1).T + np.asarray(params.b1) + rng.normal(size=(draws, 6))
        want = np.bincount(z.argmax(1), minlength=6) / draws
        got = np.asarray(probit_all(*(v[row : row + 1] for v in contended_moments(params, X, S0))))[0]
        # five standard errors of 10⁵ independent latents, and what the normal approximation errs by
        assert np.abs(got - want).max() < 5 * 0.5 / np.sqrt(draws // 10) + 0.005


def test_moments_are_close_to_the_integral(solved):
    params, X, label, want = solved
    got = log_probit(*class_moments(params, X, S0), label)
    assert_allclose(got, want, atol=0.2)  # two latents are as far from normal as it gets


def test_ep_is_closer(solved):
    params, X, label, want = solved
    got = np.asarray(jax.jit(class_log_likelihood_ep)(params, X, label, S0, jnp.int32(100)))
    moments = np.asarray(log_probit(*class_moments(params, X, S0), label))
    assert_allclose(got, want, atol=0.05)
    assert np.abs(got - want).mean() < np.abs(moments - want).mean() / 2


def test_bounds_are_below_and_ordered(solved):
    params, X, label, want = solved
    tight, loose = (
        jax.jit(lambda p, score=score: class_bound(p, X, S0, score, jnp.int32(50)))(params)
        for score in scores(label)
    )
    assert np.all(tight < want)
    assert np.all(loose < tight)


def test_bound_is_exact_without_coupling(rng):
    """With W1 = 0 the latents say nothing: the bound is log P_c(b1), EP only errs about z."""
    params, X, label = problem(rng)
    params = params._replace(W1=jnp.zeros_like(params.W1))
    want = log_probit(jnp.broadcast_to(params.b1, (6, 4)), jnp.ones((6, 4)), label)
    bound = jax.jit(lambda p: class_bound(p, X, S0, scores(label)[0], jnp.int32(50)))
    assert_allclose(bound(params), want, rtol=1e-8)
    assert_allclose(jax.jit(class_log_likelihood_ep)(params, X, label, S0, jnp.int32(100)), want, atol=0.02)


@pytest.mark.parametrize("which", [0, 1])
def test_bound_never_falls(rng, which):
    """From Newton step to Newton step, and from cycle to cycle, for strongly coupled latents."""
    params, X, label = problem(rng, rows=20, m=12, scale=2.0)
    score = scores(label)[which]
    for cyclic, counts in ((False, range(9)), (True, range(1, 9))):
        bound = jax.jit(lambda k, cyclic=cyclic: class_bound(params, X, S0, score, k, cyclic=cyclic))
        values = np.array([bound(jnp.int32(k)) for k in counts])
        assert np.all(np.diff(values, axis=0) > -1e-9)
        assert np.all(values[-1] - values[0] > 0.01)


def test_newton_and_cycles_meet(rng):
    params, X, label = problem(rng, rows=8, m=6)
    a = X @ params.W0.T + params.b0[None, :]
    for score in scores(label):
        newton, cycles = (
            jax.jit(lambda k, solve=solve, score=score: solve(params, a, S0, score, k))(jnp.int32(k))
            for solve, k in ((latent_posterior, 50), (latent_cycles, 1000))
        )
        assert newton.converged.all()
        assert newton.n_iter.max() <= 12
        assert_allclose(newton.mean, cycles.mean, rtol=1e-7)
        assert np.abs(newton.residual).max() < 1e-6


def test_single_precision_converges(rng):
    params, X, label = problem(rng, rows=50, m=30, n=10)
    single = jax.tree.map(lambda v: v.astype(jnp.float32), (params, X @ params.W0.T + params.b0[None, :], S0))

    @jax.jit
    def solve(params, a, s0):
        return latent_posterior(
            params, a, s0, lambda e: exact(e, label, n_nodes=16, n_steps=3), jnp.int32(30)
        )

    q = solve(*single)
    assert q.converged.all()
    assert q.n_iter.max() <= 15


@pytest.mark.parametrize("columns", [7, DENSE_UP_TO + 1])
def test_sparse_rows_multiply_like_dense_ones(rng, columns):
    indices = rng.integers(0, columns, (4, 5))
    values = rng.standard_normal((4, 5))
    values[0, 2:] = 0
    dense = np.zeros((4, columns))
    for i, j, v in zip(np.repeat(np.arange(4), 5), indices.ravel(), values.ravel(), strict=True):
        dense[i, j] += v
    matrix = rng.standard_normal((columns, 3))
    got = SparseRows(jnp.asarray(indices, jnp.int32), jnp.asarray(values)) @ jnp.asarray(matrix)
    assert_allclose(got, dense @ matrix, rtol=1e-10, atol=1e-12)
