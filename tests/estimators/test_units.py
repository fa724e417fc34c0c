"""Hidden units between two limits through the estimators."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tggm.predictive.exact import Predictive

from tests.cases import few
from tggm import TGGMClassifier, TGGMRegressor, load, save
from tggm.storage import ModelFileError


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 2))
    return X, np.clip(2 * X[:, 0], -1, 1) + 0.05 * rng.standard_normal(120)


# one layer; what is another with two, tests/models/hidden/test_box_layers.py has
@pytest.fixture(scope="module", params=few([(6,), (6, 5)], "(6,)"), ids=str)
def regressor(table, request):
    settings = {"features": None, "linear": False, "calibrate": False, "target_transform": None}
    return TGGMRegressor(
        request.param, units="learned", n_members=2, max_epochs=150, batch_size=40, random_state=0, **settings
    ).fit(*table)


def test_limits_are_learned_and_round_trip(table, regressor, tmp_path):
    X, y = table
    assert regressor.score(X, y) > 0.9
    limits = regressor.fitted_.model.hidden.limits
    assert limits.lower.shape == limits.log_width.shape
    assert limits.lower.shape[0] == 2
    assert (np.abs(limits.log_width - np.log(12)) > 0.01).any()
    save(regressor, tmp_path / "units.tggm")
    again = load(tmp_path / "units.tggm")
    assert again.units == "learned"
    assert_array_equal(again.predict(X), regressor.predict(X))
    with pytest.raises(ModelFileError, match="its units are 'learned'; only JAX can compute it"):
        load(tmp_path / "units.tggm", backend="numpy")


def test_a_file_keeps_the_units_that_were_fitted(regressor, tmp_path):
    regressor.set_params(units="tanh")
    try:
        save(regressor, tmp_path / "units.tggm")
        assert load(tmp_path / "units.tggm").units == "learned"
    finally:
        regressor.set_params(units="learned")


def test_limits_that_cannot_be_are_refused(regressor):
    arrays, meta = regressor.to_state()
    name = "model.hidden.limits.log_width"
    for value, message in ((1e7, "limits of units must be at most"), (np.nan, "must be finite")):
        with pytest.raises(ValueError, match=message):
            TGGMRegressor.from_state(arrays | {name: np.full_like(arrays[name], value)}, meta)
    other = meta | {"settings": meta["settings"] | {"units": "tanh"}}
    with pytest.raises(ValueError, match="do not belong to it"):
        TGGMRegressor.from_state(arrays, other)


@pytest.mark.slow  # the law itself: tests/predictive/test_bounded.py
def test_one_layer_predicts_exactly(table):
    """Mean and deviation are those of the model's moments; the density is no Gaussian with them."""
    X, y = table
    model = TGGMRegressor.one_layer(
        hidden=5, units="sigmoid", n_members=1, max_epochs=3, random_state=0, early_stopping=False
    ).fit(X, y)
    dist = model.predict_dist(X[:4])
    assert isinstance(dist, Predictive)
    mean, std = model.predict(X[:4], return_std=True)
    assert_allclose(dist.mean(), mean, rtol=1e-4)
    assert_allclose(dist.std(), std, rtol=1e-4)


@pytest.mark.slow  # units with limits learn numbers, above
def test_classes(table):
    X, y = table
    model = TGGMClassifier.one_layer(
        hidden=5, units="tanh", n_members=1, max_epochs=60, batch_size=40, learning_rate=0.03, random_state=0
    ).fit(X, y > 0)
    assert model.score(X, y > 0) > 0.9


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (TGGMRegressor, {"units": "softplus"}, "`units` must be one of .*'learned', 'relu'"),
        (TGGMRegressor, {"units": "tanh", "lateral": 1, "method": "ep"}, "'tanh' needs lateral=0"),
        (
            TGGMRegressor,
            {"units": "tanh", "hidden": (3, 3), "deep": "undirected", "method": "bp"},
            "'tanh' needs deep='directed'; or pass units='relu'",
        ),
        (TGGMClassifier, {"units": "tanh", "method": "ep"}, "needs method='moments', 'bp' or 'meanfield'"),
        (TGGMRegressor, {"units": "tanh", "method": "exact"}, "units='tanh'.*or units='relu'"),
    ],
)
def test_what_does_not_go_together_is_refused(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**settings).check_settings()


def test_limits_of_targets_need_moments(table):
    X, y = table
    model = TGGMRegressor.one_layer(hidden=3, units="tanh", method="ep")
    with pytest.raises(ValueError, match=r"units='tanh' needs method='moments' or 'bp'; got 'ep'"):
        model.fit(X, y, censored=np.ones(len(y)))
