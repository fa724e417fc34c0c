"""What the builder refuses, with the edge or block at fault in the message; and what it prints."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm import Graph
from tggm.precision import Diagonal, Layered, LowRank

BASE = Graph().input("x", 2).latent("h", 3).observed("y").connect("x", "h").connect("h", "y")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BASE.latent("h"), "Block 'h' is already there"),
        (lambda: Graph().latent("", 2), "The name of a block must be a word, as 'h'; got ''"),
        (lambda: Graph().latent(3), "The name of a block must be a word, as 'h'; got 3"),
        (lambda: BASE.latent("g", 0), "Block 'g' must have at least one variable"),
        (lambda: BASE.latent("g", noise=-1.0), "Block 'g': `noise` is a variance and must be positive"),
        (lambda: BASE.connect("h", "x"), "Edge 'h -> x': 'x' is an input"),
        (lambda: BASE.connect("y", "h"), "Edge 'y -> h' closes a directed cycle"),
        (lambda: BASE.connect("h", "h"), "Edge 'h -> h' closes a directed cycle"),
        (lambda: BASE.connect("x", "h"), "Edge 'x -> h' is already there"),
        (lambda: BASE.connect("x", "z"), "'x -> z': there is no block 'z'; blocks are 'x', 'h', 'y'"),
        (lambda: BASE.connect("x", "y", np.ones((2, 1))), r"Edge 'x -> y': weights .* shape \(1, 2\)"),
        (lambda: BASE.couple("x", "h"), "Coupling 'x -- h': 'x' is an input"),
        (lambda: BASE.couple("h", "y", np.full((3, 1), 0.7)), "Coupling 'h -- y' makes .* indefinite"),
        (lambda: BASE.parameters, "Edge 'x -> h' has no weights"),
        (lambda: BASE.hold("x"), "`name` must be a block that is no input; got 'x'"),
    ],
)  # fmt: skip
def test_inconsistent_graphs_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_refusal_says_what_would_do():
    J = np.full((3, 1), 0.7)  # norm 0.7 √3 = 1.21 in units of noise 1
    with pytest.raises(
        ValueError, match=r"norm is 1.21, and it must be below 1. Multiply its weights by 0.82"
    ):
        BASE.couple("h", "y", J)
    graph = BASE.couple("h", "y", 0.8 * J).initial()
    P = np.asarray(graph.prior({"x": np.zeros((1, 2))}).precision.dense())
    assert np.linalg.eigvalsh(P)[0] > 0
    # with residuals r = A v the coupling is −J between h and y before A mixes them: undo A
    A = np.eye(4)
    A[3, :3] = -graph.parameters["weights"]["h -> y"][0]
    K = np.linalg.inv(A).T @ P @ np.linalg.inv(A)
    assert_allclose(K, np.block([[np.eye(3), -0.8 * J], [-0.8 * J.T, np.eye(1)]]), atol=1e-12)


def test_second_coupling_takes_its_share_of_the_first():
    graph = Graph().observed("v").latent("a").latent("b").couple("v", "a", [[0.9]])
    with pytest.raises(ValueError, match="Coupling 'v -- a' makes"):
        graph.couple("v", "b", [[0.1]])


def test_any_weights_give_a_positive_definite_precision(rng):
    for seed in range(20):
        graph = Graph().input("x").latent("a", 3).latent("b", 2).free("c", 2).observed("y", 2)
        for parent, child in (("x", "a"), ("a", "b"), ("x", "b"), ("b", "c"), ("a", "y"), ("c", "y")):
            shape = graph.structure.size(child), graph.structure.size(parent)
            graph = graph.connect(parent, child, 5 * rng.standard_normal(shape))
        drawn = graph.couple("a", "c").couple("a", "b").couple("b", rank=2).initial(seed)
        params = drawn.parameters
        big = {name: 30 * np.asarray(U) for name, U in params["coupling"].items()}
        P = drawn.with_parameters({**params, "coupling": big}).prior({"x": [[1.0]]}).precision.dense()
        assert np.isfinite(np.linalg.cholesky(np.asarray(P))).all()  # or it raises


def test_structures():
    x, y = np.zeros((1, 2)), np.zeros((1, 1))
    graph = BASE.initial()
    assert isinstance(graph.prior({"x": x}).precision, Diagonal)
    assert isinstance(graph.posterior({"x": x, "y": y}).precision, LowRank)
    deep = Graph().input("x", 2).latent("a", 3).latent("b", 3).observed("y")
    deep = deep.connect("x", "a").connect("a", "b").connect("b", "y").initial()
    tg = deep.posterior({"x": x, "y": y})
    assert isinstance(tg.precision, Layered)
    W = deep.parameters["weights"]
    top = np.eye(3) + W["a -> b"].T @ W["a -> b"]
    low = np.eye(3) + W["b -> y"].T @ W["b -> y"] / 1.0
    want = np.block([[top, -W["a -> b"].T], [-W["a -> b"], low]])
    assert_allclose(tg.precision.dense(), want, atol=1e-12)


def test_what_is_held_is_left_alone():
    held = BASE.observed("z", 2, bias=3.0).hold("z").hold("h")
    assert {("bias", "z"), ("log_noise", "z"), ("bias", "h"), ("log_noise", "h")} <= held.fixed
    assert_allclose(held.given["bias"]["z"], [3.0, 3.0])
    assert_allclose(held.given["bias"]["h"], np.zeros(3))
