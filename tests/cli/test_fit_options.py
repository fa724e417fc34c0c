"""Options of `tggm fit`: settings, columns, held-out rows, progress and notes."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

import tggm
from tests.cli.commands import answer, complaint, fit_options, write
from tggm.cli import run
from tggm.cli.files import CommandError
from tggm.cli.training import MOST_HELD_OUT, Progress, build_estimator, split, split_rows
from tggm.report.scores import hint
from tggm.tables import Target
from tggm.training.loop import Trace

SMALL = ["--hidden", "4,3", "--members", "2", "--epochs", "10"]  # less to compile than one layer


def test_settings_are_numbers_words_and_tuples():
    settings = ("hidden=(20, 4)", "batch_size=64", "linear=False", "features=None", "class_weight=balanced")
    model = build_estimator(fit_options(*(f"--set={setting}" for setting in settings)), True, 500)
    assert (model.hidden, model.batch_size, model.linear, model.features) == ((20, 4), 64, False, None)
    assert model.class_weight == "balanced"


def test_notes_describe_the_encoding_of_columns(tmp_path, capsys):
    doses = [f"{(k * k) % 97}.5" if k % 5 else "<LOD" for k in range(60)]
    table = [(doses[k], f"{k * k:,} km", f"2024-01-{k % 28 + 1:02d}", k % 5, k % 5 + 1) for k in range(60)]
    file = write(tmp_path / "t.csv", table, ("dose", "driven", "day", "ill", "sick"))
    assert run(["fit", file, "-t", "ill", "-o", str(tmp_path / "m.tggm"), *SMALL]) == 0
    said = capsys.readouterr().err
    shown = (
        "5 different whole numbers; as a number: --task regression",  # counts that become classes
        "dose: numbers with marks ('<LOD')", "driven: ",
        "note: columns are left out: sick (it repeats the target)",
    )  # fmt: skip
    assert all(text in said for text in shown)
    told = answer(capsys, "info", str(tmp_path / "m.tggm"))
    shown = ("dose: number marked <LOD", "driven: number in km", "day: date, encoded as trend")
    assert all(text in told for text in shown)


def figures(ours, linear, key="rmse", more="log_density"):
    return {
        "model": {key: ours, more: 0.0, "cover50": 0.5, "cover90": 0.9, "crps": 1.0},
        "linear": {key: linear, more: 0.1, "cover50": 0.5, "cover90": 0.9, "crps": 1.0},
    }


def test_the_hint_compares_with_a_linear_model():
    assert "is better on these rows (RMSE 1.17 against 5.2)" in hint(figures(5.2, 1.17))
    assert "is as good" in hint(figures(1.0, 1.01))
    assert hint(figures(1.0, 1.5)) == ""  # the likelihood is larger, but so is the error
    assert "is better on these rows (log-loss" in hint(figures(0.5, 0.4, "log_loss", "ece"))
    assert "is as good" in hint(figures(0.5, 0.49, "log_loss", "ece"))
    assert hint(figures(0.4, 0.5, "log_loss", "ece")) == ""
    assert hint({"model": {}}) == ""


def test_dates_are_copied(tmp_path, capsys):
    table = [(f"2024-01-{k % 28 + 1:02d}", f"{k}.123456789012", k * 7 % 23 / 2) for k in range(60)]
    file = write(tmp_path / "t.csv", table, ("day", "x", "y"))
    model = str(tmp_path / "m.tggm")
    assert run(["fit", file, "-t", "y", "-o", model, *SMALL, "--quiet"]) == 0
    copied = answer(capsys, "predict", model, file, "--inputs", "--quiet").splitlines()
    assert copied[2].startswith("2024-01-02,1.123456789012,3.5,")
    (first, *_) = json.loads(answer(capsys, "predict", model, file, "--inputs", "--json", "--quiet"))
    assert (first["day"], first["y_observed"]) == ("2024-01-01", 0.0)


def test_a_guarantee_equals_that_of_python(tmp_path):
    """Rows that are set aside must not be used for target encodings: both ways set the same rows aside."""
    rng = np.random.default_rng(0)
    town, x = rng.integers(0, 80, 300), rng.normal(size=300)
    y = [f"{0.1 * k + v + rng.normal():.6f}" for k, v in zip(town, x, strict=True)]
    frame = pd.DataFrame({"town": [f"town {k}" for k in town], "x": x.round(6), "y": y})
    frame.to_csv(file := str(tmp_path / "t.csv"), index=False)
    words = shlex.split("--test-size 0 --guarantee 0.8 --hidden 4,3 --members 2 --epochs 5 --quiet")
    assert run(["fit", file, "-t", "y", "-o", str(tmp_path / "m.tggm"), *words]) == 0
    frame = pd.read_csv(file)
    model = tggm.TGGMRegressor(hidden=(4, 3), n_members=2, max_epochs=5, guarantee=0.8, random_state=0)
    model.fit(frame[["town", "x"]], frame["y"])
    ours = tggm.load(tmp_path / "m.tggm")
    assert ours.table_.columns_ == model.table_.columns_
    ends = (np.stack(m.predict_interval(frame, 0.8, guarantee=True)) for m in (ours, model))
    np.testing.assert_array_equal(*ends)


def test_given_columns_and_words_are_stored_with_the_model(tmp_path, capsys):
    table = [(k, k % 4, "lost" if k % 7 == 0 else f"{k * k % 31}", k * 7 % 23) for k in range(60)]
    file, model = write(tmp_path / "t.csv", table, ("id", "zone", "x", "y")), str(tmp_path / "m.tggm")
    words = shlex.split("--ignore id --categorical zone --missing lost --task regression --quiet")
    assert run(["fit", file, "-t", "y", "-o", model, *SMALL, *words]) == 0
    told = answer(capsys, "info", model)
    assert "zone: one of 0, 1, 2, 3" in told
    assert "id: as requested" in told
    lines = answer(capsys, "predict", model, file, "--quiet").splitlines()[1:]
    predicted = [float(line.split(",")[0]) for line in lines]
    again = tggm.load(model, backend="numpy").predict(pd.read_csv(file))
    np.testing.assert_allclose(again, predicted, rtol=1e-9)


def test_held_out_rows_are_a_random_part():
    y = np.arange(100.0)
    train, test = split(y, 0.2, 0, stratified=False)
    assert sorted([*train, *test]) == list(range(100))
    assert len(test) == 20
    assert not np.array_equal(test, split(y, 0.2, 1, stratified=False)[1])
    assert np.array_equal(test, split(y, 0.2, 0, stratified=False)[1])
    assert len(split(y, 0.0, 0, stratified=False)[1]) == 0
    assert len(split(np.zeros(200_000), 0.2, 0, stratified=False)[1]) == MOST_HELD_OUT


def test_held_out_rows_are_stratified_by_class():
    y = np.repeat(["a", "b", "c", "d"], [50, 10, 2, 1])
    train, test = split(y, 0.4, 0, stratified=True)
    assert sorted([*train, *test]) == list(range(63))
    assert [int(np.sum(y[test] == c)) for c in "abcd"] == [20, 4, 1, 0]
    train, _ = split(y, 0.9, 0, stratified=True)
    assert set(y[train]) == set("abcd")


def test_settings_depend_on_the_number_of_rows_unless_given():
    small, large = (build_estimator(fit_options(), False, n) for n in (500, 100_000))
    assert (small.hidden, small.n_members, large.hidden, large.n_members) == ("auto", 10, "auto", 5)
    assert build_estimator(fit_options(), True, 500).n_members == 5
    options = fit_options(*["--hidden", "7,5", "--members", "2", "--epochs", "9", "--seed", "3"])
    for is_class in (True, False):
        model = build_estimator(options, is_class, 500)
        got = (model.hidden, model.n_members, model.max_epochs, model.random_state)
        assert got == ((7, 5), 2, 9, 3)
    whole, quick = (build_estimator(fit_options(*words), False, 10_000) for words in ([], ["--quick"]))
    assert quick.n_members == 4 < whole.n_members
    assert (whole.max_epochs, quick.max_epochs) == ("auto", 102)  # 2,000 steps of 512 rows
    assert build_estimator(fit_options("--quick", "--epochs", "7"), False, 10_000).max_epochs == 7


def test_progress_is_in_units_of_the_target(capsys):
    progress = Progress(False, np.array([0.0, 2 * np.e]))  # with the standard deviation e
    progress.planned(601)
    progress.progressed(1, Trace(np.zeros((1, 1)), np.ones((1, 1))))
    assert capsys.readouterr().err == "epoch 1  log-likelihood -1.0000  held out 0.0000\n"


def test_the_test_part_is_the_last_rows_or_whole_groups():
    y, groups = np.arange(50.0), np.repeat([f"g{k}" for k in range(10)], 5)
    target = Target("y", "regression", False)
    train, test, _ = split_rows(y, groups, fit_options("--test-last", "0.2"), target)
    assert (train.tolist(), test.tolist()) == (list(range(40)), list(range(40, 50)))
    for share, count in (("0.2", 2), ("0.01", 1), ("0.99", 9)):
        options = fit_options("--test-groups", share, "--seed", "1")
        train, test, how = split_rows(y, groups, options, target)
        assert how == f" ({count} of 10 groups)"
        assert len(test) == 5 * count
        assert not set(groups[test]) & set(groups[train])
    kind = Target("y", "classification", False)
    with pytest.raises(CommandError, match="all rows of class 'b' are in the test part"):
        split_rows(np.repeat(["a", "b"], [40, 10]), None, fit_options("--test-last", "0.2"), kind)


def test_groups_of_the_command_line_equal_those_of_python(tmp_path, capsys):
    rng = np.random.default_rng(0)
    store, x = np.repeat(np.arange(30), 4), rng.normal(size=120)
    y = x + rng.normal(size=30)[store]
    file = write(tmp_path / "t.csv", np.column_stack([store, x, y]).tolist(), ("store", "x", "y"))
    path, words = str(tmp_path / "m.tggm"), ["--groups", "store", "--test-groups", "0.3", "--members", "4"]
    assert run(["fit", file, "-t", "y", "-o", path, *SMALL, *words, "--guarantee", "0.8"]) == 0
    assert "36 held out (9 of 30 groups)" in capsys.readouterr().err
    found = tggm.load(path)
    assert found.feature_names_in_.tolist() == ["x"]
    frame = pd.read_csv(file)
    options, target = fit_options("--test-groups", "0.3"), Target("y", "regression", False)
    train, _, _ = split_rows(y, frame["store"].astype(int).to_numpy(), options, target)
    settings = {"hidden": (4, 3), "n_members": 4, "max_epochs": 10, "guarantee": 0.8, "random_state": 0}
    part = frame.iloc[train]
    model = tggm.TGGMRegressor(**settings).fit(part[["x"]], part["y"], groups=part["store"])
    np.testing.assert_allclose(found.fitted_.guarantee, model.fitted_.guarantee, rtol=1e-9)
    one = write(tmp_path / "one.csv", [(1, a, b) for a, b in zip(x, y, strict=True)], ("store", "x", "y"))
    assert run(["fit", one, "-t", "y", "--groups", "store", "-o", path, "--force", *SMALL]) == 2
    assert "--groups must have at least two different values" in capsys.readouterr().err


def test_sets_of_classes_are_predicted(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=150)
    kinds = np.array(["low", "mid", "top"])[np.digitize(x + 0.5 * rng.normal(size=150), [-0.5, 0.5])]
    file, path = write(tmp_path / "t.csv", zip(x, kinds, strict=True), ("x", "kind")), str(tmp_path / "m")
    assert run(["fit", file, "-t", "kind", "-o", path, *SMALL, "--guarantee", "0.8", "--quiet"]) == 0
    lines = answer(capsys, "predict", path, file, "--guarantee", "--interval", "0.8", "--quiet").splitlines()
    assert lines[0] == "kind,kind_probability,kind_set,p(low),p(mid),p(top),novelty"
    sets = [line.split(",")[2].split("|") for line in lines[1:]]
    assert all(line.split(",")[0] in found for line, found in zip(lines[1:], sets, strict=True))
    assert max(map(len, sets)) > 1


def test_limits_of_the_target_are_found_or_given(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = np.maximum(np.round(2 * x + rng.normal(size=200), 3), 0.0)
    table = [(f"{a:.4f}", b) for a, b in zip(x, y, strict=True)]
    file, model = write(tmp_path / "t.csv", table, ("x", "y")), str(tmp_path / "m.tggm")
    words = ["fit", file, "-t", "y", "-o", model, *SMALL, "--force"]
    assert "target    from 0 on" in answer(capsys, *words)
    assert "values: from 0 on" in answer(capsys, "info", model)
    assert tggm.load(model).predict_interval(pd.DataFrame({"x": x}))[0].min() == 0
    assert "target    from -1 to 100" in answer(capsys, *words, "--lower", "-1", "--upper", "100")
    assert "--lower and --upper" in complaint(capsys, *words, "--quiet", "--lower", "1")


def test_censored_targets_have_a_column_of_sides(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x, end = rng.normal(size=80), rng.normal(size=80) + 0.5
    y = x + 0.3 * rng.normal(size=80)
    table = list(zip(x, np.minimum(y, end), (y > end).astype(int), np.where(y > 0, "a", "b"), strict=True))
    file = write(tmp_path / "t.csv", table, ("x", "y", "at_least", "kind"))
    model = str(tmp_path / "m.tggm")
    fit = ["fit", file, "-t", "y", "--ignore", "kind", *SMALL, "--json"]
    facts = json.loads(answer(capsys, *fit, "--censored", "at_least", "-o", model))
    assert facts["columns"] == ["x"]
    assert set(facts["figures"]["model"]) == {"log_density", "concordance", "brier"}
    text = answer(capsys, "evaluate", model, file, "--censored", "at_least")
    assert "concordance" in text
    assert "sides are 'left'" in complaint(capsys, *fit, "--quiet", "--censored", "x")
    classes = ["fit", file, "-t", "kind", "--quiet", "--censored", "at_least"]
    assert "is for numbers, but the target has classes" in complaint(capsys, *classes)
