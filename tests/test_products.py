"""Engines, densities and predictions multiply in full precision: read from traced programs, without a GPU."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.cases import few
from tests.models.small_models import EP, drawn_model, with_members
from tggm.estimators import class_prediction
from tggm.gaussian import TruncatedGaussian
from tggm.graph import Graph
from tggm.graph._conditional import read
from tggm.graph.training import GraphLikelihood
from tggm.inference import ep, exact, gibbs, hmc, log_partition, mean_field, orthant
from tggm.inference.ep.classes import class_ep
from tggm.inference.ep.correction import ep_with_error
from tggm.inference.linear import linear_mean, linear_moments
from tggm.inference.mean_field.classes import class_mean_field
from tggm.inference.mean_field.upper_bound import guarded_log_z
from tggm.inference.orthant.probability import log_orthant
from tggm.precision import Dense, Layered, LowRank
from tggm.predictive import member_moments
from tggm.products import full_precision
from tggm.special import probit_bound
from tggm.training.methods import METHODS, Rows

M, N, ROWS = 6, 2, 5
SINGLE = np.dtype(np.float32)
FULL = (lax.Precision.HIGHEST, lax.Precision.HIGHEST)


@pytest.fixture(autouse=True)
def single():
    """The mode of JAX in which products may lose digits."""
    with jax.enable_x64(False):
        yield


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def inner(program):
    """What is compiled; a program with options of its own cannot be part of another."""
    return program.__wrapped__


def layered():
    W = numbers(M // 2, M // 2)
    return Layered([np.eye(M // 2, dtype=np.float32) + W.T @ W, np.eye(M // 2, dtype=np.float32)], [-W])


def structure(name):
    low = LowRank(np.ones(M, np.float32), numbers(N, M))
    made = {"low rank": lambda: low, "layered": layered, "dense": lambda: Dense(low.dense())}
    return made[name]()


STRUCTURES = ("low rank", "layered", "dense")


def precisions(function, *args):
    """What each product of float32 matrices in a traced program asks for, at any depth."""
    found, todo = [], [jax.make_jaxpr(function)(*args)]
    while todo:
        for eqn in todo.pop().eqns:
            kinds = {getattr(v.aval, "dtype", None) for v in eqn.invars}
            if eqn.primitive.name in ("dot_general", "conv_general_dilated") and SINGLE in kinds:
                found.append(eqn.params["precision"])
            inner = jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda p: hasattr(p, "eqns"))
            todo += [jaxpr for jaxpr in inner if hasattr(jaxpr, "eqns")]
    return found


def assert_full(function, *args):
    found = precisions(function, *args)
    assert found, "nothing was multiplied"
    assert found.count(FULL) == len(found), f"{len(found) - found.count(FULL)} products of {len(found)}"


def looped(a):
    return lax.while_loop(lambda b: b.sum() < 1, lambda b: jax.jit(jnp.matmul)(b, a), a)


def test_products_are_found_at_any_depth():
    a = numbers(3, 3)
    assert precisions(looped, a) == [None]
    assert precisions(full_precision(looped), a) == [FULL]
    assert precisions(lambda a: a + 1, a) == []


def test_derivatives_keep_what_their_products_asked_for():
    @full_precision
    def square(a):
        return (a @ a).sum()

    found = precisions(jax.grad(square), numbers(3, 3))
    assert len(found) > 1
    assert set(found) == {FULL}


@pytest.mark.parametrize("name", STRUCTURES)
def test_precision_matrices(name):
    P, r = structure(name), numbers(ROWS, M)
    assert_full(lambda P: P.off_diagonal(r), P)
    assert_full(lambda P: P.factor(jnp.abs(r)).solve(r), P)
    if name != "dense":
        assert_full(lambda P: P.factor(jnp.abs(r)).variances(), P)


ENGINES = {
    "mean_field": mean_field,
    "cyclic mean_field": partial(mean_field, solver="cyclic"),
    "started mean_field": lambda tg: mean_field(tg, start=jnp.abs(tg.shift)),
    "ep": ep,
    "gibbs": lambda tg: gibbs(tg, jax.random.key(0), 4, n_chains=2),
    "hmc": lambda tg: hmc(tg, jax.random.key(0), 4, n_chains=2),
    "ep_with_error": lambda tg: ep_with_error(tg, jnp.int32(9), jnp.float32(1e-3)),
    "log_orthant": lambda tg: log_orthant(tg, "ep"),
    "mean-field moments": lambda tg: linear_moments(tg, jnp.asarray(numbers(N, 3)), engine="mean_field"),
    "EP moments": lambda tg: linear_moments(tg, jnp.asarray(numbers(N, 3)), engine="ep"),
}


def crossed(functions):
    """Every function with one structure; two that are at the bottom of most, with all."""
    all_ = [(name, structure) for name in functions for structure in STRUCTURES]
    quick = [pair for pair in all_ if pair[0] in BASIC or pair[1] == "low rank"]
    return few(all_, *map(", ".join, quick), name=", ".join)


BASIC = ("ep", "mean_field")


@pytest.mark.parametrize("pair", crossed(ENGINES), ids=", ".join)
def test_engines(pair):
    engine, name = pair
    assert_full(ENGINES[engine], TruncatedGaussian(structure(name), numbers(ROWS, M)))


def test_exact_and_orthant():
    """One takes three variables of this structure, the other is in double precision whatever it is given."""
    P = Dense(np.eye(3, dtype=np.float32) + np.float32(0.5))
    assert_full(exact, TruncatedGaussian(P, numbers(ROWS, 3)))
    with jax.enable_x64(True):
        assert precisions(partial(orthant, n_points=50), TruncatedGaussian(P, numbers(ROWS, 3))) == []


LOG_Z = {
    "ep": partial(log_partition, engine="ep"),
    "mean_field": partial(log_partition, engine="mean_field"),
    "cyclic": partial(log_partition, engine="mean_field", solver="cyclic"),
    "linear_mean": lambda tg: linear_mean(tg, jnp.asarray(numbers(N, 3))),
    "class_ep": lambda tg: class_ep(tg, *classes(), jnp.int32(9)),
    "class_mean_field": lambda tg: class_mean_field(
        tg, *classes()[:2], partial(probit_bound.exact, label=classes()[2], n_nodes=12, n_steps=3),
        start=None, steps=jnp.int32(9), solver="newton",
    )[0],
}  # fmt: skip


def classes():
    """Weights and biases of two scores of the last three units, and the classes of rows."""
    return jnp.asarray(numbers(N, 3)), jnp.zeros(N, jnp.float32), jnp.zeros(ROWS, jnp.int32)


@pytest.mark.parametrize("pair", crossed(LOG_Z), ids=", ".join)
def test_gradients(pair):
    log_z, name = pair

    def total(P, shift):
        return LOG_Z[log_z](TruncatedGaussian(P, shift)).sum()

    assert_full(jax.value_and_grad(total, argnums=(0, 1)), structure(name), numbers(ROWS, M))


def test_gradients_of_quadrature_and_of_the_guarded_bound():
    def small(P, shift):
        return log_partition(TruncatedGaussian(Dense(P), shift), engine="exact").sum()

    def guarded(P, shift):
        tg = TruncatedGaussian(P, shift)
        return guarded_log_z(tg, jnp.float32(1), start=jnp.abs(shift), max_iter=jnp.int32(9)).sum()

    assert_full(jax.grad(small), np.eye(3, dtype=np.float32), numbers(ROWS, 3))
    assert_full(jax.grad(guarded), layered(), numbers(ROWS, M))


FORMS = {
    "shallow": ((M,), {}),
    "lateral": ((M,), {"lateral": 2}),
    "directed": ((M, M), {}),
    "undirected": ((M, M), {}),
}


def model(form, likelihood="gaussian", n=N):
    layers, options = FORMS[form]
    drawn = drawn_model(np.random.default_rng(0), layers, n, likelihood=likelihood, form=form, **options)
    return jax.tree.map(lambda a: np.asarray(a, np.float32), drawn)


CASES = list(product(("ep", "meanfield"), ("gaussian", "probit"), ("shallow", "lateral", "undirected")))
# every word once
PAIRED = (
    "ep gaussian shallow",
    "ep probit undirected",
    "meanfield gaussian undirected",
    "meanfield probit shallow",
)


@pytest.mark.parametrize("case", few(CASES, *PAIRED, name=" ".join), ids=" ".join)
def test_likelihoods_and_scores_by_an_engine(case):
    method, likelihood, form = case
    y = numbers(ROWS, N) if likelihood == "gaussian" else np.zeros(ROWS, np.int32)
    method, rows = METHODS[method](), Rows(numbers(ROWS, 3), y)
    assert_full(jax.grad(lambda m: method(m, rows, jnp.float32(0)).sum()), model(form, likelihood))
    assert_full(lambda m: method.score(m, rows), model(form, likelihood))


def test_the_exact_likelihood():
    rows = Rows(numbers(ROWS, 3), numbers(ROWS, 1))
    assert_full(lambda m: METHODS["exact"]()(m, rows, jnp.float32(0)), model("shallow", n=1))


@pytest.mark.parametrize("form", ["shallow", "lateral", "undirected"])
def test_what_models_hand_to_engines(form):
    U = numbers(N, M)
    assert_full(lambda m: m.hidden.gaussian(numbers(ROWS, 3), U), model(form))


@pytest.mark.parametrize("form", few(FORMS, "shallow", "undirected"))
def test_predictions(form):
    X, engine = numbers(ROWS, 3), EP
    members, classifiers = with_members(model(form)), with_members(model(form, "probit", 3))
    for function in (member_moments._variances, member_moments._means):
        assert_full(partial(function, engine), members, X)
    assert_full(partial(member_moments._covariances, engine=engine), members, X)
    scores = inner(class_prediction._scores)
    assert_full(partial(scores, members=False, engine=engine), classifiers, X)


def test_what_training_by_the_mean_leaves_of_the_noise():
    members, rows = with_members(model("shallow")), Rows(numbers(ROWS, 3), None)
    assert_full(lambda m: METHODS["bp"]().finish(m, lambda: rows), members)


def test_graphs():
    graph = Graph().input("x", 3).latent("h", 4).latent("g", 3).observed("y", 2)
    graph = graph.connect("x", "h").connect("h", "g").connect("g", "y").couple("h").initial()
    data = {"x": numbers(ROWS, 3), "y": numbers(ROWS, 2)}
    evidence, pattern, _ = read(graph.structure, data)
    objective = GraphLikelihood(graph.structure, pattern)
    single = jax.tree.map(lambda a: np.asarray(a, np.float32), (graph.parameters, evidence))
    assert_full(jax.grad(lambda p, e: objective(p, e, jnp.float32(0)).sum()), *single)
