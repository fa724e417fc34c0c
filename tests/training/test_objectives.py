"""Objectives against the paper's hand-written gradients (misprints corrected) and against each other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from tggm.inference.mean_field.engine import mean_field
from tggm.models import Shallow, latent_moments, output_mean, posterior
from tggm.training import METHODS, Context, Rows, Scaling

LIKELIHOODS = ("meanfield", "ep", "exact")


def problem(rng, rows=6, d=3, m=4, n=1, noise=0.3, scale=1.0):
    shapes = ((m, d), (m,), (n, m), (n,))
    params = [jnp.asarray(scale * rng.standard_normal(s)) for s in shapes]
    model = Shallow(*params, jnp.full(n, np.log(noise)))
    return model, Rows(
        jnp.asarray(rng.standard_normal((rows, d))), jnp.asarray(rng.standard_normal((rows, n)))
    )


def gradient(method, params, rows, s0, **options):
    objective, context = METHODS[method](**options), Context(jnp.asarray(s0))
    return jax.jit(jax.grad(lambda p: objective(p, rows, context).sum()))(params)


def truncated(mu, sigma):
    """Mean and variance of N_T(mu, sigma²) by the textbook, with scipy."""
    alpha = mu / sigma
    r = np.exp(stats.norm.logpdf(alpha) - special.log_ndtr(alpha))
    return mu + sigma * r, sigma**2 * (1 - alpha * r - r**2)


def test_bp_gradients_of_the_paper(rng):
    """Its Eqs. for ∂E/∂W0 and ∂E/∂W1 with the signs right and 1/σ1² in both; E is minus our objective."""
    s0, s1 = 0.7, 0.3
    params, rows = problem(rng, n=2, noise=s1)
    W0, b0, W1, b1, _ = map(np.asarray, params)
    X, Y = map(np.asarray, rows)
    h, v = truncated(X @ W0.T + b0[None, :], np.sqrt(s0))
    error = (h @ W1.T + b1[None, :] - Y) / s1
    back = (error @ W1) * v / s0
    got = gradient("bp", params, rows, s0)
    assert_allclose(-got.W0, back.T @ X, rtol=1e-9)
    assert_allclose(-got.b0, back.sum(0), rtol=1e-9)
    assert_allclose(-got.W1, error.T @ h, rtol=1e-9)
    assert_allclose(-got.b1, error.sum(0), rtol=1e-9)


def cyclic_mean_field(P, gamma, cycles=2000):
    """The paper's Algorithm 1, lines 3-8, for one row."""
    mean, sigma = np.ones(len(gamma)), 1 / np.sqrt(np.diag(P))
    for _ in range(cycles):
        before = mean.copy()
        for k in range(len(gamma)):
            xi = (gamma[k] - P[k] @ mean + P[k, k] * mean[k]) / P[k, k]
            mean[k] = truncated(xi, sigma[k])[0]
        if np.abs(mean - before).max() < 1e-14:
            break
    xi = (gamma - P @ mean + np.diag(P) * mean) / np.diag(P)
    return truncated(xi, sigma)


