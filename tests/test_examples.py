"""The examples run and give the results that docs/examples.md describes.

Those that train for several seconds run in `make test-all`; tests of the packages check the same claims.
"""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold
from tools.notebooks import SCRIPTS

import tggm
from tests.estimators.small import abs_table, small_regressor
from tggm import TGGMRegressor

FAST = {"n_members": 2, "max_epochs": 2}
EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SCRIPTS)
def test_examples_import_and_have_at_most_40_lines(name):
    assert callable(load(name).main)
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 40


def test_a_model_is_predicted_by_mlflow_as_whole_distributions(tmp_path, monkeypatch):
    """Use a stand-in for MLflow, which calls `load_context` and `predict` in this way."""
    pyfunc = SimpleNamespace(PythonModel=object)
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(pyfunc=pyfunc))
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", pyfunc)
    X, y = abs_table()
    model = small_regressor(max_epochs=2).fit(X, y)
    tggm.save(model, tmp_path / "m.tggm")
    served = load("mlflow_model").Distributions()
    served.load_context(SimpleNamespace(artifacts={"model": tmp_path / "m.tggm"}))
    found = served.predict(None, X, {"quantiles": [0.1, 0.9]})
    assert list(found) == ["mean", "std", "q0.1", "q0.9"]
    np.testing.assert_allclose(found["q0.9"], model.predict_dist(X).ppf(0.9))


def test_trials_of_optuna_are_scored_by_the_crps():
    X, y = abs_table()
    sizes = {"units": 6, "layers": 1}
    trial = SimpleNamespace(
        suggest_int=lambda name, *_, **__: sizes[name], suggest_float=lambda *_, **__: 1.0
    )
    settings = {"n_members": 2, "max_epochs": 2, "batch_size": 32}
    score = load("optuna_search").objective(trial, X, y, **settings)
    model = TGGMRegressor(hidden=(6,), weight_decay=1.0, random_state=0, **settings)
    parts = [model.fit(X[a], y[a]).predict_dist(X[b]).crps(y[b]).mean() for a, b in KFold(3).split(X)]
    assert score == pytest.approx(np.mean(parts), rel=1e-3)


def test_skpro_gets_the_quantiles_of_each_row(monkeypatch):
    base = type(
        "Base", (), {"__init__": lambda self: None, "get_params": lambda self: {**FAST, "random_state": 0}}
    )
    given = SimpleNamespace(Empirical=lambda draws, index, columns: draws, BaseProbaRegressor=base)
    for name in ("skpro", "skpro.distributions", "skpro.regression", "skpro.regression.base"):
        monkeypatch.setitem(sys.modules, name, given)
    X, y = abs_table()
    rows, target = pd.DataFrame(X), pd.DataFrame({"y": y})
    model = load("skpro_adapter").SkproRegressor(**FAST, random_state=0)._fit(rows, target)
    draws = model._predict_proba(rows[:5])
    assert draws.shape == (999 * 5, 1)
    np.testing.assert_allclose(draws.xs(3, level=1)["y"].mean(), model.model_.predict(rows[3:4]), atol=0.02)


def test_skew_normal():
    assert load("skew_normal").main() < 1e-10


@pytest.mark.slow
def test_shallow_regression():
    error, log_density = load("shallow_regression").main()
    assert error < 0.25
    assert log_density > 0.2  # at most 0.88 with noise 0.1; −1.2 with a constant mean


@pytest.mark.slow
def test_deep_undirected():
    error, spread = load("deep_undirected").main(epochs=50)
    assert error < 0.4 * spread


@pytest.mark.slow
def test_censored_regression():
    used, dropped = load("censored_regression").main()
    assert used < 0.25
    assert dropped > 1.5 * used


@pytest.mark.slow
def test_ordinal_regression():
    defect, accuracy = load("ordinal_regression").main()
    assert defect < 0.02  # EP's error
    assert accuracy > 0.6


@pytest.mark.slow
def test_missing_targets():
    moved, narrowed = load("missing_targets").main(epochs=240)
    assert moved > 0.3  # y2 = 0.8 is 0.8 above its mean, and most of the noise is common
    assert narrowed < 0.7


@pytest.mark.slow
def test_unsupervised():
    log_density, gaussian, skew = load("unsupervised").main()
    assert log_density > gaussian + 0.1
    assert skew > 0.8


@pytest.mark.slow
def test_digits():
    score, error = load("digits").main(rows=500, images=100, hidden=48, epochs=40)
    assert score[0] > score[1] + 1  # factor analysis
    assert error[0] < error[1]
    assert error[0] < 0.25  # 0.31 without the upper half


@pytest.mark.slow
def test_claims():
    error, below = load("claims").main()
    assert error < 0.05  # of P(claims > amount), in each third of the policies
    assert abs(below - 0.95) < 0.015


@pytest.mark.slow
def test_survival():
    error, order = load("survival").main()
    assert error < 0.1  # 21 % of the rows have a known end after the middle of the times
    assert order > 0.84  # with the true scale 0.87


@pytest.mark.slow
def test_rounded_targets():
    slope, noise = load("rounded_targets").main()
    assert slope < 0.02
    assert noise < 0.1  # EP's error; 0.25 if rounding is ignored
