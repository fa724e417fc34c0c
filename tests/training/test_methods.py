"""Training methods against the paper's hand-written gradients (misprints corrected) and each other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from tests.models.small_models import changed, numbers, random_model
from tests.models.textbook import truncated
from tests.training.derivatives import assert_gradient
from tggm.inference import mean_field
from tggm.training import METHODS, Options, Rows

LIKELIHOODS = ("meanfield", "ep", "exact")
BEGIN = jnp.zeros(())  # of training


def problem(rng, rows=6, m=4, n=1, noise=0.3, s0=0.8):
    model = random_model(rng, m=m, n=n, noise=noise, s0=s0)
    X, Y = rng.standard_normal((rows, 3)), rng.standard_normal((rows, n))
    return model, Rows(jnp.asarray(X), jnp.asarray(Y))


def weights(model):
    return numbers(model, "W0", "b0", "W1", "b1")


def gradient(method, model, rows, **options):
    """By the names of the arrays."""
    objective = METHODS[method](Options(**options))
    grad = jax.jit(jax.grad(lambda m: objective(m, rows, BEGIN).sum()))(model)
    return {name.rpartition(".")[2]: a for name, a in grad.arrays().items()}


def test_bp_gradients_of_the_paper(rng):
    """Its Eqs. for ∂E/∂W0 and ∂E/∂W1 with the signs right and 1/σ1² in both; E is minus our objective."""
    s0, s1 = 0.7, 0.3
    model, rows = problem(rng, n=2, noise=s1, s0=s0)
    W0, b0, W1, b1 = weights(model)
    X, Y = map(np.asarray, rows)
    h, v = truncated(X @ W0.T + b0[None, :], np.sqrt(s0))
    error = (h @ W1.T + b1[None, :] - Y) / s1
    back = (error @ W1) * v / s0
    got = gradient("bp", model, rows)
    assert_allclose(-got["W0"], back.T @ X, rtol=1e-9)
    assert_allclose(-got["b0"], back.sum(0), rtol=1e-9)
    assert_allclose(-got["W1"], error.T @ h, rtol=1e-9)
    assert_allclose(-got["b1"], error.sum(0), rtol=1e-9)


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
    model, rows = problem(rng, n=2, noise=s1, s0=s0)
    W0, b0, W1, b1 = weights(model)
    X, Y = map(np.asarray, rows)
    a = X @ W0.T + b0[None, :]
    P = np.eye(4) / s0 + W1.T @ W1 / s1
    gamma = a / s0 + (Y - b1[None, :]) @ W1 / s1
    h, v = np.swapaxes([cyclic_mean_field(P, g) for g in gamma], 0, 1)
    prior_h = truncated(a, np.sqrt(s0))[0]
    hh = h.T @ h + np.diag(v.sum(0))
    got = gradient("meanfield", model, rows, solver=solver, cycles=(1000, 1000))
    assert_allclose(got["W0"], (h - prior_h).T @ X / s0, rtol=1e-6, atol=1e-8)
    assert_allclose(got["b0"], (h - prior_h).sum(0) / s0, rtol=1e-6, atol=1e-8)
    assert_allclose(got["W1"], ((Y - b1[None, :]).T @ h - W1 @ hh) / s1, rtol=1e-6, atol=1e-8)
    error = Y - b1[None, :] - h @ W1.T
    assert_allclose(got["b1"], error.sum(0) / s1, rtol=1e-6, atol=1e-8)
    squared = (error**2 + v @ (W1**2).T).sum(0)
    assert_allclose(got["log_noise"], 0.5 * (squared / s1 - len(X)), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", ["moments", "bp", "ep", "exact"])
def test_gradients_are_those_of_the_values(rng, method):
    model, rows = problem(rng)
    objective = METHODS[method](Options())
    assert_gradient(lambda m: objective(m, rows, BEGIN).sum(), model, rng, eps=1e-4, rtol=1e-5, atol=1e-6)


@functools.cache
def compiled(method):
    return jax.jit(METHODS[method](Options()))


def values(method, model, rows):
    return np.asarray(compiled(method)(model, rows, BEGIN))


def test_one_unit_is_exact_for_every_likelihood(rng):
    """If one unit has a weight, its posterior is a univariate truncated normal: nothing is approximated."""
    s0, s1 = 0.8, 0.3
    model, rows = problem(rng, rows=40, m=8, noise=s1, s0=s0)  # the shape of the tests below
    W0, b0, W1, b1 = weights(model)
    model = changed(model, {"likelihood.output.W1": W1 * (np.arange(8) == 0)})
    got = {method: values(method, model, rows) for method in LIKELIHOODS}
    for i, (x, y) in enumerate(zip(*(np.asarray(a)[:6] for a in rows), strict=True)):
        a = (W0 @ x + b0)[0]

        def joint(h, a=a, y=y):
            prior = stats.norm.pdf(h, a, np.sqrt(s0)) / special.ndtr(a / np.sqrt(s0))
            return prior * stats.norm.pdf(y[0], W1[0, 0] * h + b1[0], np.sqrt(s1))

        want = np.log(integrate.quad(joint, 0, max(a, 0) + 12, epsabs=1e-13, points=[max(a, 0)])[0])
        for method in LIKELIHOODS:
            assert_allclose(got[method][i], want, atol=1e-6, err_msg=method)


def test_methods_agree_when_the_latent_noise_vanishes(rng):
    """With s0 → 0, h is max(0, a) and y Gaussian about W1 h + b1."""
    model, rows = problem(rng, rows=40, m=8, s0=1e-8)
    W0, b0, W1, b1 = weights(model)
    X, Y = map(np.asarray, rows)
    relu = np.maximum(X @ W0.T + b0[None, :], 0)
    want = stats.norm.logpdf(Y, relu @ W1.T + b1[None, :], np.sqrt(0.3))[:, 0]
    for method in METHODS:
        assert_allclose(values(method, model, rows), want, atol=2e-3, err_msg=method)


def test_exact_is_above_the_bound_and_near_ep(rng):
    model, rows = problem(rng, rows=40, m=8)
    exact = values("exact", model, rows)
    assert np.all(values("meanfield", model, rows) <= exact + 1e-9)
    assert_allclose(values("ep", model, rows), exact, atol=0.01)


def test_bound_never_falls_under_exact_m_steps(rng):
    """EM for W1, b1 and s1 in closed form: regression of y on the posterior moments of h."""
    model, rows = problem(rng, rows=40, m=8)  # the shape of the tests above
    Y, bounds = np.asarray(rows.y), []

    @jax.jit
    def posterior(model):
        outputs = model.likelihood
        root = jnp.exp(-outputs.log_noise / 2)
        U = outputs.output.W1 * root[:, None]
        pull = (rows.y - outputs.output.b1[None, :]) * root[None, :] @ U
        return mean_field(model.hidden.gaussian(rows.X, U, pull))

    for _ in range(12):
        bounds.append(values("meanfield", model, rows).sum())
        q = posterior(model)
        h, v = np.asarray(q.mean), np.asarray(q.var)
        z = np.column_stack([h, np.ones(len(h))])
        second = z.T @ z + np.diag([*v.sum(0), 0])
        coef = np.linalg.solve(second, z.T @ Y).T
        W1, b1 = coef[:, :-1], coef[:, -1]
        noise = (((Y - z @ coef.T) ** 2) + v @ (W1**2).T).mean(0)
        found = {"output.W1": W1, "output.b1": b1, "log_noise": np.log(noise)}
        model = changed(model, {f"likelihood.{name}": a for name, a in found.items()})
    assert np.all(np.diff(bounds) > -1e-9)
    assert bounds[-1] > bounds[0] + 1


@pytest.mark.slow  # the gradient is the paper's, above
def test_bound_rises_along_its_gradient(rng):
    """A full-batch gradient M-step with backtracking on all parameters never lowers the bound."""
    model, rows = problem(rng, rows=40, m=8)
    objective = METHODS["meanfield"](Options())
    both = jax.jit(jax.value_and_grad(lambda m: objective(m, rows, BEGIN).sum()))
    value, grad = both(model)
    for _ in range(10):
        size, rate = sum(float((g**2).sum()) for g in jax.tree.leaves(grad)), 0.01
        while rate > 1e-12:
            trial = jax.tree.map(lambda p, g, rate=rate: p + rate * g, model, grad)
            new, new_grad = both(trial)
            if (
                new >= value + 0.25 * rate * size
            ):  # Armijo: must succeed, as the gradient is that of the bound
                break
            rate /= 2
        assert rate > 1e-6
        model, value, grad = trial, new, new_grad


def test_finish_leaves_the_model_the_variance_that_bp_saw(rng):
    model, rows = problem(rng, rows=50, noise=40.0)
    objective = METHODS["bp"](Options())
    small = changed(model, {"likelihood.log_noise": np.log([1e-3])})
    members = jax.tree.map(lambda *leaves: jnp.stack(leaves), model, small)
    left = np.exp(objective.finish(members, lambda: rows).likelihood.log_noise)
    W0, b0, W1, _ = weights(model)
    _, v = truncated(np.asarray(rows.X) @ W0.T + b0, np.sqrt(0.8))
    assert_allclose(np.mean(v @ W1.T**2) + left[0], 40.0, rtol=1e-10)
    assert_allclose(left[1], 1e-5, rtol=1e-10)
    assert METHODS["moments"](Options()).finish(members, lambda: rows) is members


def test_moments_is_the_gaussian_with_the_right_moments(rng):
    model, rows = problem(rng, rows=40, m=8)
    W0, b0, W1, b1 = weights(model)
    h, v = truncated(np.asarray(rows.X) @ W0.T + b0, np.sqrt(0.8))
    law = stats.norm(h @ W1[0] + b1, np.sqrt(v @ W1[0] ** 2 + 0.3))
    assert_allclose(values("moments", model, rows), law.logpdf(np.asarray(rows.y)[:, 0]), rtol=1e-8)


def test_the_penalty_is_that_of_the_weights(rng):
    model, _ = problem(rng)
    W0, _, W1, _ = weights(model)
    want = 0.5 * ((W0**2).sum() + (W1**2).sum())
    for make in METHODS.values():
        assert_allclose(make(Options()).penalty(model), want, rtol=1e-12)


def test_equal_methods_share_a_program():
    assert {name: make(Options()).needs for name, make in METHODS.items()} == {
        "bp": "mean", "moments": "moments", "meanfield": "gaussian", "ep": "gaussian", "exact": "sum",
    }  # fmt: skip
    for make in METHODS.values():
        assert make(Options()) == make(Options())
        assert hash(make(Options())) == hash(make(Options()))
    assert METHODS["meanfield"](Options()) != METHODS["meanfield"](Options(solver="cyclic"))


def test_cycles_fall_evenly(rng):
    """From the first number to the last in the course of training, rounded."""
    model, rows = problem(rng)

    @functools.partial(jax.jit, static_argnames="cycles")
    def bound(cycles, progress):
        return METHODS["meanfield"](Options("cyclic", cycles))(model, rows, progress)

    for progress, cycles in ((0.0, 7), (0.5, 4), (1.0, 1)):
        assert_allclose(bound((7, 1), progress), bound((cycles, cycles), 0.0), rtol=1e-12)
    assert np.all(bound((7, 1), 0.0) > bound((7, 1), 1.0))
