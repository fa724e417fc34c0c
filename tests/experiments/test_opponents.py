"""What opponents are judged by, and that a run goes on where it was cut."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import opponents
from opponent_models import OPPONENTS

from tables import DevelopmentTable, Split

PLAIN = [name for name, opponent in OPPONENTS.items() if not opponent.package]


@pytest.fixture
def tables(monkeypatch, rng):
    """A line with noise of deviation 0.1, and the sign of a column in words."""
    X = rng.standard_normal((120, 2))
    y = 3 * X[:, 0] + 0.1 * rng.standard_normal(120)
    label = np.where(X[:, 0] > 0, "up", "down")
    small = {
        "line": DevelopmentTable("line", "regression", lambda k: Split(X[20:], y[20:], X[:20], y[:20])),
        "side": DevelopmentTable(
            "side", "classification", lambda k: Split(X[20:], label[20:], X[:20], label[:20])
        ),
    }
    monkeypatch.setattr(opponents, "TABLES", small)
    return small


def test_gaussian_figures_are_those_of_quadrature():
    y, mean, std = np.array([1.0, -2.0]), np.array([0.5, 1.0]), np.array([2.0, 0.7])
    found = opponents.gaussian_figures(y, mean, std)

    def crps_of(v, m, s):  # ∫ (F(t) - 1[t >= v])² dt
        below, above = (lambda t: norm.cdf(t, m, s) ** 2), (lambda t: norm.sf(t, m, s) ** 2)
        return quad(below, -30, v)[0] + quad(above, v, 30)[0]

    crps = [crps_of(*row) for row in zip(y, mean, std, strict=True)]
    assert np.isclose(found["crps"], np.mean(crps), rtol=1e-6)
    assert np.isclose(found["rmse"], np.sqrt((0.25 + 9) / 2))
    assert np.isclose(found["ll"], np.mean(norm.logpdf(y, mean, std)))
    assert (found["cover50"], found["cover90"]) == (0.5, 0.5)


def test_class_figures_follow_the_order_of_labels_and_stay_finite():
    probability = np.array([[0.9, 0.1], [1.0, 0.0]])
    found = opponents.class_figures(np.array(["a", "b"]), np.array(["a", "b"]), probability)
    assert found["error"] == 0.5
    assert np.isclose(found["ll"], (np.log(0.9) + np.log(1e-15)) / 2)


@pytest.mark.parametrize("model", [m for m in PLAIN if m != "mean"])
@pytest.mark.filterwarnings("ignore")  # of networks that have not converged
def test_opponents_beat_the_mean(tables, model):
    for table in tables:
        if (table, model, 0) in opponents.plan([table], [model], 1):
            found, least = opponents.work(table, model, 0), opponents.work(table, "mean", 0)
            assert found["ll"] > least["ll"]
    assert opponents.work("line", model, 0)["rmse"] < 1.5


def test_ridge_knows_the_width_of_the_noise(tables):
    split = tables["line"].split(0)
    _, std = OPPONENTS["ridge"].regression(split.X_train, split.y_train, 0)(split.X_test)
    assert np.allclose(std, 0.1, rtol=0.2)


def test_a_process_is_not_asked_for_classes_or_too_many_rows(tables, monkeypatch):
    assert opponents.plan(["line", "side"], ["gp"], 1) == [("line", "gp", 0)]
    monkeypatch.setitem(opponents.OPPONENTS, "gp", OPPONENTS["gp"]._replace(most_rows=99))
    assert opponents.plan(["line"], ["gp"], 1) == []


def test_slow_models_on_large_tables_come_last(tables, monkeypatch):
    monkeypatch.setattr(opponents, "LARGE", ("line",))
    order = [task[:2] for task in opponents.plan(["line", "side"], ["mlp", "ridge"], 1)]
    assert order == [("side", "mlp"), ("side", "ridge"), ("line", "ridge"), ("line", "mlp")]


def test_a_failure_is_a_result(tables, monkeypatch):
    def fit(X, y, seed):
        raise ValueError("singular")

    monkeypatch.setitem(opponents.OPPONENTS, "ridge", OPPONENTS["ridge"]._replace(regression=fit))
    assert opponents.work("line", "ridge", 0) == {"failed": "ValueError: singular"}


def test_what_is_not_installed_is_left_out_with_the_remedy(monkeypatch, capsys):
    monkeypatch.setitem(opponents.OPPONENTS, "ngboost", OPPONENTS["ngboost"]._replace(package="no_such_one"))
    assert opponents.installed(["ridge", "ngboost"]) == ["ridge"]
    assert "pip install no_such_one" in capsys.readouterr().out


def test_a_run_goes_on_where_it_was_cut(tables, monkeypatch, tmp_path, capsys):
    out = tmp_path / "opponents.json"
    words = ["opponents.py", "--models", "mean,ridge", "--out", str(out)]
    monkeypatch.setattr(opponents, "begin", lambda: None)  # handlers of signals stay as they are
    monkeypatch.setattr(sys, "argv", words)
    args = opponents.arguments()
    args.tables = ["line"]
    monkeypatch.setattr(opponents, "arguments", lambda: args)
    args.splits = 1
    opponents.main()
    first = json.loads(out.read_text())["runs"]
    args.splits = 2
    opponents.main()
    both = json.loads(out.read_text())["runs"]
    assert list(first) == ["line mean 0", "line ridge 0"]
    assert set(both) == {*first, "line mean 1", "line ridge 1"}
    assert all(both[name] == run for name, run in first.items())
    assert all(run["commit"] and run["device"] for run in both.values())
    assert "* not all splits" in capsys.readouterr().out


def test_catboost_is_told_which_columns_are_words():
    pytest.importorskip("catboost")
    X = pd.DataFrame({"x": [1.0, np.nan, 3.0] * 10, "word": ["a", None, "b"] * 10})
    predict = OPPONENTS["catboost"].regression(X, np.arange(30.0), 0)
    mean, std = predict(X.iloc[:4])
    assert np.isfinite(mean).all()
    assert (std > 0).all()
