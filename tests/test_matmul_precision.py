"""Engines multiply matrices in full precision: read from traced programs, without a GPU."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tggm import inference as engines
from tggm.gaussian import TruncatedGaussian
from tggm.matmul_precision import full_precision
from tggm.precision import Dense, Layered, LowRank
from tggm.special.probit import expand_probit

M, N, ROWS = 6, 2, 5
FULL = (lax.Precision.HIGHEST, lax.Precision.HIGHEST)


def numbers(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


W, B, LABEL = numbers(N, 3), np.zeros(N, np.float32), np.zeros(ROWS, np.int32)
BLOCK, EYE = numbers(3, 3), np.eye(3, dtype=np.float32)
LOW_RANK = LowRank(np.ones(M, np.float32), numbers(N, M))
STRUCTURES = [LOW_RANK, Layered([EYE + BLOCK.T @ BLOCK, EYE], [-BLOCK]), Dense(LOW_RANK.dense())]
VALUES = {
    "mean_field": lambda tg: engines.mean_field(tg).mean,
    "ep": lambda tg: engines.ep(tg).mean,
    "gibbs": lambda tg: engines.gibbs(tg, jax.random.key(0), 4, n_chains=2).mean,
    "linear_moments": lambda tg: engines.linear_moments(tg, W, engine="mean_field"),
}
GRADIENTS = {
    "ep": partial(engines.log_partition, engine="ep"),
    "mean_field": partial(engines.log_partition, engine="mean_field"),
    "linear_mean": lambda tg: engines.linear_mean(tg, W),
    "class_ep": lambda tg: engines.class_ep(tg, W, B, LABEL, jnp.int32(9)),
    "class_mean_field": lambda tg: engines.class_mean_field(
        tg, W, B, partial(expand_probit, label=LABEL, n_nodes=12, n_steps=3), start=None, steps=jnp.int32(9),
        solver="newton",
    )[0],
}  # fmt: skip


def precisions(function, *args):
    """Return the precision of each product of float32 matrices in a traced program, at any depth."""
    found, todo = [], [jax.make_jaxpr(function)(*args)]
    while todo:
        for eqn in todo.pop().eqns:
            kinds = {getattr(v.aval, "dtype", None) for v in eqn.invars}
            if eqn.primitive.name == "dot_general" and np.dtype(np.float32) in kinds:
                found.append(eqn.params["precision"])
            inner = jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda p: hasattr(p, "eqns"))
            todo += [jaxpr for jaxpr in inner if hasattr(jaxpr, "eqns")]
    return found


def test_decorator_changes_products_in_loops_and_gradients():
    def looped(a):
        return lax.fori_loop(0, 3, lambda _, b: jax.jit(jnp.matmul)(b, a), a).sum()

    assert set(precisions(looped, EYE)) == {None}
    assert set(precisions(jax.grad(full_precision(looped)), EYE)) == {FULL}


@pytest.mark.parametrize("name", VALUES)
def test_engines_have_full_precision(name):
    for P in STRUCTURES if name in ("ep", "mean_field") else STRUCTURES[:1]:
        tg = TruncatedGaussian(P, numbers(ROWS, M))
        assert set(precisions(VALUES[name], tg)) == {FULL}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_have_full_precision(name):
    def total(shift):
        return GRADIENTS[name](TruncatedGaussian(LOW_RANK, shift)).sum()

    assert set(precisions(jax.grad(total), numbers(ROWS, M))) == {FULL}
