"""The bound on a class's log-probability: below the truth, found by both solvers, differentiable."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.cases import few
from tests.inference.classes import (
    Problem,
    above_a_layer,
    assert_gradient,
    prior,
    problem,
    true_log_probability,
    with_weights,
)
from tggm.gaussian import TruncatedGaussian
from tggm.inference import log_partition
from tggm.inference.mean_field.classes import class_mean_field, class_term
from tggm.inference.mean_field.newton import newton
from tggm.precision import LowRank
from tggm.special.probit import log_probit
from tggm.special.probit_bound import exact, factorised


def scores(label):
    return partial(exact, label=label, n_nodes=64, n_steps=6), partial(factorised, label=label, n_steps=12)


def bound(p, steps=50, which=0, solver="newton"):
    return bounded(p, steps, which, solver)  # given in one way: a program serves all counts of steps


@partial(jax.jit, static_argnums=(2, 3))
def bounded(p, steps, which, solver):
    found, _ = class_mean_field(
        with_weights(p), p.W, p.b, scores(p.label)[which], start=None, steps=steps, solver=solver
    )
    return found - log_partition(prior(p), engine="exact")


def test_bounds_are_below_and_ordered():
    """Of two units, whose truth is known; four more say nothing and make the shape that of all tests here."""
    p = problem(np.random.default_rng(5), rows=8)
    spare = ((0, 0), (0, 4))
    wide = Problem(jnp.full(6, p.d[0]), jnp.pad(p.shift, spare), jnp.pad(p.W, spare), p.b, p.label)
    tight, loose = bound(wide), bound(wide, which=1)
    assert np.all(tight < true_log_probability(p))
    assert np.all(loose < tight)


def test_bound_is_exact_without_coupling(rng):
    """With W = 0 the hidden units say nothing: the bound is log P_c(b)."""
    p = problem(rng, rows=8, m=6)
    p = p._replace(W=jnp.zeros_like(p.W))
    want = log_probit(jnp.broadcast_to(p.b, (8, 4)), jnp.ones((8, 4)), p.label)
    assert_allclose(bound(p), want, rtol=1e-8)


@pytest.mark.parametrize("which", few([0, 1], "0"))
def test_bound_never_falls(rng, which):
    """From Newton step to Newton step, and from cycle to cycle, for strongly coupled units."""
    p = problem(rng, rows=8, m=6, scale=2.0)
    for solver, counts in (("newton", range(9)), ("cyclic", range(1, 9))):
        values = np.array([bound(p, k, which, solver) for k in counts])
        assert np.all(np.diff(values, axis=0) > -1e-9)
        assert np.all(values[-1] - values[0] > 0.01)


@pytest.mark.parametrize("which", few([0, 1], "0"))
def test_newton_and_cycles_meet(rng, which):
    p = problem(rng, rows=8, m=6)
    assert_allclose(bound(p, 50, which, "newton"), bound(p, 1000, which, "cyclic"), rtol=1e-9)


@pytest.mark.slow  # of the engine: test_engine.py
def test_single_precision_converges_in_few_steps(rng):
    p = problem(rng, rows=50, m=30, n=10)
    single = jax.tree.map(lambda a: a.astype(jnp.float32), (with_weights(p), p.W, p.b))

    @jax.jit
    def solve(tg, W, b):
        term = class_term(W, b, partial(exact, label=p.label, n_nodes=16, n_steps=3))
        return newton(tg, tg.shift, jnp.int32(30), term)

    state = solve(*single)
    assert state.done.all()
    assert state.n_iter.max() <= 15


@pytest.mark.slow  # layers of classes: tests/training/test_deep_methods.py
@pytest.mark.parametrize("solver", ["newton", "cyclic"])
def test_layers_that_do_not_meet_add_their_log_z(rng, solver):
    p = problem(rng, m=5)
    joined, below = above_a_layer(rng, p, weights=True)
    score, steps = scores(p.label)[0], jnp.int32(50)
    start = jnp.ones_like(joined.shift)
    solve = jax.jit(
        lambda tg, start: class_mean_field(tg, p.W, p.b, score, start=start, steps=steps, solver=solver)
    )
    (got, mean), (want, top) = solve(joined, start), solve(with_weights(p), start[:, 3:])
    assert_allclose(got, want + below, rtol=1e-9)
    assert_allclose(mean[:, 3:], top, rtol=1e-7)


@pytest.mark.slow  # the same of a whole model: tests/training/test_class_methods.py
def test_gradient(rng):
    p = problem(rng, rows=3, m=4)

    def value(leaves):
        d, shift, W, b = leaves
        tg = TruncatedGaussian(LowRank(d, W), shift)
        return class_mean_field(
            tg, W, b, scores(p.label)[0], start=None, steps=jnp.int32(50), solver="newton"
        )[0].sum()

    assert_gradient(value, (p.d, p.shift, p.W, p.b), rng)
