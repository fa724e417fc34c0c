"""Laws of predictions that hold for every kind of model and all parameters."""

from copy import copy
from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.cases import few
from tests.estimators.small import untrained
from tggm import TGGMClassifier, TGGMRegressor
from tggm.data.standardise import Columns
from tggm.predictive import Support
from tggm.predictive.calibration import Calibration

SMALL = {"n_members": 2, "features": None, "dtype": "float64"}
STUDENT = Calibration("student", (1.2, 0.5, 0.1))
GAUSSIAN = Calibration("student", (1.3, 0.8, 0.0))
X = np.random.default_rng(5).normal(size=(4, 2))
MODELS = {
    "mixture": untrained(TGGMRegressor(hidden=3, **SMALL), 2, 1),
    "one layer": untrained(TGGMRegressor(hidden=3, **SMALL), 2, 1, calibration=(STUDENT,)),
    "limits": untrained(
        TGGMRegressor(hidden=3, **SMALL), 2, 1, calibration=(STUDENT,), supports=(Support(0.0, 2.0),)
    ),
    "grades": untrained(
        TGGMRegressor(hidden=3, **SMALL), 2, 1, calibration=(STUDENT,), supports=(Support(0.0, None, 0.5),)
    ),
    "several supports": untrained(
        TGGMRegressor(hidden=3, **SMALL),
        2,
        2,
        calibration=(STUDENT, GAUSSIAN),
        supports=(Support(0.0, None, 0.5), None),
    ),
    "several outputs": untrained(TGGMRegressor(hidden=3, **SMALL), 2, 2, calibration=(STUDENT, GAUSSIAN)),
    "several layers": untrained(TGGMRegressor(hidden=(3, 2), **SMALL), 2, 2, calibration=(STUDENT, STUDENT)),
    "classes": untrained(TGGMClassifier(hidden=3, **SMALL), 2, 3),
}
ALL = few(MODELS, "mixture", "several layers", "classes", "limits", "grades", "several supports")
WITH_UNITS = [name for name in MODELS if name not in ("classes", "limits", "grades", "several supports")]
NUMBERS = few(WITH_UNITS, "mixture", "several layers")
FEW = settings(max_examples=4, deadline=None, derandomize=True)
ORDERS = st.permutations(range(4))


def predicted(model, rows):
    """Return the predictions of a model as arrays whose first axis is rows."""
    if model.task == "classification":
        return [model.predict_proba(rows)]
    quantiles = model.predict_quantiles(rows, [0.1, 0.5, 0.9])
    dist = model.predict_dist(rows)
    score = dist.crps if len(model.fitted_.supports) > 1 else dist.logpdf
    return [*model.predict(rows, return_std=True), quantiles, score(quantiles[..., 1])]


def with_fitted(estimator, **changes):
    other = copy(estimator)
    other._set_fitted(replace(estimator.fitted_, **changes))
    return other


@cache
def before(name):
    return predicted(MODELS[name], X)


@pytest.mark.parametrize("name", ALL)
@FEW
@given(order=ORDERS)
def test_the_order_of_rows_does_not_matter(name, order):
    for got, want in zip(predicted(MODELS[name], X[order]), before(name), strict=True):
        assert_allclose(got, want[order], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_the_order_of_members_does_not_matter(name):
    model = jax.tree.map(lambda a: a[::-1].copy(), MODELS[name].fitted_.model)
    for got, want in zip(predicted(with_fitted(MODELS[name], model=model), X), before(name), strict=True):
        assert_allclose(got, want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_the_order_of_columns_does_not_matter(name):
    fitted = MODELS[name].fitted_
    arrays = dict(fitted.model.arrays())
    for each in {"hidden.W0", "likelihood.output.A"} & arrays.keys():
        arrays[each] = arrays[each][:, :, ::-1].copy()
    scales = fitted.scales._replace(x=Columns(*(a[::-1].copy() for a in fitted.scales.x)))
    other = with_fitted(MODELS[name], model=fitted.model.replaced(arrays), scales=scales)
    for got, want in zip(predicted(other, X[:, ::-1]), before(name), strict=True):
        assert_allclose(got, want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
@FEW
@given(factor=st.floats(-6, 6).map(lambda x: 10**x), shift=st.floats(-1e3, 1e3))
def test_predictions_follow_affine_changes_of_inputs(name, factor, shift):
    scales = MODELS[name].fitted_.scales
    x = Columns(scales.x.shift * factor + shift, scales.x.scale * factor)
    other = with_fitted(MODELS[name], scales=scales._replace(x=x))
    digits = 1e-13 * (1 + abs(shift) / factor)  # lost by adding the shift
    for got, want in zip(predicted(other, X * factor + shift), before(name), strict=True):
        assert_allclose(got, want, rtol=1e-7, atol=1e-8 + 1e3 * digits)


@pytest.mark.parametrize("name", NUMBERS)
@FEW
@given(factor=st.floats(-6, 6).map(lambda x: 10**x), shift=st.floats(-1e3, 1e3))
def test_predictions_follow_affine_changes_of_targets(name, factor, shift):
    scales = MODELS[name].fitted_.scales
    n = len(scales.y.shift)
    y = Columns(scales.y.shift * factor + shift, scales.y.scale * factor)
    other = with_fitted(MODELS[name], scales=scales._replace(y=y))
    mean, std, quantiles, log = before(name)
    found = predicted(other, X)
    near = {"rtol": 1e-7, "atol": 1e-7 * (factor + abs(shift))}
    assert_allclose(found[0], mean * factor + shift, **near)
    assert_allclose(found[1], std * factor, rtol=1e-7)
    assert_allclose(found[2], quantiles * factor + shift, **near)
    lost = 1e-13 * abs(shift) / factor  # digits of the median
    assert_allclose(found[3], log - n * np.log(factor), atol=1e-6 + 1e3 * lost)


def test_the_order_of_classes_does_not_matter():
    fitted = MODELS["classes"].fitted_
    arrays = dict(fitted.model.arrays())
    for each in (name for name in arrays if name.startswith("likelihood.output.")):
        arrays[each] = arrays[each][:, ::-1].copy()
    (got,) = predicted(with_fitted(MODELS["classes"], model=fitted.model.replaced(arrays)), X)
    (want,) = before("classes")
    assert_allclose(got[:, ::-1], want, rtol=1e-7)
    assert_allclose(got.sum(1), 1.0, rtol=1e-12)
