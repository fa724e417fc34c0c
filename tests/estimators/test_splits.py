"""Parts of a table trained in one program end where the estimator's own `fit` would have left them."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from tggm.estimators.ensemble import report

from tggm import TGGMRegressor, fit_together

SETTINGS = {
    "hidden": (4,),
    "n_members": 2,
    "batch_size": 16,
    "max_epochs": 20,
    "patience": None,
    "dtype": "float64",
}


@pytest.fixture
def table(rng):
    X = 1e3 + rng.standard_normal((60, 2))
    return X, np.abs(X[:, 0] - 1e3) + 0.1 * rng.standard_normal(60)


def test_parts_trained_together_equal_parts_trained_alone(table):
    X, y = table
    parts = [np.arange(50), np.arange(10, 60)]
    own = [
        {"random_state": 1},
        {"random_state": 2, "sigma0": 0.5, "learning_rate": 0.01, "weight_decay": 3.0},
    ]
    together = fit_together([TGGMRegressor.one_layer(**SETTINGS, **more) for more in own], X, y, parts)
    for model, more, part in zip(together, own, parts, strict=True):
        alone = TGGMRegressor.one_layer(**SETTINGS, **more).fit(X[part], y[part])
        assert_allclose(model.predict(X), alone.predict(X), rtol=1e-8)
        assert_allclose(model.noise_, alone.noise_, rtol=1e-8)
        assert_allclose(model.history_["held_out"], alone.history_["held_out"], rtol=1e-8, atol=1e-10)
        assert model.best_epoch_.tolist() == alone.best_epoch_.tolist()


def test_a_warning_names_the_line_that_called():
    result = SimpleNamespace(failed=np.ones(2, np.bool_), state=SimpleNamespace(step=3), interrupted=False)
    with pytest.warns(ConvergenceWarning, match="2 of 2 members") as told:
        report(result, 2, 0.1)  # the way to it is shorter from `fit_together` than from `fit`
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"method": "bp"}, "they differ in method. Fit those apart."),
        ({"n_members": 3, "dtype": "float32"}, "they differ in dtype, n_members."),
    ],
)
def test_settings_that_one_program_cannot_mix_are_named(table, changed, message):
    models = [TGGMRegressor.one_layer(**SETTINGS), TGGMRegressor.one_layer(**{**SETTINGS, **changed})]
    with pytest.raises(ValueError, match=message):
        fit_together(models, *table, [np.arange(30)] * 2)


def test_models_that_need_their_own_fit_are_refused(table):
    with pytest.raises(ValueError, match="one hidden layer, lateral=0, no checkpoint, and neither"):
        fit_together([TGGMRegressor.one_layer(hidden=(3, 3))], *table, [np.arange(30)])
    with pytest.raises(ValueError, match="got 1 for 2 models"):
        fit_together([TGGMRegressor.one_layer(), TGGMRegressor.one_layer()], *table, [np.arange(30)])
