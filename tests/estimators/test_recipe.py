"""Settings that cannot work are named before anything is read; what "auto" plans."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.estimators.small import SMALL
from tggm import TGGMClassifier, TGGMRegressor
from tggm.training.rows import Blocks

X = np.random.default_rng(0).normal(size=(60, 3))
y = np.arange(60) % 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"method": "magic"},
            r"`method` must be one of 'bp', 'ep', 'exact', 'meanfield', 'moments'; got 'magic'",
        ),
        ({"hidden": (0,)}, r"`hidden` must be .* at least 1 each, .*; got \(0,\)"),
        ({"hidden": ()}, r"`hidden` must be 'auto', a number of units, or .*, as 50 or \(50, 50\); got \(\)"),
        ({"hidden": None}, "`hidden` must be 'auto', a number of units, or one for each layer"),
        ({"n_members": 0}, "`n_members` must be an integer of at least 1; got 0"),
        ({"noise": -0.1}, "`noise` is the variance of the output noise and must be positive; got -0.1"),
        ({"noise": [0.1, 0.1]}, r"`noise` must be None \(learned\), a variance, or one per output \(1\)"),
        ({"sigma0": 0}, "`sigma0` must be finite and greater than 0; got 0"),
        ({"sigma0": 1e200}, r"`sigma0` must be between 1e-15 and 1e\+15; got 1e\+200. .* 0.1 to 1 serves"),
        ({"sigma0": 1e-16}, "`sigma0` must be between 1e-15"),
        ({"sigma0": 1e61, "dtype": "float64"}, r"`sigma0` must be between 1e-60 and 1e\+60"),
        ({"learning_rate": float("nan")}, "`learning_rate` must be finite and greater than 0; got nan"),
        ({"learning_rate": "fast"}, "`learning_rate` must be a number; got 'fast'"),
        ({"weight_decay": -1}, "`weight_decay` must be finite and at least 0; got -1"),
        (
            {"validation_fraction": 1.0},
            "`validation_fraction` must be finite and greater than 0 and less than 1",
        ),
        ({"batch_size": 0}, "`batch_size` must be an integer of at least 1; got 0"),
        ({"max_epochs": 1.5}, "`max_epochs` must be an integer of at least 1; got 1.5"),
        (
            {"optimizer": "newton"},
            "`optimizer` must be one of 'adam', 'auto', 'muon', 'rmsprop', 'sgd'; got 'newton'",
        ),
        ({"schedule": "never"}, "`schedule` must be one of"),
        ({"dtype": "float16"}, "`dtype` must be one of 'float32', 'float64'; got 'float16'"),
        ({"init": "zero"}, "`init` must be one of .*; got 'zero'"),
        ({"solver": "magic"}, "`solver` must be one of 'cyclic', 'newton'; got 'magic'"),
        ({"standardize": "whole"}, "`standardize` must be 'robust', True or False; got 'whole'"),
        ({"early_stopping": "x"}, "`early_stopping` must be True or False; got 'x'"),
        ({"verbose": "x"}, "`verbose` must be True or False; got 'x'"),
        ({"warm_start": None}, "`warm_start` must be True or False; got None"),
        (
            {"hidden": (3, 3), "deep": "undirected"},
            r"hidden=\(3, 3\) and deep='undirected' cannot be trained with method='moments'; pass "
            r"method='bp', method='ep' or method='meanfield', or deep='directed'\.",
        ),
        ({"hidden": (3, 3), "method": "exact"}, r"deep='directed' cannot .*, or one hidden layer\."),
        (
            {"lateral": 1},
            r"lateral=1 cannot be trained with method='moments'; pass method='ep' or method='meanfield', "
            r"or lateral=0\.",
        ),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        TGGMRegressor(**settings).fit(X, y)


@pytest.mark.parametrize(("rows", "steps"), [(100, 5000), (2000, 10_000), (40_000, 60_000), (10**6, 117_240)])
def test_larger_tables_get_more_and_smaller_steps(rows, steps):
    """Five steps a row, 5,000 to 60,000, or 60 epochs; the rate falls with the root of their number."""
    recipe = TGGMRegressor.one_layer(hidden=1).recipe()
    batch, epochs = recipe.timetable(rows)
    planned = epochs * -(-rows // batch)
    assert abs(planned / steps - 1) < 0.25  # epochs are whole, and their last batch may be small
    assert_allclose(rate(recipe, rows), 0.03 * np.sqrt(5000 / max(planned, 5000)), rtol=1e-6)
    assert_allclose(rate(TGGMRegressor.one_layer(hidden=1, max_epochs=300).recipe(), rows), 0.03, rtol=1e-6)


@pytest.mark.parametrize(
    ("rows", "batch", "peak"),
    [(100, 128, 0.01), (4096, 128, 0.01), (8192, 128, 0.01 / 2**0.5), (10**6, 256, 0.005)],
)
def test_cycles_of_larger_tables_are_calmer(rows, batch, peak):
    recipe = TGGMRegressor(hidden=1).recipe()
    assert recipe.timetable(rows)[0] == batch
    assert_allclose(rate(recipe, rows), peak, rtol=1e-6)
    classes = TGGMClassifier(hidden=1).recipe()
    assert [classes.timetable(count)[0] for count in (16_384, 10**6)] == [128, 512]
    classes.size(10, sparse=True)
    assert classes.timetable(16_384)[0] == 512


@pytest.mark.parametrize(
    ("columns", "sparse", "layers", "linear", "init", "decay"),
    [
        (200, False, (100, 100), True, "scaled", 5.0),
        (201, False, (100, 100), False, "scaled", 201 / 40),
        (200, True, (100,), False, "small", 1.0),
    ],
)
def test_classes_of_wide_and_sparse_tables(columns, sparse, layers, linear, init, decay):
    recipe = TGGMClassifier().recipe()
    recipe.size(columns, sparse=sparse)
    assert (recipe.layers, recipe.linear, recipe.init) == (layers, linear, init)
    model = recipe.draw(recipe.architecture(1, 2), np.random.default_rng(0))
    hyper = recipe.program(model, Blocks(None, 1, 100, 100), n_features=columns)[1]
    assert_allclose(hyper.weight_decay, decay, rtol=1e-6)


@pytest.mark.parametrize(("outputs", "layers"), [(100, 2), (101, 1)])
def test_many_outputs_have_one_layer(outputs, layers):
    for kind in (TGGMRegressor, TGGMClassifier):
        recipe = kind().recipe()
        recipe.size(3, outputs)
        assert len(recipe.layers) == layers


def rate(recipe, rows):
    model = recipe.draw(recipe.architecture(1, 1), np.random.default_rng(0))
    return recipe.program(model, Blocks(None, 1, rows, rows), n_features=1)[1].learning_rate


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "exact"}, "`method` must be one of 'bp', 'ep', 'meanfield', 'moments'; got 'exact'"),
        ({"standardize": "rows"}, "`standardize` must be 'robust', 'whole', True or False; got 'rows'"),
        ({"weight_decay": -1}, "`weight_decay` must be finite and at least 0; got -1"),
        ({"weight_decay": "much"}, "`weight_decay` must be a number; got 'much'"),
        ({"n_cycles": (1, 2, 3)}, r"`n_cycles` must be a number or \(first, last\), as \(30, 5\)"),
        ({"n_cycles": 0}, "`n_cycles` must be an integer of at least 1; got 0"),
        ({"solver": "magic"}, "`solver` must be one of 'cyclic', 'newton'; got 'magic'"),
        ({"class_weight": "fair"}, "class_weight"),
    ],
)
def test_bad_settings_of_a_classifier(settings, message):
    with pytest.raises(ValueError, match=message):
        TGGMClassifier(**settings).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"deep": "sideways"}, "`deep` must be one of 'directed', 'undirected'; got 'sideways'"),
        ({"method": "exact"}, "deep='directed' cannot be trained with method='exact'"),
        ({"method": "moments", "deep": "undirected"}, "cannot be trained with method='moments'; pass"),
        ({"method": "meanfield", "lateral": 1}, "`lateral` connections need one hidden layer"),
        ({"method": "meanfield"}, "deep='directed' cannot be trained with method='meanfield'"),
        ({"prior": "none"}, "`prior` must be one of 'auto', 'guarded', 'posterior', 'same'; got 'none'"),
    ],
)
def test_bad_settings_of_several_layers(settings, message):
    with pytest.raises(ValueError, match=message):
        TGGMRegressor((4, 4), **settings).fit(X, y)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("kind", [np.bool_, int])
def test_other_booleans_standardise_alike(same, kind):
    scaled = X * [1, 10, 100]
    settings = {**SMALL, "max_epochs": 2}
    expected = TGGMRegressor(**{**settings, "standardize": same}).fit(scaled, y).predict(scaled)
    found = TGGMRegressor(**{**settings, "standardize": kind(same)}).fit(scaled, y).predict(scaled)
    assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "value"), [("n_cycles", None), ("optimizer", 5), ("n_cycles", "ab"), ("standardize", 2)]
)
def test_settings_of_the_wrong_kind_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        TGGMClassifier(**{name: value}).fit(X, y)


@pytest.mark.parametrize(("given", "few", "many"), [("auto", "adam", "muon"), ("adam", "adam", "adam")])
def test_the_optimiser_of_few_rows_and_of_many(given, few, many):
    recipe = TGGMRegressor(optimizer=given).recipe()
    assert (recipe.optimizer(511), recipe.optimizer(512)) == (few, many)
