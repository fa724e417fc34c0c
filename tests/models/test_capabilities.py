"""What units and outputs offer, they have: each capability of each pair against sums over a grid of units."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from tggm.models.part import MissingCapabilityError

from tests.cases import few
from tests.models.grid import answers
from tests.models.small_models import EP, MEAN_FIELD, drawn_model
from tggm.models.hidden import HIDDEN
from tggm.models.likelihoods import LIKELIHOODS, Incomplete

LAYERS = {"shallow": (2,), "lateral": (2,), "directed": (2, 1), "undirected": (2, 1)}
ALL = {"moments", "mean", "gaussian", "sum"}
X = np.array([[0.5, -1.0], [-0.3, 0.8], [1.2, 0.4]])

# By propagation, mean field or EP; exact where units are independent, but for the nodes of a class's integral
CLOSE = {"moments": 0.03, "mean": 0.1, "gaussian": 0.05, "sum": 1e-6}
EXACT = {"gaussian": 1e-6, "censored": 1e-6, "probit": 2e-3}

BY = {
    "moments": lambda m, y: m.likelihood.by_moments(y, m.latent(X, MEAN_FIELD)),
    "mean": lambda m, y: m.likelihood.by_mean(y, m.mean(X, MEAN_FIELD)),
    "gaussian": lambda m, y: m.likelihood.by_engine(y, m.hidden, jnp.asarray(X), EP),
    "sum": lambda m, y: m.likelihood.by_sum(y, m.hidden, jnp.asarray(X), MEAN_FIELD),
}


def targets(kind, likelihood):
    """Number of outputs, targets as the likelihood takes them, and the same row by row."""
    if likelihood == "probit":
        label = np.array([0, 2, 1], np.int32)
        return 3, jnp.asarray(label), list(label)
    if likelihood == "gaussian":
        y = np.array([[0.4], [-0.3], [1.1]])
        return 1, jnp.asarray(y), list(y)
    if kind in ("shallow", "directed"):
        value, side = np.array([[0.4], [-0.3], [1.1]]), np.array([[0.0], [1.0], [-1.0]])
    else:  # limits need independent units
        value, side = np.array([[0.4, np.nan], [np.nan, -0.3], [0.3, -0.2]]), np.zeros((3, 2))
    return (
        value.shape[1],
        Incomplete(jnp.asarray(value), jnp.asarray(side)),
        list(zip(value, side, strict=True)),
    )


def built(kind, likelihood, n, seed=3):
    rng = np.random.default_rng(seed)
    return drawn_model(
        rng, LAYERS[kind], n, likelihood=likelihood, form=kind, lateral=int(kind == "lateral"), d=2
    )


PAIRS = [(kind, likelihood) for kind in HIDDEN for likelihood in LIKELIHOODS]
# units and outputs do not know each other, so not every pair is here; others have large programs and tests of
# their own, hidden/test_undirected.py and likelihoods/test_censored.py
QUICK = ("shallow gaussian", "shallow probit", "lateral gaussian", "directed gaussian")


@pytest.mark.parametrize("pair", few(PAIRS, *QUICK, name=" ".join), ids=" ".join)
def test_what_is_offered_is_right(pair):
    kind, likelihood = pair
    n, y, rows = targets(kind, likelihood)
    model = built(kind, likelihood, n)
    assert type(model.hidden) is HIDDEN[kind]
    offered = HIDDEN[kind].offers & LIKELIHOODS[likelihood].offers
    found = jax.jit(lambda m: {name: BY[name](m, y) for name in offered})(model)
    want = [answers(kind, likelihood, model, x, row) for x, row in zip(X, rows, strict=True)]
    for name in offered:
        exact = kind == "shallow" and name != "gaussian"
        tolerance = max(EXACT[likelihood], 0.0 if exact else CLOSE[name])
        assert_allclose(found[name], [row[name] for row in want], atol=tolerance, err_msg=name)


class Nobody:
    """An engine that is asked for nothing but how many nodes there are."""

    nodes = 7


@pytest.mark.parametrize("kind", HIDDEN)
def test_units_that_offer_moments_need_no_engine(kind):
    model = built(kind, "gaussian", 1)
    assert model.knows_moments == ("moments" in HIDDEN[kind].offers)
    ask = model.latent(jnp.asarray(X), Nobody()).variances
    if model.knows_moments:
        assert jax.eval_shape(ask, model.likelihood.output.W1)[1].shape == (3, 1)
    else:
        with pytest.raises(AttributeError, match="linear_moments"):
            jax.eval_shape(ask, model.likelihood.output.W1)


@pytest.mark.parametrize("kind", HIDDEN)
def test_units_refuse_what_they_do_not_offer(kind):
    hidden = built(kind, "gaussian", 1).hidden
    assert hidden.offers <= ALL
    for name, ask, message in (
        ("gaussian", hidden.gaussian, f"{HIDDEN[kind].__name__} units have no joint truncated Gaussian"),
        ("sum", hidden.standard, f"{HIDDEN[kind].__name__} units are not independent"),
    ):
        if name in hidden.offers:
            jax.eval_shape(ask, X)
        else:
            with pytest.raises(MissingCapabilityError, match=message):
                ask(jnp.asarray(X))


@pytest.mark.parametrize("kind", ["lateral", "undirected"])
def test_limits_need_independent_units(kind):
    model = built(kind, "censored", 1)
    y = Incomplete(jnp.zeros((3, 1)), jnp.ones((3, 1)))
    with pytest.raises(MissingCapabilityError, match="units are not independent"):
        jax.eval_shape(lambda m: BY["gaussian"](m, y), model)


def test_outputs_refuse_what_they_do_not_offer():
    classes, numbers = built("shallow", "probit", 3), built("shallow", "gaussian", 1)
    latent = classes.latent(jnp.asarray(X), EP)
    with pytest.raises(MissingCapabilityError, match="Probit outputs are no sum"):
        BY["sum"](classes, jnp.zeros(3, jnp.int32))
    for ask in (classes.likelihood.moments, classes.likelihood.variances):
        with pytest.raises(MissingCapabilityError, match="Probit outputs are no numbers"):
            ask(latent)
    with pytest.raises(MissingCapabilityError, match="Gaussian outputs are no classes"):
        numbers.likelihood.contended_scores(latent)
