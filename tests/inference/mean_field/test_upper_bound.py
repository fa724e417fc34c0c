"""Bounds on log Z of layers from both sides, and the guard between them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

from tests.inference.problems import deep
from tggm.gaussian import TruncatedGaussian
from tggm.inference import log_partition
from tggm.inference.mean_field.upper_bound import GUARD, guarded_log_z, upper_bound
from tggm.precision import Layered

ONE = jnp.asarray(1.0)


@jax.jit
def both(tg):
    options = {"start": jnp.ones_like(tg.shift), "max_iter": jnp.int32(100)}
    guarded = guarded_log_z(tg, ONE, **options)
    return upper_bound(tg, ONE, **options), log_partition(tg, engine="mean_field", **options), guarded


def test_upper_bound_lies_above_and_mean_field_below(rng):
    """Against a product of Gauss–Legendre rules in three dimensions, exact to 1e-9 here."""
    W = rng.normal(size=(1, 2))
    P = Layered([np.eye(2) + W.T @ W, np.eye(1)], [-W])
    tg = TruncatedGaussian(P, rng.normal(size=(4, 3)))
    nodes, weights = np.polynomial.legendre.leggauss(60)
    grid = np.array(list(itertools.product(6 * (nodes + 1), repeat=3)))
    w = np.prod(list(itertools.product(6 * weights, repeat=3)), axis=1)
    quadratic = -0.5 * np.einsum("bi,ij,bj->b", grid, np.asarray(P.dense()), grid)
    truth = np.array([np.log(w @ np.exp(quadratic + grid @ np.asarray(g))) for g in tg.shift])
    upper, lower, _ = both(tg)
    assert np.all(upper > truth)
    assert np.all(lower < truth)
    assert np.all(np.asarray(upper) - truth < 0.5)
    by_ep = jax.jit(lambda tg: log_partition(tg, engine="ep"))(tg)
    assert_allclose(by_ep, truth, atol=0.02)


def test_guard_lets_mean_field_go_no_further(rng):
    weak = deep(rng, m=8, scale=0.2)
    _, lower, guarded = both(weak)
    assert_allclose(guarded, lower, rtol=1e-12)
    strong = deep(rng, m=8, scale=4.0)
    upper, lower, guarded = both(strong)
    assert np.all(lower < upper - GUARD * strong.size)  # the guard is needed
    assert_allclose(guarded, upper - GUARD * strong.size, rtol=1e-12)
