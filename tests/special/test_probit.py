"""The multinomial probit against mpmath, simulation and differences; its bound against the paper."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special, stats

from tggm.predictive.member_moments import class_mixture
from tggm.special.probit import expand_factorised, expand_probit, log_probit

FIRST = jnp.zeros(1, jnp.int32)


def rivals(n, margin, kind):
    """Return a case of tools/precompute/probit_accuracy.py; the class is the first."""
    mean = np.zeros(n) if kind == "equal" else np.linspace(-2, 0, n).round(1)
    std = np.ones(n) if kind == "equal" else np.where(np.arange(n) % 2, 3.0, 1.0)
    std[0] = 1.0 if kind == "equal" else 2.0
    mean[0] = margin
    return jnp.asarray(mean)[None], jnp.asarray(std)[None]


# mpmath, 30 digits (tools/precompute/probit_accuracy.py);
# 10 and 1,000 classes are on both sides of `MANY`, where the code differs
CASES = [
    (10, -30, "equal", -424.73557855171975),
    (10, -30, "unequal", -112.82150214074102),
    (10, -3, "equal", -10.14172187543531),
    (10, -3, "unequal", -4.4663193171832525),
    (10, 3, "equal", -0.10259940021402919),
    (10, 3, "unequal", -0.6182249268154821),
    (1000, -30, "equal", -534.46876010488023),
    (1000, -3, "unequal", -15.782671202848789),
    (1000, 0, "equal", -6.9077552789821371),
    (1000, 10, "unequal", -0.25303723627384154),
]


@pytest.mark.parametrize(("n", "margin", "kind", "expected"), CASES)
def test_log_probit_literals(n, margin, kind, expected):
    mean, std = rivals(n, margin, kind)
    assert_allclose(log_probit(mean, std, FIRST)[0], expected, rtol=0, atol=1e-8)
    single = log_probit(mean.astype(jnp.float32), std.astype(jnp.float32), FIRST)[0]
    assert single.dtype == jnp.float32
    assert_allclose(single, expected, rtol=2e-7, atol=2e-6)


def test_two_classes_are_the_binary_probit(rng):
    mean, std = 20 * rng.standard_normal((50, 2)), rng.uniform(0.5, 3, (50, 2))
    label = rng.integers(0, 2, 50)
    rows = np.arange(50)
    margin = (mean[rows, label] - mean[rows, 1 - label]) / np.sqrt((std**2).sum(1))
    expected = special.log_ndtr(margin)
    assert_allclose(log_probit(*map(jnp.asarray, (mean, std, label))), expected, rtol=1e-9, atol=1e-9)
    both = class_mixture(mean[None], std[None])
    assert_allclose(both[rows, label], expected, rtol=1e-7, atol=1e-9)


both = jax.jit(jax.value_and_grad(lambda *given: log_probit(*given).sum(), argnums=(0, 1)))


def test_mean_given_the_class_is_the_mean_plus_the_gradient(rng):
    """Compare E[z | class c] = η + ∇ log P_c(η) with a simulation, within five standard errors."""
    eta = np.array([[0.5, -0.3, 1.0, 0.0]])
    z = eta + rng.standard_normal((400_000, 4))
    winner = z.argmax(1)
    for c in range(4):
        log_p, (gradient, _) = both(eta, np.ones_like(eta), np.array([c], np.int32))
        drawn = z[winner == c]
        error = drawn.std(0) / np.sqrt(len(drawn))
        assert np.all(np.abs(drawn.mean(0) - (eta + np.asarray(gradient))[0]) < 5 * error)
        assert_allclose(np.log(len(drawn) / len(z)), log_p, atol=0.02)


def scores(rng, size, dtype=np.float64, n=6):
    """Return means, deviations and labels of 40 rows and n classes."""
    mean = (size * rng.standard_normal((40, n))).astype(dtype)
    return mean, rng.uniform(0.5, 2, (40, n)).astype(dtype), rng.integers(0, n, 40).astype(np.int32)


@pytest.mark.parametrize("n", [6, 120])
def test_gradients_are_finite_differences(rng, n):
    mean, std, label = scores(rng, 4, n=n)
    got = [np.asarray(g) for g in both(mean, std, label)[1]]
    ways = [rng.standard_normal(mean.shape) for _ in range(2)]
    ends = [both(mean + e * ways[0], std + e * ways[1], label)[0] for e in (1e-5, -1e-5)]
    slope = sum(np.vdot(g, w) for g, w in zip(got, ways, strict=True))
    assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-7)
    assert_allclose(got[0].sum(1), 0, atol=1e-9)  # only differences matter


@pytest.mark.parametrize("size", [1e2, 1e4, 1e6])
def test_finite_everywhere(rng, dtype, size):
    mean, _, label = scores(rng, size, dtype)
    std = rng.uniform(0.1, 10, (40, 6)).astype(dtype)
    value, gradient = both(mean, std, label)
    assert np.isfinite(value)
    assert np.isfinite(gradient[0]).all()
    assert np.isfinite(gradient[1]).all()
    assert np.isfinite(class_mixture(mean[None], std[None])).all()


def test_all_classes_agree_with_one_at_a_time(rng):
    mean, std, _ = scores(rng, 3)
    table = class_mixture(mean[None], std[None])
    for c in range(6):
        label = np.full(40, c, np.int32)
        assert_allclose(table[:, c], log_probit(mean, std, label), rtol=1e-6, atol=1e-7)
    assert_allclose(np.exp(table).sum(1), 1, rtol=1e-12)
    order = rng.permutation(6)
    assert_allclose(class_mixture(mean[None, :, order], std[None, :, order]), table[:, order], rtol=1e-9)


def eta_and_label(rng, rows=6, n=5):
    return jnp.asarray(2 * rng.standard_normal((rows, n))), jnp.asarray(rng.integers(0, n, rows))


def test_expansion_has_the_derivatives_of_log_probit(rng):
    eta, label = eta_and_label(rng)
    got = expand_probit(eta, label, n_nodes=64, n_steps=6)

    def one(row, c):
        return log_probit(row[None], jnp.ones_like(row)[None], c[None])[0]

    both = jax.jit(jax.vmap(jax.value_and_grad(one)))
    value, gradient = both(eta, label)
    assert_allclose(got.value, value, rtol=1e-10)
    assert_allclose(got.gradient, gradient, rtol=1e-8, atol=1e-12)
    step = 1e-5
    for j in range(5):
        ends = [both(eta.at[:, j].add(e), label)[1] for e in (step, -step)]
        assert_allclose(got.hessian[:, j], (ends[0] - ends[1]) / (2 * step), atol=1e-8)
    assert np.all(np.linalg.eigvalsh(got.hessian) < 1e-10)  # concave
    assert np.all(np.linalg.eigvalsh(got.hessian) > -1 - 1e-10)  # Cov[z | c] = I + Hessian


def class_matrix(n, c):
    """Return T_c of the supplement: −I with the c-th column set to one."""
    T = -np.eye(n)
    T[:, c] = 1
    return T


def mean_field_on_s(eta, c, cycles=400):
    """Return E[z] and the bound on log P_c of the supplement's q(s), s = T_c z, by cycling."""
    n = len(eta)
    T = class_matrix(n, c)
    P, gamma = np.linalg.inv(T @ T.T), np.linalg.inv(T).T @ eta
    mean = np.ones(n)
    p = np.diag(P)
    for _ in range(cycles):
        for k in range(n):
            theta = gamma[k] - P[k] @ mean + p[k] * mean[k]
            alpha = theta / np.sqrt(p[k])
            wall = 0.0 if k == c else np.exp(stats.norm.logpdf(alpha) - special.log_ndtr(alpha))
            mean[k] = (alpha + wall) / np.sqrt(p[k])
    theta = gamma - P @ mean + p * mean
    log_wall = np.where(np.arange(n) == c, 0.0, special.log_ndtr(theta / np.sqrt(p)))
    A = 0.5 * np.log(2 * np.pi / p) + theta**2 / (2 * p) + log_wall
    coupling = 0.5 * mean @ (P - np.diag(p)) @ mean
    bound = (A.sum() + coupling) - 0.5 * eta @ eta - 0.5 * n * np.log(2 * np.pi)  # |det T| = 1
    return np.linalg.inv(T) @ mean, bound


def test_factorised_bound_equals_the_supplement(rng):
    eta, label = eta_and_label(rng, rows=5, n=4)
    got = expand_factorised(eta, label, n_steps=12)
    for i in range(5):
        z, bound = mean_field_on_s(np.asarray(eta[i]), int(label[i]))
        assert_allclose(got.value[i], bound, rtol=1e-9)
        assert_allclose(eta[i] + got.gradient[i], z, rtol=1e-7, atol=1e-9)
    assert np.all(got.value < expand_probit(eta, label, n_nodes=64, n_steps=6).value)


def test_factorised_derivatives_are_finite_differences(rng):
    eta, label = eta_and_label(rng)
    got = expand_factorised(eta, label, n_steps=12)
    step = 1e-5
    for j in range(5):
        ends = [expand_factorised(eta.at[:, j].add(e), label, n_steps=12) for e in (step, -step)]
        assert_allclose(got.gradient[:, j], (ends[0].value - ends[1].value) / (2 * step), atol=1e-8)
        assert_allclose(got.hessian[:, j], (ends[0].gradient - ends[1].gradient) / (2 * step), atol=1e-8)
