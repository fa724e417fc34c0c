"""Incomplete targets against scipy's normal and against sums over the hidden units."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

from tests.models.grid import answers
from tests.models.small_models import EP, changed, random_model
from tggm.models.likelihoods import Incomplete
from tggm.training import METHODS, Options, Rows

X = np.array([[0.5], [-1.0], [0.2]])
LIMITS = np.array([[0.4], [-0.3], [1.1]]), np.array([[1.0], [-1.0], [0.0]])
GAPS = np.array([[0.4, np.nan], [np.nan, -0.3], [1.1, 0.2]]), np.zeros((3, 2))


def model(n):
    drawn = random_model(np.random.default_rng(n), d=1, m=2, n=n, likelihood="censored")
    return changed(drawn, {"likelihood.log_noise": np.log(np.linspace(0.3, 0.6, n))})


def evaluate(method, params, y):
    objective = METHODS[method](Options())
    rows, begin = Rows(jnp.asarray(X), Incomplete(*map(jnp.asarray, y))), jnp.zeros(())

    def total(p):
        value = objective(p, rows, begin)
        return value.sum(), value

    grad, value = jax.jit(jax.grad(total, has_aux=True))(params)
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(grad))
    return value


def moments(params):
    return map(np.asarray, params.likelihood.whole.moments(params.latent(jnp.asarray(X), EP)))


@pytest.mark.parametrize("method", ["moments", "bp"])
def test_limits_are_gaussian_tails(method):
    params, y = model(1), LIMITS[0][:, 0]
    mean, cov = moments(params)
    law = norm(mean[:, 0], np.sqrt(cov[:, 0, 0] if method == "moments" else np.full(3, 0.3)))
    want = [law.logsf(y)[0], law.logcdf(y)[1], law.logpdf(y)[2]]
    assert_allclose(evaluate(method, params, LIMITS), want, rtol=1e-10)


def test_limits_are_tails_of_the_model():
    params = model(1)
    rows = zip(X, *LIMITS, strict=True)
    want = [answers("shallow", "censored", params, x, y)["sum"] for x, *y in rows]
    found = evaluate("ep", params, LIMITS)
    assert_allclose(found[:2], want[:2], atol=1e-6)
    assert_allclose(found[2], want[2], atol=3e-3)  # measured: EP's error


def test_missing_targets_leave_the_marginal():
    params, (Y, _) = model(2), GAPS
    mean, cov = moments(params)
    want = [
        norm.logpdf(0.4, mean[0, 0], np.sqrt(cov[0, 0, 0])),
        norm.logpdf(-0.3, mean[1, 1], np.sqrt(cov[1, 1, 1])),
        multivariate_normal(mean[2], cov[2]).logpdf(Y[2]),
    ]
    assert_allclose(evaluate("moments", params, GAPS), want, rtol=1e-10)
    each = norm.logpdf(Y, mean, np.sqrt([0.3, 0.6]))
    assert_allclose(evaluate("bp", params, GAPS), np.nansum(each, 1), rtol=1e-10)


def test_missing_targets_by_ep():
    params = model(2)
    rows = zip(X, *GAPS, strict=True)
    want = [answers("shallow", "censored", params, x, y)["gaussian"] for x, *y in rows]
    assert_allclose(evaluate("ep", params, GAPS), want, atol=1e-2)  # EP errs by a few thousandths here


def test_what_is_predicted_is_whole():
    params = model(2)
    whole = params.likelihood.whole
    assert whole.whole is whole
    assert_allclose(whole.log_noise, params.likelihood.log_noise)
    share = jnp.asarray([0.1, 9.0])
    assert_allclose(params.likelihood.finished(share).log_noise, whole.finished(share).log_noise)
