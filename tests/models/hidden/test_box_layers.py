"""Layers of units between two limits, against sums over a grid of units."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from tggm.models.hidden.unit_limits import SIDE, UNITS
from tggm.models.part import MissingCapabilityError

from tests.models.grid import answers
from tests.models.small_models import MEAN_FIELD, S0, changed, drawn_model, with_members
from tests.models.test_capabilities import BY, X
from tggm.models.hidden import BOXED

LIMITS = {"tanh": (-SIDE, SIDE), "sigmoid": (-SIDE / 2, SIDE / 2), "learned": (-0.3, 1.2)}


def built(form, units, *, likelihood="gaussian", n=1):
    layers = {"shallow": (2,), "directed": (2, 1)}[form]
    model = drawn_model(
        np.random.default_rng(3), layers, n, likelihood=likelihood, form=form, units=units, d=2
    )
    if units == "learned":
        lower, upper = LIMITS[units]
        known = {
            "lower": np.full(len(layers), lower),
            "log_width": np.full(len(layers), np.log(upper - lower)),
        }
        model = changed(model, {f"hidden.limits.{name}": a for name, a in known.items()})
    return model


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("form", "units"), [("shallow", "tanh"), pytest.param("directed", "sigmoid", marks=SLOW)]
)
def test_what_is_offered_is_right(form, units):
    model = built(form, units)
    y = np.array([[0.4], [-0.3], [1.1]])
    offered = BOXED[form].offers
    found = jax.jit(lambda m: {name: BY[name](m, y) for name in offered})(model)
    limits = tuple(np.sqrt(S0) * np.asarray(LIMITS[units]))
    want = [answers(form, "gaussian", model, x, row, limits=limits) for x, row in zip(X, y, strict=True)]
    close = {"shallow": {"gaussian": 3e-3}, "directed": {"moments": 0.01, "mean": 0.01}}[form]
    for name in offered:
        assert_allclose(found[name], [row[name] for row in want], atol=close.get(name, 1e-6), err_msg=name)


def by_classes(model, label):
    return model.likelihood.by_engine(label, model.hidden, jnp.asarray(X), MEAN_FIELD)


@pytest.mark.parametrize(
    ("form", "likelihood", "by"),
    [
        ("directed", "gaussian", "moments"),
        # EP's derivatives by limits are in tests/inference/test_boxes.py; of classes, the largest program
        pytest.param("shallow", "gaussian", "gaussian", marks=SLOW),
        pytest.param("shallow", "probit", None, marks=SLOW),
    ],
)
def test_gradients_by_learned_limits_are_differences(form, likelihood, by):
    """Of the likelihood by moments, of EP's, and of the mean-field bound of classes."""
    y = np.array([0, 2, 1], np.int32) if likelihood == "probit" else np.array([[0.4], [-0.3], [1.1]])
    model = built(form, "learned", likelihood=likelihood, n=3 if likelihood == "probit" else 1)
    ask = by_classes if by is None else BY[by]
    value = jax.jit(jax.value_and_grad(lambda m: ask(m, y).sum()))
    total, slopes = value(model)
    for which in ("lower", "log_width"):
        array = np.asarray(getattr(model.hidden.limits, which))
        first = np.arange(len(array)) == 0
        ends = [
            value(changed(model, {f"hidden.limits.{which}": array + step * first}))[0]
            for step in (1e-4, -1e-4)
        ]
        slope = getattr(slopes.hidden.limits, which)[0]
        assert_allclose(slope, (ends[0] - ends[1]) / 2e-4, rtol=1e-3, atol=2e-4)
    if likelihood == "probit":
        limits = tuple(np.sqrt(S0) * np.asarray(LIMITS["learned"]))
        rows = zip(X, y, strict=True)
        exact = sum(answers(form, likelihood, model, x, k, limits=limits)["gaussian"] for x, k in rows)
        assert exact - 3 < total < exact


def test_learned_limits_start_apart_and_are_checked():
    drawn = UNITS["learned"].draw(2)
    low, high = drawn.at(1)
    assert_allclose([low, high], [0.0, 12.0])
    model = with_members(built("directed", "learned"))
    model.check("float64")
    for name in ("lower", "log_width"):
        wrong = model.replaced(model.arrays() | {f"hidden.limits.{name}": np.full((1, 2), 1e7)})
        with pytest.raises(ValueError, match="limits of units must be at most 1e\\+06; they reach 1e\\+07"):
            wrong.check("float64")


def test_several_layers_have_no_joint_gaussian_and_none_a_sum_to_train():
    with pytest.raises(MissingCapabilityError, match="BoxLayers units have no joint"):
        built("directed", "tanh").hidden.gaussian(X)
    with pytest.raises(MissingCapabilityError, match="BoxLayers units do not have two limits"):
        _ = built("directed", "tanh").hidden.bounds
    assert not any("sum" in kind.offers for kind in BOXED.values())  # which training would differentiate
    assert_allclose(built("shallow", "tanh").hidden.bounds, (-4, 4))
