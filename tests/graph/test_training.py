"""Gradients of graph likelihoods against finite differences, and training against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.cases import few
from tggm import Censored, Graph, fit_graph
from tggm.graph._conditional import read
from tggm.graph.graph import GraphLikelihood
from tggm.training.rows import hold_out


@pytest.mark.parametrize("kind", few(["censored", "missing", "coupled"], "missing"))
def test_gradient_is_that_of_the_likelihood(kind, rng):
    """Compare with differences: the gradient with fixed sites is the total one, as log Z is stationary."""
    if kind == "censored":
        graph = Graph().input("x").latent("h", 2).observed("y", noise=0.3).connect("x", "h").connect("h", "y")
        data = {"x": [[0.5], [-1.0], [0.3]], "y": Censored([0.4, 1.0, np.nan], [0, 1, 0])}
    elif kind == "missing":  # low rank, with rows of zeros whose roots have no derivative
        graph = Graph().input("x").latent("h", 4).observed("y", 2, noise=0.3)
        graph = graph.connect("x", "h").connect("h", "y")
        data = {"x": [[0.5], [-1.0]], "y": [[0.4, np.nan], [np.nan, np.nan]]}
    else:
        graph = Graph().observed("v", 2, noise=0.5).latent("h", 2).couple("v", "h")
        data = {"v": [[0.5, 0.1], [-1.0, np.nan]]}
    graph = graph.initial(1)
    evidence, pattern, _ = read(graph.structure, data)
    objective = GraphLikelihood(graph.structure, pattern)
    batch, params = jax.tree.map(jnp.asarray, evidence), jax.tree.map(jnp.asarray, graph.parameters)
    both = jax.jit(jax.value_and_grad(lambda p: objective(p, batch, None).sum()))
    leaves, tree = jax.tree.flatten(params)
    direction = jax.tree.unflatten(tree, [jnp.asarray(rng.standard_normal(a.shape)) for a in leaves])

    def along(t):
        return both(jax.tree.map(lambda a, d: a + t * d, params, direction))[0]

    step = 1e-4
    slope = (along(step) - along(-step)) / (2 * step)
    grad = both(params)[1]
    dot = sum(float((g * d).sum()) for g, d in zip(*map(jax.tree.leaves, (grad, direction)), strict=True))
    assert_allclose(dot, slope, rtol=1e-5, atol=1e-6)  # step² and EP's tolerance over the step


def test_a_linear_graph_learns_least_squares(rng):
    x = rng.standard_normal((200, 2))
    y = x @ [1.0, -0.5] + 0.3 + 0.2 * rng.standard_normal(200)
    graph = Graph().input("x", 2).observed("y").connect("x", "y")
    settings = {"max_epochs": 600, "batch_size": 200, "learning_rate": 0.05, "weight_decay": 0.0}
    fitted = fit_graph(graph, {"x": x, "y": y}, **settings)
    design = np.column_stack([x, np.ones(200)])
    want, residual, *_ = np.linalg.lstsq(design, y, rcond=None)
    params = fitted.parameters
    assert_allclose(np.append(params["weights"]["x -> y"], params["bias"]["y"]), want, atol=2e-3)
    assert_allclose(np.exp(params["log_noise"]["y"]), residual / 200, rtol=2e-2)


def test_fixed_parameters_do_not_change(rng):
    graph = Graph().input("x").latent("h").observed("y", noise=0.1)
    graph = graph.connect("x", "h", [[2.0]], fixed=True).connect("h", "y")
    x = rng.standard_normal((50, 1))
    fitted = fit_graph(graph, {"x": x, "y": np.abs(x[:, 0])}, max_epochs=3)
    assert_allclose(fitted.parameters["weights"]["x -> h"], [[2.0]])
    assert_allclose(fitted.parameters["log_noise"]["y"], np.log(0.1), rtol=1e-6)
    assert len(fitted.history["train"]) == 3


def test_the_parameters_with_the_best_held_out_score_are_kept(rng):
    """Use three training rows and a learning rate that overshoots, so that the last epoch is not the best."""
    x = rng.standard_normal((40, 2))
    y = x @ [1.0, -0.5] + 0.3 * rng.standard_normal(40)
    settings = {"validation_fraction": 0.9, "learning_rate": 0.5, "weight_decay": 0.0, "dtype": "float64"}
    graph = Graph().input("x", 2).observed("y").connect("x", "y")
    fitted = fit_graph(graph, {"x": x, "y": y}, max_epochs=60, random_state=2, **settings)
    scores, seeds = fitted.history["held_out"], np.random.default_rng(2)
    assert 0 < np.argmax(scores) < 59
    seeds.integers(2**31)  # of the initial parameters
    _, held = hold_out(seeds, np.arange(40), 0.9)
    assert_allclose(fitted.log_likelihood({"x": x[held], "y": y[held]}).value.mean(), scores.max(), rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_epochs": 0}, "`max_epochs` must be an integer of at least 1; got 0"),
        ({"batch_size": 0}, "`batch_size` must be an integer of at least 1; got 0"),
        ({"learning_rate": -1}, "`learning_rate` must be finite and greater than 0; got -1"),
        ({"engine": "x"}, "`engine` must be one of 'ep', 'exact', 'mean_field'; got 'x'"),
        ({"dtype": "x"}, "`dtype` must be one of 'float32', 'float64'; got 'x'"),
        ({"validation_fraction": 2}, "`validation_fraction` must be finite and at least 0 and less than 1"),
    ],
)
def test_bad_settings_and_inputs_alone_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        fit_graph(Graph().observed("y"), {"y": [1.0, 2.0]}, **settings)
    with pytest.raises(ValueError, match="cannot be trained on inputs alone"):
        fit_graph(Graph().input("x").observed("y").connect("x", "y"), {"x": [[1.0]]})