@pytest.mark.parametrize("solver", ["newton", "cyclic"])
def test_meanfield_gradients_are_the_em_gradients_of_the_paper(rng, solver):
    s0, s1 = 0.7, 0.3
    params, rows = problem(rng, n=2, noise=s1)
    W0, b0, W1, b1, _ = map(np.asarray, params)
    X, Y = map(np.asarray, rows)
    a = X @ W0.T + b0[None, :]
    P = np.eye(4) / s0 + W1.T @ W1 / s1
    gamma = a / s0 + (Y - b1[None, :]) @ W1 / s1
    h, v = np.swapaxes([cyclic_mean_field(P, g) for g in gamma], 0, 1)
    prior_h = truncated(a, np.sqrt(s0))[0]
    hh = h.T @ h + np.diag(v.sum(0))
    got = gradient("meanfield", params, rows, s0, solver=solver, n_cycles=1000)
    assert_allclose(got.W0, (h - prior_h).T @ X / s0, rtol=1e-6, atol=1e-8)
    assert_allclose(got.b0, (h - prior_h).sum(0) / s0, rtol=1e-6, atol=1e-8)
    assert_allclose(got.W1, ((Y - b1[None, :]).T @ h - W1 @ hh) / s1, rtol=1e-6, atol=1e-8)
    error = Y - b1[None, :] - h @ W1.T
    assert_allclose(got.b1, error.sum(0) / s1, rtol=1e-6, atol=1e-8)
    squared = (error**2 + v @ (W1**2).T).sum(0)
    assert_allclose(got.log_noise, 0.5 * (squared / s1 - len(X)), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", ["moments", "bp", "ep", "exact"])
def test_gradients_are_those_of_the_values(rng, method):
    params, rows = problem(rng)
    context, objective = Context(jnp.asarray(0.8)), METHODS[method]()
    both = jax.jit(jax.value_and_grad(lambda p: objective(p, rows, context).sum()))
    got = both(params)[1]
    direction = jax.tree.map(lambda a: jnp.asarray(rng.standard_normal(a.shape)), params)
    eps = 1e-4
    ends = [both(jax.tree.map(lambda p, u, e=e: p + e * u, params, direction))[0] for e in (eps, -eps)]
    slope = sum(jnp.vdot(g, u) for g, u in zip(got, direction, strict=True))
    assert_allclose(slope, (ends[0] - ends[1]) / (2 * eps), rtol=1e-5, atol=1e-6)


@functools.cache
def compiled(method):
    return jax.jit(METHODS[method]())


def values(method, params, rows, s0):
    return np.asarray(compiled(method)(params, rows, Context(jnp.asarray(s0))))


def test_one_unit_is_exact_for_every_likelihood(rng):
    """With m = 1 the posterior is a univariate truncated normal: no engine approximates anything."""
    params, rows = problem(rng, m=1)
    s0, s1 = 0.8, 0.3
    W0, b0, W1, b1, _ = map(np.asarray, params)
    got = {method: values(method, params, rows, s0) for method in LIKELIHOODS}
    for i, (x, y) in enumerate(zip(*map(np.asarray, rows), strict=True)):
        a = (W0 @ x + b0)[0]

        def joint(h, a=a, y=y):
            prior = stats.norm.pdf(h, a, np.sqrt(s0)) / special.ndtr(a / np.sqrt(s0))
            return prior * stats.norm.pdf(y[0], W1[0, 0] * h + b1[0], np.sqrt(s1))

        want = np.log(integrate.quad(joint, 0, max(a, 0) + 12, epsabs=1e-13, points=[max(a, 0)])[0])
        for method in LIKELIHOODS:
            assert_allclose(got[method][i], want, atol=1e-6, err_msg=method)


def test_methods_agree_when_the_latent_noise_vanishes(rng):
    """With s0 → 0, h is max(0, a) and y Gaussian about W1 h + b1."""
    params, rows = problem(rng)
    W0, b0, W1, b1, _ = map(np.asarray, params)
    X, Y = map(np.asarray, rows)
    relu = np.maximum(X @ W0.T + b0[None, :], 0)
    want = stats.norm.logpdf(Y, relu @ W1.T + b1[None, :], np.sqrt(0.3))[:, 0]
    for method in METHODS:
        assert_allclose(values(method, params, rows, 1e-8), want, atol=2e-3, err_msg=method)


def test_exact_is_above_the_bound_and_near_ep(rng):
    params, rows = problem(rng, rows=40, m=8)
    exact = values("exact", params, rows, 0.8)
    assert np.all(values("meanfield", params, rows, 0.8) <= exact + 1e-9)
    assert_allclose(values("ep", params, rows, 0.8), exact, atol=0.01)


def test_bound_never_falls_under_exact_m_steps(rng):
    """EM for W1, b1 and s1 in closed form: regression of y on the posterior moments of h."""
    params, rows = problem(rng, rows=30, n=2)
    Y, s0, bounds = np.asarray(rows.Y), 0.8, []
    for _ in range(12):
        bounds.append(values("meanfield", params, rows, s0).sum())
        q = mean_field(posterior(params, rows.X, rows.Y, jnp.asarray(s0)))
        h, v = np.asarray(q.mean), np.asarray(q.var)
        z = np.column_stack([h, np.ones(len(h))])
        second = z.T @ z + np.diag([*v.sum(0), 0])
        coef = np.linalg.solve(second, z.T @ Y).T
        W1, b1 = coef[:, :-1], coef[:, -1]
        noise = (((Y - z @ coef.T) ** 2) + v @ (W1**2).T).mean(0)
        params = params._replace(
            W1=jnp.asarray(W1), b1=jnp.asarray(b1), log_noise=jnp.log(jnp.asarray(noise))
        )
    assert np.all(np.diff(bounds) > -1e-9)
    assert bounds[-1] > bounds[0] + 1


def test_bound_rises_along_its_gradient(rng):
    """A full-batch gradient M-step with backtracking on all parameters never lowers the bound."""
    params, rows = problem(rng, rows=30)
    objective, context = METHODS["meanfield"](), Context(jnp.asarray(0.8))
    both = jax.jit(jax.value_and_grad(lambda p: objective(p, rows, context).sum()))
    value, grad = both(params)
    for _ in range(10):
        size, rate = sum(float((g**2).sum()) for g in grad), 0.01
        while rate > 1e-12:
            trial = jax.tree.map(lambda p, g, rate=rate: p + rate * g, params, grad)
            new, new_grad = both(trial)
            if (
                new >= value + 0.25 * rate * size
            ):  # Armijo: must succeed, as the gradient is that of the bound
                break
            rate /= 2
        assert rate > 1e-6
        params, value, grad = trial, new, new_grad


def test_finish_leaves_the_model_the_variance_that_bp_saw(rng):
    params, rows = problem(rng, rows=50, noise=40.0)
    objective, context = METHODS["bp"](), Context(jnp.asarray(0.8))
    finished = objective.finish(params, rows, context)
    _, v = latent_moments(params, rows.X, context.s0)
    total = np.mean(np.asarray(v) @ np.asarray(params.W1**2).T) + np.exp(finished.log_noise[0])
    assert_allclose(total, 40.0, rtol=1e-10)
    small = params._replace(log_noise=jnp.log(jnp.asarray([1e-3])))
    assert_allclose(np.exp(objective.finish(small, rows, context).log_noise), 1e-5, rtol=1e-10)


def test_scaling_in_the_context_equals_scaled_data(rng):
    params, rows = problem(rng)
    scaling = Scaling(*(jnp.asarray(a) for a in ([1.0, 2, 3], [2.0, 3, 4], [0.5], [1.5])))
    raw = Rows(rows.X * scaling.x_scale[None] + scaling.x_shift[None], rows.Y * 1.5 + 0.5)
    s0 = jnp.asarray(0.8)
    for method in ("moments", "bp"):
        got = METHODS[method]()(params, raw, Context(s0, scaling))
        assert_allclose(got, METHODS[method]()(params, rows, Context(s0)), rtol=1e-10)


def test_moments_is_the_gaussian_with_the_right_moments(rng):
    params, rows = problem(rng)
    mean = np.asarray(output_mean(params, rows.X, 0.8))[:, 0]
    _, v = truncated(np.asarray(rows.X @ params.W0.T + params.b0[None, :]), np.sqrt(0.8))
    var = v @ np.asarray(params.W1)[0] ** 2 + 0.3
    want = stats.norm.logpdf(np.asarray(rows.Y)[:, 0], mean, np.sqrt(var))
    assert_allclose(values("moments", params, rows, 0.8), want, rtol=1e-8)
