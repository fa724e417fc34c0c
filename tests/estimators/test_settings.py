"""Constructor arguments: errors, "auto" values, and the parts of `network`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.estimators.small import ALL_ROWS, abs_table, settings_of, small_regressor
from tggm import TGGMClassifier, TGGMRegressor
from tggm.models import Bounded, Identity, Network, Periodic, Shallow
from tggm.training.rows import Blocks

X = np.random.default_rng(0).normal(size=(60, 3))
y = np.arange(60) % 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": (0,)}, r"`hidden` must be 'auto', or units such as 50 .*; got \(0,\)"),
        ({"hidden": ()}, r"`hidden` must be 'auto', or units such as 50 or \(50, 50\); got \(\)"),
        ({"hidden": None}, "`hidden` must be 'auto', or units such as 50 .*; got None"),
        ({"features": "waves"}, "`features` must be one of 'auto', 'bounded', 'periodic'; got 'waves'"),
        ({"linear": "yes"}, "`linear` must be True or False; got 'yes'"),
        ({"network": "deep"}, "`network` must be None or a tggm.models.Network; got 'deep'"),
        ({"network": Network(), "hidden": 3}, "`hidden` must be 'auto' if `network` is given; got 3"),
        ({"network": Network(), "linear": True}, "`linear` must be 'auto' if `network` is given; got True"),
        ({"n_members": 0}, "`n_members` must be an integer of at least 1; got 0"),
        ({"learning_rate": float("nan")}, "`learning_rate` must be finite and greater than 0; got nan"),
        ({"learning_rate": "fast"}, "`learning_rate` must be a number; got 'fast'"),
        ({"weight_decay": -1}, "`weight_decay` must be finite and at least 0; got -1"),
        ({"cv": 1.0}, r"`cv` must be a fraction below 1, two folds or more, .*; got 1.0"),
        ({"cv": 1}, "`cv` must be a fraction .*; got 1"),
        ({"cv": "group"}, "`cv` must be a fraction .*; got 'group'"),
        ({"batch_size": 0}, "`batch_size` must be an integer of at least 1; got 0"),
        ({"max_epochs": 1.5}, "`max_epochs` must be an integer of at least 1; got 1.5"),
        ({"time_budget": 0}, "`time_budget` must be finite and greater than 0; got 0"),
        ({"optimizer": "newton"}, "`optimizer` must be one of 'adam', 'auto', 'muon', 'rmsprop', 'sgd'"),
        ({"dtype": "float16"}, "`dtype` must be one of 'float32', 'float64'; got 'float16'"),
        ({"standardize": "whole"}, "`standardize` must be 'robust', True or False; got 'whole'"),
        ({"standardize": 2}, "`standardize` must be True or False; got 2"),
        ({"standardize": "rows", "class_weight": None}, "'robust', 'whole', True or False; got 'rows'"),
        ({"target_transform": "sqrt"}, "`target_transform` must be one of 'auto', 'log'; got 'sqrt'"),
        ({"calibrate": "x"}, "`calibrate` must be True or False; got 'x'"),
        ({"guarantee": 1.0}, "`guarantee` must be finite and greater than 0 and less than 1; got 1.0"),
        ({"neighbors": True}, "`neighbors` must be an integer of at least 1; got True"),
        ({"verbose": "x"}, "`verbose` must be True or False; got 'x'"),
        ({"checkpoint": 3}, "`checkpoint` must be None or the name of a file; got 3"),
        ({"checkpoint": "c", "random_state": None}, "`checkpoint` needs an integer `random_state`"),
    ],
)
def test_bad_settings(settings, message):
    kind = TGGMClassifier if "class_weight" in settings else TGGMRegressor
    with pytest.raises(ValueError, match=message):
        kind(**settings).fit(X, y)


class Rows:
    """Sizes of a table, for `Settings.program`."""

    def __init__(self, columns, sparse=False):
        self.X, self.sparse, self.mean_weight = np.zeros((1, columns)), sparse, 1.0


def program(estimator, rows, columns=1, sparse=False):
    settings, rng = settings_of(estimator), np.random.default_rng(0)
    model = settings.network_for(columns, 2, sparse).draw(rng, 1, 1)
    return settings.program(model, Blocks(None, 1, rows, rows), Rows(columns, sparse), rng)


@pytest.mark.parametrize(
    ("rows", "batch", "rate"),
    [(100, 128, 0.01), (4096, 128, 0.01), (8192, 128, 0.01 / 2**0.5), (10**6, 256, 0.005)],
)
def test_batch_size_and_learning_rate_depend_on_the_number_of_rows(rows, batch, rate):
    found = program(TGGMRegressor(hidden=1), rows)
    assert found.plan.batch_size == batch
    assert_allclose(found.hyper.learning_rate, rate, rtol=1e-6)
    fixed = program(TGGMRegressor(hidden=1, max_epochs=300, batch_size=7), rows)
    assert (fixed.plan.batch_size, fixed.max_epochs, fixed.milestones) == (7, 300, None)
    assert_allclose(fixed.hyper.learning_rate, 0.01, rtol=1e-6)


def test_batch_size_of_a_classifier():
    for rows, sparse, batch in ((16_384, False, 128), (10**6, False, 512), (16_384, True, 512)):
        assert program(TGGMClassifier(hidden=1), rows, sparse=sparse).plan.batch_size == batch


def test_cycles_of_300_steps_triple_and_end_by_held_out_scores():
    found = program(TGGMRegressor(hidden=1), 1280)
    assert found.milestones.epochs == (30, 120, 390)  # ten steps of 128 rows per epoch
    assert found.max_epochs == 1200
    gains = [program(TGGMRegressor(hidden=1), rows).milestones.gain for rows in (1280, 40_000, 200_000)]
    assert_allclose(gains, [0.02, 0.02, 0.1])


@pytest.mark.parametrize(("columns", "rows", "decay"), [(10, 100, 0.1), (116, 200, 30.0), (116, 2000, 3.0)])
def test_weight_decay_of_a_regressor_falls_with_rows(columns, rows, decay):
    found = program(TGGMRegressor(hidden=1, features=None), rows, columns)
    assert_allclose(found.hyper.weight_decay, decay, rtol=1e-6)


@pytest.mark.parametrize(
    ("columns", "sparse", "units", "linear", "features", "decay"),
    [
        (200, False, (100, 100), True, Periodic, 5.0),
        (201, False, (100, 100), False, Bounded, 201 / 40),
        (200, True, (100,), False, Identity, 1.0),
    ],
)
def test_network_and_weight_decay_of_a_classifier(columns, sparse, units, linear, features, decay):
    network = settings_of(TGGMClassifier()).network_for(columns, 2, sparse)
    assert (network.units, network.linear, network.features) == (units, linear, features)
    found = program(TGGMClassifier(hidden=1, features=None, linear=False), 100, columns, sparse)
    assert_allclose(found.hyper.weight_decay, decay, rtol=1e-6)


@pytest.mark.parametrize(("outputs", "layers"), [(100, 2), (101, 1)])
def test_more_than_100_outputs_have_one_layer(outputs, layers):
    for kind in (TGGMRegressor, TGGMClassifier):
        assert len(settings_of(kind()).network_for(3, outputs, sparse=False).units) == layers


@pytest.mark.parametrize(("given", "few", "many"), [("auto", "adam", "muon"), ("adam", "adam", "adam")])
def test_the_optimiser_depends_on_the_number_of_rows(given, few, many):
    model = TGGMRegressor(hidden=1, optimizer=given)
    assert [program(model, rows).plan.optimizer for rows in (511, 512)] == [few, many]


def test_a_network_gives_the_parts_of_the_model():
    table = abs_table()
    network = Network((6,), Identity, linear=False)
    free = {"hidden": "auto", "features": "auto", "linear": "auto", "network": network}
    model = small_regressor(**free, **ALL_ROWS, max_epochs=100).fit(*table)
    assert type(model.fitted_.model.hidden) is Shallow
    assert model.layers_ == (6,)
    assert model.score(*table) > 0.6
