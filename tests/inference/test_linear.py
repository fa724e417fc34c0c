"""Moments of W h for the last units of a truncated Gaussian."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import truncnorm

from tests.cases import few
from tests.inference.references import assert_gradient, deep
from tggm.gaussian import TruncatedGaussian
from tggm.inference import _linear, ep, linear_mean, linear_moments, mean_field
from tggm.precision import Diagonal, Layered


def moments(tg, W, engine, **options):
    return jax.jit(partial(linear_moments, engine=engine, **options))(tg, W)


def test_independent_units(rng):
    d, shift, W = rng.uniform(0.5, 2, 4), rng.normal(size=(3, 4)), rng.normal(size=(2, 3))
    tg = TruncatedGaussian(Diagonal(d), shift)
    law = truncnorm(-shift / np.sqrt(d), np.inf, loc=shift / d, scale=d**-0.5)
    for engine in ("ep", "mean_field"):
        mean, cov = moments(tg, W, engine)
        assert_allclose(mean, law.mean()[:, 1:], rtol=1e-7)
        assert_allclose(cov, np.einsum("ik,bk,jk->bij", W, law.var()[:, 1:], W), rtol=1e-6)
    assert_allclose(jax.jit(linear_mean)(tg, W), law.mean()[:, 1:] @ W.T, rtol=1e-7)


def test_covariances_are_derivatives_of_means(rng):
    """Check mean field's linear response, and EP's covariance against its variances."""
    tg, W = deep(rng, m=4), rng.normal(size=(2, 4))
    _, cov = moments(tg, W, "mean_field")
    means = jax.jit(lambda shift: mean_field(tg.with_shift(shift)).mean[:, 4:])
    across = np.zeros(cov.shape)
    for j in range(2):
        push = 1e-5 * np.pad(W[j], (4, 0))[None, :]
        ends = [np.asarray(means(np.asarray(tg.shift) + s * push)) @ W.T for s in (1, -1)]
        across[:, :, j] = (ends[0] - ends[1]) / 2e-5
    assert_allclose(cov, across, rtol=1e-5, atol=1e-7)
    mean, cov = moments(tg, np.eye(8), "ep")
    found = ep(tg)
    assert_allclose(mean, found.mean, rtol=1e-6)
    assert_allclose(np.diagonal(cov, axis1=1, axis2=2), found.var, rtol=1e-6)


@pytest.mark.parametrize("engine", few(["ep", "mean_field"], "ep"))
def test_blocks_of_rows_give_the_same_result(rng, engine, monkeypatch):
    tg, W = deep(rng, m=3, rows=7), rng.normal(size=(2, 3))
    whole = moments(tg, W, engine, start=jnp.ones_like(tg.shift))
    monkeypatch.setattr(_linear, "BLOCK", 3)
    parts = moments(tg, W, engine, start=jnp.ones_like(tg.shift))
    for a, b in zip(parts, whole, strict=True):
        assert_allclose(a, b, rtol=1e-6)


def test_gradient_of_the_mean(rng):
    tg = deep(rng, m=3, rows=2)
    W = jnp.asarray(rng.normal(size=(2, 3)))

    def value(leaves):
        W, shift, a, b = leaves
        P = Layered((jnp.eye(3) * a + b.T @ b, jnp.eye(3)), (-b,))
        return (linear_mean(TruncatedGaussian(P, shift), W) ** 2).sum()

    assert_gradient(value, (W, tg.shift, np.array(1.3), -tg.precision.lower_blocks[0]), rng, rtol=1e-5)


def test_unknown_engine(rng):
    with pytest.raises(ValueError, match=r"`engine` must be one of .*; got 'exact'"):
        linear_moments(deep(rng, m=2), jnp.ones((1, 2)), engine="exact")
