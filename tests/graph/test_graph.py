"""Graphs: errors, text, and likelihoods, moments and samples against sums over grids written out by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr
from scipy.stats import norm, skewnorm

from tggm import Censored, Graph

X = np.array([[0.5], [-1.0], [0.2]])
BASE = Graph().input("x", 2).latent("h", 3).observed("y").connect("x", "h").connect("h", "y")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BASE.latent("h"), "Block 'h' already exists"),
        (lambda: Graph().latent(3), "The name of a block must be a nonempty string such as 'h'; got 3"),
        (lambda: BASE.latent("g", 0), "Block 'g' must have at least one variable"),
        (lambda: BASE.latent("g", noise=-1.0), "Block 'g': `noise` is a variance and must be positive"),
        (lambda: BASE.connect("h", "x"), "Edge 'h -> x': 'x' is an input"),
        (lambda: BASE.connect("y", "h"), "Edge 'y -> h' closes a directed cycle"),
        (lambda: BASE.connect("h", "h"), "Edge 'h -> h' closes a directed cycle"),
        (lambda: BASE.connect("x", "h"), "Edge 'x -> h' already exists"),
        (lambda: BASE.connect("x", "z"), "'x -> z': there is no block 'z'; blocks are 'x', 'h', 'y'"),
        (lambda: BASE.connect("x", "y", np.ones((2, 1))), r"Edge 'x -> y': .* \(1, 2\) \(child by parent"),
        (lambda: BASE.couple("x", "h"), "Coupling 'x -- h': 'x' is an input"),
        (lambda: BASE.couple("h", "y").couple("y", "h"), "Coupling 'y -- h' already exists"),
        (lambda: BASE.couple("h", "h"), "Coupling 'h -- h' ties a block to itself"),
        (lambda: BASE.parameters, "Edge 'x -> h' has no weights"),
        (lambda: BASE.hold("x"), "`name` must be a block that is not an input; got 'x'"),
    ],
)  # fmt: skip
def test_inconsistent_graphs_raise(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_too_strong_couplings_raise_with_the_largest_possible_factor():
    J = np.full((3, 1), 0.7)  # norm 0.7 √3 = 1.21 in units of noise 1
    with pytest.raises(ValueError, match=r"norm is 1.21, .* below 1. Multiply its weights by 0.82"):
        BASE.couple("h", "y", J)
    graph = BASE.couple("h", "y", 0.8 * J).initial()
    P = np.asarray(graph.prior({"x": np.zeros((1, 2))}).precision.dense())
    assert np.linalg.eigvalsh(P)[0] > 0
    A = np.eye(4)  # the coupling is −J between the residuals r = A v
    A[3, :3] = -graph.parameters["weights"]["h -> y"][0]
    K = np.linalg.inv(A).T @ P @ np.linalg.inv(A)
    assert_allclose(K, np.block([[np.eye(3), -0.8 * J], [-0.8 * J.T, np.eye(1)]]), atol=1e-12)
    one = Graph().observed("v").latent("a").latent("b").couple("v", "a", [[0.9]])
    with pytest.raises(ValueError, match="Coupling 'v -- a' makes"):  # both share the precision of v
        one.couple("v", "b", [[0.1]])


def test_any_weights_give_a_positive_definite_precision(rng):
    for seed in range(20):
        graph = Graph().input("x").latent("a", 3).latent("b", 2).free("c", 2).observed("y", 2)
        for parent, child in (("x", "a"), ("a", "b"), ("x", "b"), ("b", "c"), ("a", "y"), ("c", "y")):
            shape = graph.structure.size(child), graph.structure.size(parent)
            graph = graph.connect(parent, child, 5 * rng.standard_normal(shape))
        drawn = graph.couple("a", "c").couple("a", "b").initial(seed)
        params = drawn.parameters
        big = {name: 30 * np.asarray(U) for name, U in params["coupling"].items()}
        P = drawn.with_parameters({**params, "coupling": big}).prior({"x": [[1.0]]}).precision.dense()
        assert np.isfinite(np.linalg.cholesky(np.asarray(P))).all()  # or it raises


def test_held_blocks_are_not_trained():
    held = BASE.observed("z", 2, bias=3.0).hold("z").hold("h")
    assert {("bias", "z"), ("log_noise", "z"), ("bias", "h"), ("log_noise", "h")} <= held.fixed
    assert_allclose(held.given["bias"]["z"], [3.0, 3.0])
    assert_allclose(held.given["bias"]["h"], np.zeros(3))


def test_text_lists_blocks_and_ties():
    lines = str(BASE.couple("h", "y")).splitlines()
    assert lines == [
        "Graph of 3 blocks, 3 latent variables; nonlinear", "  x: 2, input", "  h: 3, latent ≥ 0",
        "  y: 1, observed", "  x -> h", "  h -> y", "  h -- y",
    ]  # fmt: skip
    assert str(Graph().observed("y")).startswith("Graph of 1 blocks, 0 latent variables; linear")


def test_the_example_of_the_paper_is_skew_normal():
    graph = Graph().latent("h").observed("y", noise=0.5).connect("h", "y", [[0.5]])
    y = np.linspace(-6, 8, 57)
    found = graph.log_likelihood({"y": y})
    # y = |u|/2 + v/√2 with u, v standard normal: scale √(1/4 + 1/2), slant (1/2)/√(1/2)
    want = skewnorm.logpdf(y, 0.5 * np.sqrt(2), 0, np.sqrt(0.75))
    assert_allclose(found.value, want, rtol=0, atol=1e-10)
    assert np.all(np.abs(found.value - want) <= found.error)


def shallow():
    graph = Graph().input("x").latent("h", 2, noise=[0.8, 1.3], bias=[0.2, -0.4])
    graph = graph.observed("y", 2, noise=[0.5, 0.3], bias=[0.1, -0.2])
    return graph.connect("x", "h", [[1.0], [-0.7]]).connect("h", "y", [[0.9, -0.6], [0.4, 0.8]])


def grid(step=0.02, end=9.0):
    line = np.arange(step / 2, end, step)
    return np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)


def prior_weights(h, x):
    a = np.array([[1.0], [-0.7]]) @ x + [0.2, -0.4]
    w = np.exp(-0.5 * ((h - a) ** 2 / [0.8, 1.3]).sum(1))
    return w / w.sum()


def output_mean(h):
    return h @ np.array([[0.9, -0.6], [0.4, 0.8]]).T + [0.1, -0.2]


def test_likelihood_of_exact_missing_and_censored_values():
    # exact and exact; missing and at most; at least and exact
    value, side = np.array([[0.7, -0.1], [np.nan, 0.4], [0.3, 0.9]]), np.array([[0, 0], [0, -1], [1, 0]])
    found = shallow().log_likelihood({"x": X, "y": Censored(value, side)}, engine="ep")
    h, sigma = grid(), np.sqrt([0.5, 0.3])
    mean = output_mean(h)
    likelihood = [
        norm.pdf(0.7, mean[:, 0], sigma[0]) * norm.pdf(-0.1, mean[:, 1], sigma[1]),
        norm.cdf(0.4, mean[:, 1], sigma[1]),
        norm.sf(0.3, mean[:, 0], sigma[0]) * norm.pdf(0.9, mean[:, 1], sigma[1]),
    ]
    want = [np.log(prior_weights(h, x) @ one) for x, one in zip(X, likelihood, strict=True)]
    away = np.abs(found.value - want)
    assert np.all(away < 2e-4 + found.error)  # of the midpoint rule, and of EP
    assert away.max() < 1e-2
    assert found.error.max() < 0.1  # ten times EP's estimate


def test_moments_and_samples_of_missing_and_censored_outputs():
    value, side = np.array([[np.nan, 0.4]]), np.array([[0, 1]])
    found = shallow().moments({"x": X[:1], "y": Censored(value, side)}, engine="orthant", n_points=4000)
    h, sigma = grid(), np.sqrt([0.5, 0.3])
    mean = output_mean(h)
    w = prior_weights(h, X[0]) * norm.sf(0.4, mean[:, 1], sigma[1])
    w /= w.sum()
    assert_allclose(found["h"][0][0], w @ h, atol=1e-3)
    alpha = (mean[:, 1] - 0.4) / sigma[1]
    above = mean[:, 1] + sigma[1] * np.exp(norm.logpdf(alpha) - log_ndtr(alpha))
    assert_allclose(found["y"][0][0], [w @ mean[:, 0], w @ above], atol=1e-3)
    assert_allclose(found["y"][1][0, 0], 0.5 + w @ (mean[:, 0] - w @ mean[:, 0]) ** 2, atol=1e-3)
    draws = shallow().sample({"x": X[:1], "y": Censored(value, side)}, n=12_800, key=1)
    assert draws["h"].min() >= 0
    for name in ("y", "h"):
        each = draws[name][:, 0].reshape(-1, 64, 2).mean(0)
        z = (each.mean(0) - found[name][0][0]) / (each.std(0, ddof=1) / 8)
        assert np.abs(z).max() < 4.5


def deep():
    graph = Graph().input("x").latent("a", bias=0.3).latent("b", bias=-0.2).observed("y", noise=0.4, bias=0.1)
    return graph.connect("x", "a", [[1.2]]).connect("a", "b", [[0.8]]).connect("b", "y", [[1.5]])


def test_a_deep_graph_is_normalised_over_all_layers_at_once():
    y = np.array([0.5, 1.7, -0.3])
    found = deep().log_likelihood({"x": X, "y": y})
    h = grid()
    for row in range(3):
        w = np.exp(-0.5 * (h[:, 0] - 1.2 * X[row, 0] - 0.3) ** 2 - 0.5 * (h[:, 1] - 0.8 * h[:, 0] + 0.2) ** 2)
        want = np.log((w / w.sum()) @ norm.pdf(y[row], 1.5 * h[:, 1] + 0.1, np.sqrt(0.4)))
        assert_allclose(found.value[row], want, atol=1e-4)
    ep = deep().log_likelihood({"x": X, "y": y}, engine="ep")
    assert np.all(np.abs(ep.value - found.value) < 3 * ep.error)


def test_coupled_graph_without_inputs():
    v = np.array([-1.0, 0.0, 2.0])
    graph = Graph().observed("v", 1, noise=0.7, bias=0.2).latent("h", 2, noise=1.0, bias=[0.5, -0.3])
    found = graph.couple("v", "h", [[0.6, -0.4]]).log_likelihood({"v": v}, engine="ep")
    h = grid(step=0.04)
    J = np.array([0.6, -0.4])

    def energy(value):
        r = h - [0.5, -0.3]
        return (value - 0.2) ** 2 / 0.7 / 2 + 0.5 * (r**2).sum(1) - (value - 0.2) * (r @ J)

    line = np.linspace(-12, 14, 261)
    total = sum(np.exp(-energy(value)).sum() for value in line) * (line[1] - line[0])
    want = [np.log(np.exp(-energy(value)).sum() / total) for value in v]
    assert_allclose(found.value, want, atol=1e-3)


def test_likelihoods_of_signs_are_probabilities():
    graph = Graph().input("x").latent("h", bias=0.1).inequality("c", bias=-0.5)
    graph = graph.connect("x", "h", [[1.0]]).connect("h", "c", [[0.9]])
    up, down = (graph.log_likelihood({"x": X, "c": np.full(3, s)}).value for s in (1.0, -1.0))
    assert_allclose(np.exp(up) + np.exp(down), 1, atol=1e-9)
    h = grid()[:, 0]
    w = np.exp(-0.5 * (h - X[0, 0] - 0.1) ** 2)
    assert_allclose(np.exp(up[0]), (w / w.sum()) @ norm.cdf(0.9 * h - 0.5), atol=1e-5)
    unknown = graph.log_likelihood({"x": X, "c": np.full(3, np.nan)}).value
    assert_allclose(unknown, 0, atol=1e-12)


def test_unobserved_leaves_do_not_change_the_likelihood():
    graph = deep().observed("z", 2).connect("y", "z", [[1.0], [2.0]])
    graph = graph.free("f").connect("z", "f", [[1.0, 1.0]])
    data = {"x": X, "y": np.array([0.5, 1.7, -0.3])}
    assert_allclose(graph.log_likelihood(data).value, deep().log_likelihood(data).value, rtol=1e-9)


def test_free_variables_are_integrated_out():
    """Use y = u + 0.4 w + noise with u, w normal: a Gaussian, in a structure that keeps free variables."""
    graph = Graph().free("u", bias=0.3).free("w", noise=2.0).observed("y", noise=0.5)
    graph = graph.connect("u", "y", [[1.0]]).connect("w", "y", [[0.4]]).connect("u", "w", [[0.7]])
    # w = 0.7 u + ..., so that y = (1 + 0.28) u + 0.4 · noise of w + noise of y
    want = norm.logpdf(1.1, 1.28 * 0.3, np.sqrt(1.28**2 + 0.16 * 2.0 + 0.5))
    assert_allclose(graph.log_likelihood({"y": [1.1]}).value, [want], rtol=1e-10)


def test_known_values_are_returned_unchanged_and_posteriors_need_unknown_ones():
    graph = Graph().input("x").observed("y", noise=0.5).connect("x", "y", [[2.0]])
    data = {"x": X, "y": [1.0, 2.0, 3.0]}
    mean, var = graph.moments(data)["y"]
    assert_allclose(mean[:, 0], data["y"])
    assert_allclose(var, 0)
    assert_allclose(graph.sample(data, n=2)["y"][..., 0], [data["y"]] * 2)
    with pytest.raises(ValueError, match="no unknown variables given these data"):
        graph.posterior(data)
    with pytest.raises(ValueError, match="rows have different known variables"):
        shallow().posterior({"x": X[:2], "y": [[0.1, np.nan], [0.1, 0.2]]})
