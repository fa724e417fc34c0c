"""Structure, parameters, data and precision matrices of graphs, against matrices written out by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tggm import Censored, Graph
from tggm.graph._conditional import Terms, integrate_out, matrix, read, structured_precision
from tggm.graph._structure import Block, Coupling, Edge, Structure, residual_precision
from tggm.precision import Dense, Diagonal, Layered, LowRank

BLOCKS = (Block("x", 2, "input"), Block("h", 3, "latent"), Block("y", 1, "observed"))
CHAIN = Structure((*BLOCKS, Block("z", 4, "observed")), (Edge("x", "h"), Edge("h", "y"), Edge("y", "z")))
DATA = Structure((*BLOCKS, Block("c", 2, "inequality")))
X = np.ones((2, 2))


def test_unobserved_leaves_without_couplings_are_removed_repeatedly():
    for unobserved, kept in (("", "hyz"), ("z", "hy"), ("y", "hyz"), ("hyz", "h")):
        assert CHAIN.without_leaves(tuple(unobserved)) == tuple(kept)
    coupled = CHAIN.with_tie(Coupling("y", "z"))
    assert not coupled.is_leaf("z")
    assert coupled.without_leaves(("y", "z")) == ("h", "y", "z")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"y": [1.0]}, "`data` must have every input; 'x' is missing"),
        ({"x": X, "z": [1.0, 2.0]}, "there is no block 'z'"),
        ({"x": X, "h": np.ones((2, 3))}, r"`data\['h'\]`: the block is latent"),
        ({"x": X, "y": [1.0]}, r"`data\['y'\]` has 1 rows; other blocks have 2"),
        ({"x": np.full((2, 2), np.nan), "y": [1.0, 2.0]}, r"`data\['x'\]` must be finite"),
        ({"x": X, "y": [np.inf, 1.0]}, r"`data\['y'\]` must be finite; got inf. Use NaN for missing values"),
        ({"x": X, "y": np.ones((2, 2))}, r"`data\['y'\]` must have shape \(rows, 1\); got \(2, 2\)"),
        ({"x": X, "c": np.full((2, 2), 0.5)}, r"`data\['c'\]` must be signs"),
        ({"x": X, "c": Censored(np.ones((2, 2)), np.ones((2, 2)))}, "only observed blocks can be censored"),
    ],
)
def test_bad_data_raise(data, message):
    with pytest.raises(ValueError, match=message):
        read(DATA, data)


@pytest.mark.parametrize(
    ("side", "message"),
    [
        (["none", "up"], "`side`: sides are 'left', 'none' or 'right'; got 'up'"),
        ([1], "`side`: sides must be -1 .*; got 1 for 2 targets"),
    ],
)
def test_bad_sides_raise(side, message):
    with pytest.raises(ValueError, match=message):
        Censored([1.0, 2.0], side)


def test_patterns_list_the_kind_of_data_of_each_block():
    assert read(DATA, {"x": X, "y": [1.0, 2.0]})[1] == (("y", "known"),)
    assert read(DATA, {"x": X, "y": [1.0, np.nan]})[1] == (("y", "missing"),)
    assert read(DATA, {"x": X, "y": Censored([1.0, np.nan], [1, 0])})[1] == (("y", "sided"),)
    assert read(DATA, {"x": X, "y": Censored([1.0, 2.0], [0, 0])})[1] == (("y", "known"),)
    evidence, pattern, rows = read(DATA, {"x": X, "c": [[1, -1], [0, np.nan]]})
    assert (pattern, rows) == ((("c", "sided"),), 2)
    assert_array_equal(evidence.value["c"], [[0, 0], [np.nan, np.nan]])  # a sign is a limit at zero
    assert_array_equal(evidence.side["c"], [[1, -1], [0, 0]])


def terms(graph, free):
    graph = graph.initial(3)
    structure, params = graph.structure, jax.tree.map(jnp.asarray, graph.parameters)
    kept = structure.variables
    K = jax.jit(lambda params: residual_precision(structure, params, kept))(params)
    return Terms(structure, params, K, kept, free)


def by_hand(t):
    """Return A_FᵀKA_F from the whole A = I − W and the whole K."""
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
LAYERS = Graph().latent("a", 2).latent("b", 3).latent("c", 2).connect("a", "b").connect("b", "c")
CASES = {
    "unconnected": (Graph().latent("a", 2).latent("b", 3), ("a", "b"), Diagonal),
    "known children": (WIDE, ("h",), LowRank),
    "many known children": (Graph().latent("h", 2).observed("y", 3).connect("h", "y"), ("h",), Dense),
    "child coupled": (WIDE.latent("g", 6).connect("g", "y").couple("y", "g"), ("h", "g"), Layered),
    "known end": (Graph().latent("h", 4).observed("v").couple("v", "h"), ("h",), Diagonal),
    "two unknown ends": (Graph().latent("a", 2).latent("b", 2).couple("a", "b"), ("a", "b"), Layered),
    "chain": (LAYERS, ("a", "b", "c"), Layered),
    "skip": (LAYERS.connect("a", "c"), ("a", "b", "c"), Dense),
    "coupled ends": (LAYERS.couple("a", "c"), ("a", "b", "c"), Dense),
    "common child": (LAYERS.observed("y").connect("a", "y").connect("c", "y"), ("a", "b", "c"), Dense),
}


@pytest.mark.parametrize("case", CASES)
def test_structured_precisions_equal_the_matrix(case):
    graph, free, kind = CASES[case]
    t = terms(graph, free)

    def both(numbers):
        params, K = numbers
        made = t._replace(params=params, K=K)
        P = structured_precision(made)
        assert isinstance(P, kind)  # while tracing: the kind does not depend on the parameters
        return P.dense(), matrix(made)

    for found in jax.jit(both)((t.params, t.K)):
        assert_allclose(found, by_hand(t), atol=1e-12)


def test_integrating_out_equals_gaussian_algebra(rng):
    B = rng.standard_normal((5, 5))
    P, gamma = B @ B.T + np.eye(5), rng.standard_normal(5)
    kept = np.array([True, False, True, False, True])
    part = partial(jax.jit, static_argnums=2)(lambda P, gamma, kept: integrate_out(P, gamma, np.array(kept)))
    smaller, shift, log_z = map(np.asarray, part(P, gamma, tuple(kept.tolist())))
    cov, mean = np.linalg.inv(P), np.linalg.solve(P, gamma)
    assert_allclose(np.linalg.inv(smaller), cov[np.ix_(kept, kept)], rtol=1e-10)
    assert_allclose(np.linalg.solve(smaller, shift), mean[kept], rtol=1e-10)

    def whole(P, gamma):
        """Return the log of the integral over all variables."""
        log_det = np.linalg.slogdet(np.asarray(P) / (2 * np.pi))[1]
        return 0.5 * gamma @ np.linalg.solve(P, gamma) - 0.5 * log_det

    assert_allclose(log_z + whole(smaller, shift), whole(P, gamma), rtol=1e-12)
    nothing, _, everything = part(P, gamma, (False,) * 5)
    assert nothing is None
    assert_allclose(everything, whole(P, gamma), rtol=1e-12)
