"""Every structure of the precision is A_FᵀKA_F, written out by hand; integrals against Gaussian algebra."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm import Graph
from tggm.models.graph.assembly import Terms, matrix, structured, without
from tggm.models.graph.parameters import residual_precision
from tggm.precision import Dense, Diagonal, Layered, LowRank


def terms(graph, free):
    graph = graph.initial(3)
    structure, params = graph.structure, jax.tree.map(jnp.asarray, graph.parameters)
    kept = structure.variables
    K = jax.jit(lambda params: residual_precision(structure, params, kept))(params)
    return Terms(structure, params, K, kept, free)


def by_hand(t):
    """A_FᵀKA_F from the whole A = I − W and the whole K."""
    ends = np.cumsum([0, *(t.structure.size(name) for name in t.kept)])
    at = {name: slice(a, b) for name, a, b in zip(t.kept, ends[:-1], ends[1:], strict=True)}
    A, K = np.eye(ends[-1]), np.zeros((ends[-1], ends[-1]))
    for edge in t.structure.edges:
        A[at[edge.child], at[edge.parent]] = -t.params["weights"][edge.name]
    for name, diagonal in t.K.own.items():
        K[at[name], at[name]] += np.diag(diagonal)
    for (a, b), block in t.K.coupled.items():
        K[at[a], at[b]] += block
    columns = np.concatenate([np.arange(ends[-1])[at[name]] for name in t.free])
    return A[:, columns].T @ K @ A[:, columns]


WIDE = Graph().latent("h", 6).observed("y", 2).connect("h", "y")
CHAIN = Graph().latent("a", 2).latent("b", 3).latent("c", 2).connect("a", "b").connect("b", "c")
CASES = {
    "alone": (Graph().latent("a", 2).latent("b", 3), ("a", "b"), Diagonal),
    "known children": (WIDE, ("h",), LowRank),
    "lateral": (WIDE.couple("h"), ("h",), LowRank),
    "many known children": (Graph().latent("h", 2).observed("y", 3).connect("h", "y"), ("h",), Dense),
    "lateral at the child": (WIDE.couple("y"), ("h",), Dense),
    "child coupled": (WIDE.latent("g", 6).connect("g", "y").couple("y", "g"), ("h", "g"), Layered),
    "known end": (Graph().latent("h", 4).observed("v").couple("v", "h"), ("h",), Diagonal),
    "two unknown ends": (Graph().latent("a", 2).latent("b", 2).couple("a", "b"), ("a", "b"), Layered),
    "chain": (CHAIN, ("a", "b", "c"), Layered),
    "skip": (CHAIN.connect("a", "c"), ("a", "b", "c"), Dense),
    "coupled ends": (CHAIN.couple("a", "c"), ("a", "b", "c"), Dense),
    "common child": (CHAIN.observed("y").connect("a", "y").connect("c", "y"), ("a", "b", "c"), Dense),
}


@pytest.mark.parametrize("case", CASES)
def test_structures_are_the_matrix(case):
    graph, free, kind = CASES[case]
    t = terms(graph, free)

    def both(numbers):
        """The structure's kind is known without its numbers."""
        params, K = numbers
        made = t._replace(params=params, K=K)
        P = structured(made)
        assert isinstance(P, kind)
        return P.dense(), matrix(made)

    for found in jax.jit(both)((t.params, t.K)):
        assert_allclose(found, by_hand(t), atol=1e-12)


def test_integrating_out(rng):
    B = rng.standard_normal((5, 5))
    P, gamma = B @ B.T + np.eye(5), rng.standard_normal(5)
    stays = np.array([True, False, True, False, True])
    part = partial(jax.jit, static_argnums=2)(lambda P, gamma, stays: without(P, gamma, np.array(stays)))
    smaller, shift, log_z = map(np.asarray, part(P, gamma, tuple(stays.tolist())))
    cov, mean = np.linalg.inv(P), np.linalg.solve(P, gamma)
    assert_allclose(np.linalg.inv(smaller), cov[np.ix_(stays, stays)], rtol=1e-10)
    assert_allclose(np.linalg.solve(smaller, shift), mean[stays], rtol=1e-10)

    def whole(P, gamma):
        """Log of the integral over everything."""
        log_det = np.linalg.slogdet(np.asarray(P) / (2 * np.pi))[1]
        return 0.5 * gamma @ np.linalg.solve(P, gamma) - 0.5 * log_det

    assert_allclose(log_z + whole(smaller, shift), whole(P, gamma), rtol=1e-12)
    nothing, _, everything = part(P, gamma, (False,) * 5)
    assert nothing is None
    assert_allclose(everything, whole(P, gamma), rtol=1e-12)
