"""Files whose values or types were changed, with a right checksum: refused, or they predict numbers."""

from copy import copy

import numpy as np
import pytest

from tests.estimators.unfitted import filled
from tggm import ModelFileError, TGGMRegressor
from tggm.files import model_file, parse_model
from tggm.storage import decode, encode

X, Y = np.array([[0.3, -1.0], [2.0, 1.0]]), np.array([[0.1, 0.2], [1.0, -1.0]])


@pytest.fixture(scope="module")
def models():
    """As if fitted."""
    sizes = {"shallow": (3,), "deep": (3, 2)}
    return {name: filled(TGGMRegressor(hidden=hidden, n_members=2), 2, 2) for name, hidden in sizes.items()}


@pytest.fixture(scope="module")
def contents(models):
    return {name: model_file(model) for name, model in models.items()}


def changed(content, name, value=None, dtype=None):
    arrays, description = decode(content)
    array = np.array(arrays[name], dtype or arrays[name].dtype)
    if value is not None:
        array[...] = value
    model = parse_model(encode(arrays | {name: array}, description), "it").model
    model.name_features(2, None)
    return model


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("shallow", "model.likelihood.log_noise", -80.0),
        ("shallow", "model.likelihood.log_noise", -100.0),
        ("shallow", "model.likelihood.log_noise", -600.0),
        ("deep", "model.hidden.W.0", 1e10),
        ("deep", "model.likelihood.output.W1", 1e10),
    ],
)
def test_what_loads_predicts_numbers(contents, kind, name, value):
    model = changed(contents[kind], name, value)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert not np.isnan(model.score_samples(X, Y)).any()


def test_parameters_are_of_the_type_of_the_settings(contents):
    with pytest.raises(ModelFileError, match="its parameters are of type float32, float64, not float32"):
        changed(contents["shallow"], "model.hidden.b0", dtype=np.float64)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_targets_whose_squares_are_no_numbers_are_refused(contents, scale):
    with pytest.raises(ModelFileError, match=r"standard deviation of 1e.200, whose square"):
        changed(contents["shallow"], "y.scale", scale)


def test_noise_that_vanishes_is_refused(contents):
    arrays, description = decode(contents["shallow"])
    arrays["model.likelihood.log_noise"] = np.full((2, 2), -600, np.float32)
    arrays["y.scale"] = np.full(2, 1e-140)
    with pytest.raises(ModelFileError, match="the noise vanishes in the units of the data"):
        parse_model(encode(arrays, description), "it")


def test_the_type_of_a_fitted_model_is_stored(models):
    model = copy(models["shallow"]).set_params(dtype="float64")
    assert parse_model(model_file(model), "it").model.dtype == "float32"
