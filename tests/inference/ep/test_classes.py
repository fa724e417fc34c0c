"""EP's log-probability of a class: close to the truth, the same for every structure, differentiable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.inference.classes import above_a_layer, assert_gradient, prior, problem, true_log_probability
from tggm.gaussian import TruncatedGaussian
from tggm.inference import log_partition
from tggm.inference.ep.classes import class_ep
from tggm.precision import Diagonal, Layered, LowRank
from tggm.special.probit import log_probit

SWEEPS = jnp.int32(100)


def log_probability(p):
    return class_ep(prior(p), p.W, p.b, p.label, SWEEPS) - log_partition(prior(p), engine="exact")


def test_close_to_the_integral():
    p = problem(np.random.default_rng(5))
    assert_allclose(jax.jit(log_probability)(p), true_log_probability(p), atol=0.05)


def test_without_coupling_only_z_is_approximated(rng):
    p = problem(rng)
    p = p._replace(W=jnp.zeros_like(p.W))
    want = log_probit(jnp.broadcast_to(p.b, (6, 4)), jnp.ones((6, 4)), p.label)
    assert_allclose(jax.jit(log_probability)(p), want, atol=0.02)


@pytest.mark.slow  # layers of classes: tests/training/test_deep_methods.py
def test_layers_that_do_not_meet_add_their_log_z(rng):
    p = problem(rng, m=5)
    joined, below = above_a_layer(rng, p)
    got, want = (jax.jit(class_ep)(tg, p.W, p.b, p.label, SWEEPS) for tg in (joined, prior(p)))
    assert_allclose(got, want + below, rtol=1e-8)


BUILDS = {
    "independent": (Diagonal, lambda d, A: ()),
    "lateral": (LowRank, lambda d, A: (A[:1],)),
    "layers": (lambda d, A: Layered([jnp.diag(d[:2]), jnp.diag(d[2:])], [A]), lambda d, A: (A,)),
}


@pytest.mark.slow  # the same of whole models: tests/training/test_class_methods.py, test_deep_methods.py
@pytest.mark.parametrize("kind", BUILDS)
def test_gradient(rng, kind):
    p = problem(rng, rows=3, m=4)
    build, more = BUILDS[kind]
    A = jnp.asarray(0.3 * rng.standard_normal((2, 2 if kind == "layers" else 4)))
    W = p.W[:, 2:] if kind == "layers" else p.W  # z sees the upper layer

    def value(leaves):
        d, shift, W, b, *rest = leaves
        tg = TruncatedGaussian(build(d, *rest), shift)
        return class_ep(tg, W, b, p.label, SWEEPS).sum()

    assert_gradient(value, [p.d, p.shift, W, p.b, *more(p.d, A)], rng)
