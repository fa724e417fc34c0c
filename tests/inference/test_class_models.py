"""Engines for rows with a known class: bounds and estimates against quadrature, and solvers."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import truncnorm

from tests.cases import few
from tggm.gaussian import TruncatedGaussian
from tggm.inference import class_mean_field, log_partition
from tggm.precision import Diagonal, LowRank
from tggm.special.probit import expand_factorised, expand_probit, log_probit


class Problem(NamedTuple):
    d: jnp.ndarray  # (m,) precision of h
    shift: jnp.ndarray  # (rows, m)
    W: jnp.ndarray  # (n, m)
    b: jnp.ndarray  # (n,)
    label: jnp.ndarray  # (rows,)


def problem(rng, rows=6, m=2, n=4, scale=1.0):
    shapes = (rows, m), (n, m), (n,)
    shift, W, b = (jnp.asarray(scale * rng.standard_normal(s)) for s in shapes)
    return Problem(jnp.asarray(np.full(m, 1 / 0.7)), shift / 0.7, W, b, jnp.asarray(rng.integers(0, n, rows)))


def prior(p):
    return TruncatedGaussian(Diagonal(p.d), p.shift)


def with_weights(p):
    """Add WᵀW to the precision."""
    return TruncatedGaussian(LowRank(p.d, p.W), p.shift)


def true_log_probability(p, nodes=80):
    """Return the log probability of each row's class for two hidden units, by quadrature over quantiles."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    u, w = (t + 1) / 2, w / 2
    result = []
    for shift, c in zip(np.asarray(p.shift), np.asarray(p.label), strict=True):
        sd = np.asarray(p.d) ** -0.5
        mu = shift * sd**2
        h = [truncnorm.ppf(u, -m / s, np.inf, loc=m, scale=s) for m, s in zip(mu, sd, strict=True)]
        grid = np.stack([part.ravel() for part in np.meshgrid(*h, indexing="ij")], axis=1)
        eta = jnp.asarray(grid @ np.asarray(p.W).T + np.asarray(p.b)[None, :])
        chance = np.exp(log_probit(eta, jnp.ones_like(eta), jnp.full(len(eta), c)))
        result.append(np.log((chance * np.outer(w, w).ravel()).sum()))
    return np.array(result)


def scores(label):
    return partial(expand_probit, label=label, n_nodes=64, n_steps=6), partial(
        expand_factorised, label=label, n_steps=12
    )


@partial(jax.jit, static_argnames=("which", "solver"))  # one program serves all numbers of steps
def bound(p, steps=50, which=0, solver="newton"):
    found, _ = class_mean_field(
        with_weights(p), p.W, p.b, scores(p.label)[which], start=None, steps=steps, solver=solver
    )
    return found - log_partition(prior(p), engine="exact")


def test_bounds_are_below_the_truth_and_ordered():
    """Use two units with a known truth, and four without weight that keep the shape of the other tests."""
    p = problem(np.random.default_rng(5), rows=8)
    spare = ((0, 0), (0, 4))
    wide = Problem(jnp.full(6, p.d[0]), jnp.pad(p.shift, spare), jnp.pad(p.W, spare), p.b, p.label)
    tight, loose = bound(wide), bound(wide, which=1)
    assert np.all(tight < true_log_probability(p))
    assert np.all(loose < tight)


def test_bound_is_exact_without_coupling(rng):
    """Set W = 0, for which the bound is log P_c(b)."""
    p = problem(rng, rows=8, m=6)
    p = p._replace(W=jnp.zeros_like(p.W))
    want = log_probit(jnp.broadcast_to(p.b, (8, 4)), jnp.ones((8, 4)), p.label)
    assert_allclose(bound(p), want, rtol=1e-8)


@pytest.mark.parametrize("which", few([0, 1], "0"))
def test_bound_increases_with_every_step(rng, which):
    """Check every Newton step and every cycle, for strongly coupled units."""
    p = problem(rng, rows=8, m=6, scale=2.0)
    for solver, counts in (("newton", range(9)), ("cyclic", range(1, 9))):
        values = np.array([bound(p, k, which, solver) for k in counts])
        assert np.all(np.diff(values, axis=0) > -1e-9)
        assert np.all(values[-1] - values[0] > 0.01)


@pytest.mark.parametrize("which", few([0, 1], "0"))
def test_newton_and_cycles_have_the_same_limit(rng, which):
    p = problem(rng, rows=8, m=6)
    assert_allclose(bound(p, 50, which, "newton"), bound(p, 1000, which, "cyclic"), rtol=1e-9)
