"""Laws that the predictions of every kind of model keep, whatever its parameters."""

from copy import copy
from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from tggm.streams.columns import Columns

from tests.cases import few
from tests.estimators.unfitted import BETA, STUDENT, filled
from tggm import TGGMClassifier, TGGMRegressor
from tggm.predictive.calibration import Calibration

SMALL = {"n_members": 2, "features": None, "dtype": "float64"}
X = np.random.default_rng(5).normal(size=(4, 2))
MODELS = {
    "one layer": filled(TGGMRegressor(hidden=3, **SMALL), 2, 1, calibration=(BETA,)),
    "several outputs": filled(TGGMRegressor(hidden=3, **SMALL), 2, 2, calibration=(STUDENT, BETA)),
    "several layers": filled(TGGMRegressor(hidden=(3, 2), **SMALL), 2, 2, calibration=(STUDENT, STUDENT)),
    "lateral": filled(TGGMRegressor(hidden=3, lateral=1, method="ep", **SMALL), 2, 1),
    "classes": filled(
        TGGMClassifier(hidden=3, **SMALL), 2, 3, calibration=(Calibration("temperature", (1.5,)),)
    ),
}
# layers with several outputs, and the exact density of one layer, stay; those between them are slow
ALL = few(MODELS, "one layer", "several layers", "classes")
NUMBERS = few((name for name in MODELS if name != "classes"), "one layer", "several layers")
FEW = settings(max_examples=4, deadline=None, derandomize=True)
ORDERS = st.permutations(range(4))


def said(model, rows):
    """What a model predicts, as arrays whose first axis is rows."""
    model.name_features(2, None)
    if model.task == "classification":
        return [model.predict_proba(rows)]
    quantiles = model.predict_quantiles(rows, [0.1, 0.5, 0.9])
    return [*model.predict(rows, return_std=True), quantiles, model.score_samples(rows, quantiles[..., 1])]


def with_fitted(estimator, **changes):
    other = copy(estimator)
    other.adopt(estimator.fitted_._replace(**changes))
    return other


@cache
def before(name):
    return said(MODELS[name], X)


@pytest.mark.parametrize("name", ALL)
@FEW
@given(order=ORDERS)
def test_rows_are_predicted_each_by_itself(name, order):
    for got, want in zip(said(MODELS[name], X[order]), before(name), strict=True):
        assert_allclose(got, want[order], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_the_order_of_members_does_not_matter(name):
    model = jax.tree.map(lambda a: a[::-1].copy(), MODELS[name].fitted_.model)
    for got, want in zip(said(with_fitted(MODELS[name], model=model), X), before(name), strict=True):
        assert_allclose(got, want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_the_order_of_columns_does_not_matter(name):
    fitted = MODELS[name].fitted_
    arrays = dict(fitted.model.arrays())
    for each in {"hidden.W0", "likelihood.output.A"} & arrays.keys():
        arrays[each] = arrays[each][:, :, ::-1].copy()
    scales = fitted.scales._replace(x=Columns(*(a[::-1].copy() for a in fitted.scales.x)))
    other = with_fitted(MODELS[name], model=fitted.model.replaced(arrays), scales=scales)
    for got, want in zip(said(other, X[:, ::-1]), before(name), strict=True):
        assert_allclose(got, want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
@FEW
@given(factor=st.floats(-6, 6).map(lambda x: 10**x), shift=st.floats(-1e3, 1e3))
def test_predictions_follow_affine_changes_of_inputs(name, factor, shift):
    scales = MODELS[name].fitted_.scales
    x = Columns(scales.x.shift * factor + shift, scales.x.scale * factor)
    other = with_fitted(MODELS[name], scales=scales._replace(x=x))
    digits = 1e-13 * (1 + abs(shift) / factor)  # that adding the shift leaves
    for got, want in zip(said(other, X * factor + shift), before(name), strict=True):
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
    found = said(other, X)
    near = {"rtol": 1e-7, "atol": 1e-7 * (factor + abs(shift))}
    assert_allclose(found[0], mean * factor + shift, **near)
    assert_allclose(found[1], std * factor, rtol=1e-7)
    assert_allclose(found[2], quantiles * factor + shift, **near)
    lost = 1e-13 * abs(shift) / factor  # digits of a median beside its shift
    assert_allclose(found[3], log - n * np.log(factor), atol=1e-6 + 1e3 * lost)


@pytest.mark.parametrize("name", NUMBERS)
@FEW
@given(q=st.lists(st.floats(1e-4, 1 - 1e-4), min_size=3, max_size=3).map(sorted))
def test_quantiles_invert_the_distribution_function(name, q):
    """Those of `predict_quantiles` and of `predict_dist`, of one output and of several."""
    model = MODELS[name]
    dist, quantiles = model.predict_dist(X), model.predict_quantiles(X, q)
    for k, p in enumerate(q):
        assert_allclose(dist.cdf(quantiles[..., k]), p, atol=1e-7)
        assert_allclose(dist.cdf(dist.ppf(p)), p, atol=1e-9)
    assert np.all(np.diff(quantiles, axis=-1) >= 0)


@pytest.mark.parametrize("name", NUMBERS)
def test_densities_integrate_to_the_distribution_function(name):
    dist = MODELS[name].predict_dist(X)
    parts = [dist.marginal(j) for j in range(dist.n_outputs)] if hasattr(dist, "marginal") else [dist]
    if name == "lateral":  # its density is an engine's, its distribution function that of two moments
        pytest.skip("see test_engine.py")
    for part in parts:
        low, high = part.interval(0.999)
        y = np.linspace(low, high, 1025, axis=1)
        step = (y[:, -1] - y[:, 0]) / 1024
        p = part.pdf(y)
        total = step * (p.sum(1) - 0.5 * (p[:, 0] + p[:, -1]))
        assert_allclose(total, 0.999, atol=1e-4)
        assert np.all(np.diff(part.cdf(y), axis=1) >= -1e-12)


def test_the_order_of_classes_does_not_matter():
    fitted = MODELS["classes"].fitted_
    arrays = dict(fitted.model.arrays())
    for each in (name for name in arrays if name.startswith("likelihood.output.")):
        arrays[each] = arrays[each][:, ::-1].copy()
    (got,) = said(with_fitted(MODELS["classes"], model=fitted.model.replaced(arrays)), X)
    (want,) = before("classes")
    assert_allclose(got[:, ::-1], want, rtol=1e-7)
    assert_allclose(got.sum(1), 1.0, rtol=1e-12)
