"""Objectives for incomplete targets against scipy's normal and against sums over the latent variables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm
from tggm.training.incomplete import INCOMPLETE, IncompleteRows
from tggm.training.objectives import Context

from tggm.models import Shallow, output_mean, output_moments

S0 = 0.8
X = np.array([[0.5], [-1.0], [0.2]])


def model(n):
    rng = np.random.default_rng(n)
    draws = [rng.standard_normal(shape) for shape in ((2, 1), (2,), (n, 2), (n,))]
    return Shallow(*map(jnp.asarray, draws), jnp.asarray(np.log(np.linspace(0.3, 0.6, n))))


def evaluate(method, params, Y, side):
    objective = INCOMPLETE[method]()
    rows = IncompleteRows(*map(jnp.asarray, (X, Y, side)))

    def total(params):
        value = objective(params, rows, Context(jnp.asarray(S0)))
        return value.sum(), value

    grad, value = jax.jit(jax.grad(total, has_aux=True))(params)  # one program for both
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(grad))
    return value


def grid(params, x):
    """Latent variables on a grid, with the weights of their prior."""
    line = np.arange(0.01, 8, 0.02)
    h = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    a = np.asarray(params.W0) @ x + np.asarray(params.b0)
    w = np.exp(-0.5 * ((h - a) ** 2).sum(1) / S0)
    return h, w / w.sum()


@pytest.mark.parametrize("method", ["moments", "bp"])
def test_limits_are_gaussian_tails(method):
    params = model(1)
    Y, side = np.array([[0.4], [-0.3], [1.1]]), np.array([[1.0], [-1.0], [0.0]])
    mean, cov = output_moments(params, jnp.asarray(X), jnp.asarray(S0))
    sd = np.sqrt(np.asarray(cov)[:, 0, 0]) if method == "moments" else np.sqrt(np.full(3, 0.3))
    law = norm(np.asarray(mean)[:, 0], sd)
    y = Y[:, 0]
    want = [law.logsf(y)[0], law.logcdf(y)[1], law.logpdf(y)[2]]
    assert_allclose(evaluate(method, params, Y, side), want, rtol=1e-10)


def test_limits_are_tails_of_the_model():
    params = model(1)
    Y, side = np.array([[0.4], [-0.3], [1.1]]), np.array([[1.0], [-1.0], [0.0]])
    found = evaluate("ep", params, Y, side)  # "exact" takes the same tail
    for i in range(3):
        h, w = grid(params, X[i])
        law = norm(h @ np.asarray(params.W1)[0] + float(params.b1[0]), np.sqrt(0.3))
        part = (law.pdf, law.sf, law.cdf)[int(side[i, 0])](Y[i, 0])
        assert_allclose(found[i], np.log(w @ part), atol=2e-4 if side[i, 0] else 3e-3)  # measured: EP's error


def test_missing_targets_leave_the_marginal():
    params = model(2)
    Y = np.array([[0.4, np.nan], [np.nan, -0.3], [1.1, 0.2]])
    found = evaluate("moments", params, Y, np.zeros_like(Y))
    mean, cov = (np.asarray(a) for a in output_moments(params, jnp.asarray(X), jnp.asarray(S0)))
    want = [
        norm.logpdf(0.4, mean[0, 0], np.sqrt(cov[0, 0, 0])),
        norm.logpdf(-0.3, mean[1, 1], np.sqrt(cov[1, 1, 1])),
        multivariate_normal(mean[2], cov[2]).logpdf(Y[2]),
    ]
    assert_allclose(found, want, rtol=1e-10)
    mean = np.asarray(output_mean(params, jnp.asarray(X), jnp.asarray(S0)))
    each = norm.logpdf(Y, mean, np.sqrt([0.3, 0.6]))
    assert_allclose(evaluate("bp", params, Y, np.zeros_like(Y)), np.nansum(each, 1), rtol=1e-10)


def test_missing_targets_by_ep():
    params = model(2)
    Y = np.array([[0.4, np.nan], [np.nan, -0.3], [1.1, 0.2]])
    found = evaluate("ep", params, Y, np.zeros_like(Y))
    for i in range(3):
        h, w = grid(params, X[i])
        mean = h @ np.asarray(params.W1).T + np.asarray(params.b1)
        given = np.exp(np.nansum(norm.logpdf(Y[i], mean, np.sqrt([0.3, 0.6])), 1))
        assert_allclose(found[i], np.log(w @ given), atol=1e-2)  # EP errs by a few thousandths here
