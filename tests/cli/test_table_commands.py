"""fit, predict, evaluate and info on a table with words and missing values, through the command line."""

import csv
import io
import json
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

import tggm
from tests.cli.commands import answer, complaint, rows, write
from tggm.cli import run
from tggm.cli.files import interruption, table_bytes
from tggm.tables import read_table

SMALL = ["--hidden", "4", "--members", "2", "--epochs", "20"]
LAYERS = ["--hidden", "4,3", *SMALL[2:]]  # whose density takes less to compile than that of one
Q = "--quiet"
NAMES = ("area", "garden", "heating")
SCORES = (metrics.accuracy_score, metrics.precision_score, metrics.recall_score, metrics.f1_score)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make data, and fit a model to them by the command line; tables of one length share their programs."""
    folder = tmp_path_factory.mktemp("commands")
    train = write(folder / "train.csv", rows(90, 0))
    write(folder / "test.csv", rows(90, 1))
    # classes: expensive or cheap
    for name, source in (("ctrain.csv", 0), ("ctest.csv", 1)):
        table = [(*r[:3], "expensive" if float(r[3]) > 300 else "cheap") for r in rows(90, source)]
        write(folder / name, table, ("area", "garden", "heating", "kind"))
    assert run(["fit", train, "-t", "price", "-o", str(folder / "m.tggm"), *LAYERS, Q]) == 0
    words = ["fit", str(folder / "ctrain.csv"), "-t", "kind", "-o", str(folder / "c.tggm"), *SMALL, Q]
    assert run(words) == 0
    return folder


def test_fit_prints_notes_and_a_summary(folder, tmp_path, capsys):
    file = str(tmp_path / "m.tggm")
    assert run(["fit", str(folder / "train.csv"), "-t", "price", "-o", file, *LAYERS]) == 0
    out, err = capsys.readouterr()
    assert "regression of 'price' (the target has numbers): 72 rows to train on, 18 held out" in err
    assert "note: area: 10 rows without a value, filled with the median" in err
    shown = ("4-3 hidden units, 2 members, 20 epochs", "RMSE", "CRPS", "linear model", file)
    assert all(words in out for words in shown)


def test_scores_are_computed_on_held_out_rows(folder, tmp_path, capsys):
    file, held = str(tmp_path / "m.tggm"), str(tmp_path / "held.csv")
    text = answer(capsys, "fit", str(folder / "train.csv"), "-t", "price", "-o", file, *LAYERS, "--json",
                  "--test-output", held)  # fmt: skip
    facts = json.loads(text)
    assert (facts["rows"], facts["held_out"], facts["task"]) == (72, 18, "regression")
    assert facts["columns"] == ["area", "garden", "heating"]
    # by hand, from the public API and the rows that were written out
    table = read_table(held)
    dist, y = tggm.load(file).predict_dist(table), table.numbers("price")
    got = facts["figures"]["model"]
    assert got["rmse"] == pytest.approx(np.sqrt(np.mean((dist.mean() - y) ** 2)))
    assert got["log_density"] == pytest.approx(np.mean(dist.logpdf(y)))
    low, high = dist.interval(0.9)
    assert got["cover90"] == pytest.approx(np.mean((low <= y) & (y <= high)))
    naive = np.loadtxt(folder / "train.csv", delimiter=",", skiprows=1, usecols=3)
    assert facts["figures"]["naive"]["rmse"] > naive.std() / 2
    again = json.loads(answer(capsys, "evaluate", file, held, "--json"))
    assert again["figures"] == facts["figures"]


@pytest.mark.parametrize("ends", [False, True])
def test_ctrl_c_keeps_the_best_so_far(folder, tmp_path, monkeypatch, capsys, ends):
    """Interrupt training, or what follows it."""
    from tggm.cli.training import Progress

    reported, progressed = [], Progress.progressed

    def impatient(self, epochs, trace):
        reported.append(epochs)
        interruption.asked = epochs >= 6 and not ends
        progressed(self, epochs, trace)

    monkeypatch.setattr(Progress, "progressed", impatient)
    monkeypatch.setattr(Progress, "ended", lambda *_: setattr(interruption, "asked", True))
    file = tmp_path / "m.tggm"
    assert run(["fit", str(folder / "train.csv"), "-t", "price", "-o", str(file), *LAYERS]) == 130
    out, err = capsys.readouterr()
    assert f"interrupted: the {'whole model' if ends else 'best model so far'} is written" in err
    assert f"{reported[-1]} epochs" in out
    assert (reported[-1] == 20) is ends
    model = tggm.load(file)
    assert (model.n_iter_, model.converged_, model.verbose) == (reported[-1], ends, False)


def test_a_fit_continues_from_its_checkpoint(folder, tmp_path, monkeypatch, capsys):
    from tggm.training.checkpoint import CheckpointFile

    file, kept = tmp_path / "m.tggm", tmp_path / "kept"
    words = ["fit", str(folder / "train.csv"), "-t", "price", "-o", str(file), *LAYERS]
    words += ["--checkpoint", str(kept)]

    def killed(self, state):
        if state.train.shape[1] >= 6:
            self._last = state
            self.write()
            raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFile, "keep", killed)
        with pytest.raises(RuntimeError, match="killed"):
            run(words)
    assert not file.exists()
    assert complaint(capsys, *words, "--seed", "1", "--quiet").endswith("delete it.\n")
    with pytest.raises(tggm.ModelFileError, match="checkpoint"):
        tggm.load(kept)
    assert run(words) == 0
    assert "continuing after epoch " in capsys.readouterr().err
    model, witness = tggm.load(file), tggm.load(folder / "m.tggm")
    assert np.array_equal(model.W0_, witness.W0_)
    assert np.array_equal(model.history_["train"], witness.history_["train"])
    assert not kept.exists()


def table_rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def pipe(content=b""):
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", write_through=True)


def test_a_model_can_be_piped(folder, monkeypatch, capsys):
    words = ["fit", "-", "-t", "price", "-o", "-", Q, *LAYERS, "--epochs", "1"]
    with monkeypatch.context() as patch:
        given, sent, said = pipe((folder / "train.csv").read_bytes()), pipe(), io.StringIO()
        for name, stream in (("stdin", given), ("stdout", sent), ("stderr", said)):
            patch.setattr(sys, name, stream)
        assert run(words) == 0
    assert said.getvalue() == ""
    monkeypatch.setattr(sys, "stdin", pipe(sent.buffer.getvalue()))
    assert "regression of 'price'" in answer(capsys, "info", "-")


def test_predictions_of_few_rows_import_neither_jax_nor_scikit_learn(folder):
    for model in ("m", "c"):
        words = ["predict", str(folder / f"{model}.tggm"), str(folder / f"{model.strip('m')}test.csv"), Q]
        end = "{'jax', 'sklearn'} & {*sys.modules}"
        code = f"import sys; from tggm.cli import run; print(run({words}), {end})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "0 set()"


def test_predictions_of_a_regression(folder, tmp_path, capsys):
    words = ["predict", str(folder / "m.tggm"), str(folder / "test.csv"), "--interval", "0.8"]
    text = answer(capsys, *words, "--quantiles", "0.1,0.5")
    got = table_rows(text)
    model, X = tggm.load(folder / "m.tggm", backend="numpy"), read_table(str(folder / "test.csv"))
    columns = {name: [float(row[name]) for row in got] for name in got[0]}
    np.testing.assert_allclose(columns["price"], model.predict(X), rtol=1e-9)
    dist = model.predict_dist(X)
    np.testing.assert_allclose(columns["price_std"], dist.std(), rtol=1e-5)
    np.testing.assert_allclose(columns["novelty"], model.novelty(X), atol=6e-4)
    for name, level in (("price_low", 0.1), ("price_high", 0.9), ("price_q0.1", 0.1), ("price_q0.5", 0.5)):
        np.testing.assert_allclose(dist.cdf(columns[name]), level, atol=1e-6)
    assert run([*words, "--inputs", "-o", str(tmp_path / "p.parquet")]) == 0
    stored = pd.read_parquet(tmp_path / "p.parquet")
    np.testing.assert_allclose(stored["price"], columns["price"], rtol=1e-9)
    assert [stored[name].dtype.kind for name in ("area", "price_observed")] == ["f", "f"]
    assert run([*words, "--inputs", "-o", str(tmp_path / "p.xlsx")]) == 0
    sheet = pd.read_excel(tmp_path / "p.xlsx")
    assert list(sheet) == list(stored)
    pd.testing.assert_frame_equal(*(frame.select_dtypes("float") for frame in (sheet, stored)))
    assert run([*words, "-o", str(tmp_path / "p.json")]) == 0
    assert json.loads((tmp_path / "p.json").read_text())[0].keys() >= {"price", "price_std"}
    assert "p.xls: tables are written as .xlsx, " in complaint(capsys, *words, "-o", str(tmp_path / "p.xls"))
    (tmp_path / "e.xlsx").write_bytes(table_bytes("e.xlsx", {"a": np.array(["=1+1", "b"], dtype=object)}))
    assert read_table(str(tmp_path / "e.xlsx")).words("a").tolist() == ["=1+1", "b"]  # text, no formula
    cells = {"@a": np.array(["=1+1", " +cmd", "\uff1d1", "-3.5", "b=1"], dtype=object), "b": np.full(5, -1.0)}
    assert table_bytes("-", cells).decode().splitlines()[:2] == ["@a,b", "=1+1,-1"]
    text = table_bytes("-", cells, escape=True).decode()
    assert text == "'@a,b\n'=1+1,-1\n' +cmd,-1\n'\uff1d1,-1\n-3.5,-1\nb=1,-1\n"


def test_formulas_are_escaped_on_request(folder, tmp_path, capsys):
    table = [(*r[:3], "=2+2" if float(r[3]) > 300 else "-cheap") for r in rows(90, 0)]
    data = write(tmp_path / "t.csv", table, ("area", "garden", "@heating", "kind"))
    model, held = str(tmp_path / "m.tggm"), tmp_path / "held.csv"
    escape = ["--escape-formulas", Q]
    assert run(["fit", data, "-t", "kind", "-o", model, *SMALL, "--test-output", str(held), *escape]) == 0
    for text in (held.read_text(), answer(capsys, "predict", model, data, "--inputs", *escape)):
        names, *found = csv.reader(io.StringIO(text))
        assert "'@heating" in names
        assert {row[names.index("kind")] for row in found} == {"'=2+2", "'-cheap"}
    assert answer(capsys, "predict", model, data, Q).splitlines()[1].startswith(("=2+2,", "-cheap,"))


def test_guaranteed_intervals(folder, tmp_path, capsys):
    words = [str(folder / "m.tggm"), str(folder / "test.csv")]
    err = complaint(capsys, "predict", *words, "--guarantee", "--quiet")
    assert "no rows were set aside for it" in err
    assert "tggm fit --guarantee 0.9" in err
    model, table = tggm.load(folder / "m.tggm"), read_table(str(folder / "train.csv"))
    tggm.save(model.recalibrate(table, table.numbers("price")), tmp_path / "g.tggm")
    words[0] = str(tmp_path / "g.tggm")
    again = table_rows(answer(capsys, "predict", *words, "--guarantee", "--interval", "0.8"))
    low, _ = model.predict_interval(read_table(words[1]), 0.8, guarantee=True)
    np.testing.assert_allclose([float(row["price_low"]) for row in again], low, rtol=1e-6)


def test_predictions_of_classes_as_json_with_inputs(folder, tmp_path, capsys):
    out = tmp_path / "p.json"
    files = [str(folder / "c.tggm"), str(folder / "ctest.csv")]
    answer(capsys, "predict", *files, "-o", str(out), "--json", "--inputs")
    got = json.loads(out.read_text())
    model = tggm.load(folder / "c.tggm")
    p = model.predict_proba(read_table(str(folder / "ctest.csv")))
    assert [row["p(cheap)"] for row in got] == pytest.approx(p[:, 0])
    assert [row["kind"] for row in got] == model.classes_[p.argmax(1)].tolist()
    assert [row["kind_probability"] for row in got] == pytest.approx(p.max(1))
    assert got[0]["area"] is None  # still missing
    assert {row["kind_observed"] for row in got} == {"cheap", "expensive"}


@pytest.mark.parametrize(
    ("model", "data", "predicted"), [("m", "test", "price"), ("c", "ctest", "kind_probability")]
)
def test_explained_predictions_add_up(folder, capsys, model, data, predicted):
    words = ["predict", str(folder / f"{model}.tggm"), str(folder / f"{data}.csv"), "--explain"]
    got = table_rows(answer(capsys, *words))
    parts = [f"part({name})" for name in ("area", "garden", "heating")]
    assert list(got[0])[-4:] == ["base", *parts]
    total = [float(row["base"]) + sum(float(row[name]) for name in parts) for row in got]
    np.testing.assert_allclose(total, [float(row[predicted]) for row in got], rtol=1e-6)


def test_unknown_categories_and_rows_far_away_are_noted(folder, tmp_path, capsys):
    table = [("100", "perhaps", "gas"), ("9e6", "no", "gas")]
    assert run(["predict", str(folder / "m.tggm"), write(tmp_path / "n.csv", table, NAMES)]) == 0
    said = capsys.readouterr().err
    assert "note: garden: 1 row with rare or unknown categories ('perhaps')" in said
    assert "note: 1 of 2 rows are unlike the training rows (novelty > 2)" in said


def test_absent_columns_are_noted(folder, tmp_path, capsys):
    data = write(tmp_path / "new.csv", [("no", "gas"), ("yes", "oil")], ("garden", "heating"))
    assert run(["predict", str(folder / "m.tggm"), data]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("has no column 'area'; predictions average over the values in training") == 1
    assert len(table_rows(captured.out)) == 2
    told = answer(capsys, "info", str(folder / "m.tggm"))
    assert "encoded training rows and the range of each input" in told


def test_evaluate_warns_about_shifted_inputs(folder, tmp_path, capsys):
    words = ["evaluate", str(folder / "m.tggm")]
    assert json.loads(answer(capsys, *words, str(folder / "train.csv"), "--json"))["warnings"] == []
    large = [(str(5 * float(r[0])) if r[0] else "", *r[1:]) for r in rows(90, 2)]
    text = answer(capsys, *words, write(tmp_path / "large.csv", large), "--quiet")
    means = "warning: area: values are higher than in training (by "
    for words in (means, "the log-likelihood is lower than on", "fit again with rows like these"):
        assert words in text


def test_evaluate_classes(folder, capsys):
    files = [str(folder / "c.tggm"), str(folder / "ctest.csv")]
    facts = json.loads(answer(capsys, "evaluate", *files, "--json"))
    model, table = tggm.load(folder / "c.tggm"), read_table(str(folder / "ctest.csv"))
    y = table.words("kind").astype(str)
    p = model.predict_proba(table)
    right = p[np.arange(90), np.searchsorted(model.classes_, y)]
    assert facts["figures"]["model"]["log_loss"] == pytest.approx(-np.log(right).mean())
    assert facts["figures"]["model"]["accuracy"] == np.mean(model.classes_[p.argmax(1)] == y)
    assert set(facts["figures"]) == {"model", "linear", "naive"}
    text = answer(capsys, "evaluate", *files)
    worse = facts["figures"]["linear"]["log_loss"] <= facts["figures"]["model"]["log_loss"]
    assert ("hint: a linear model" in text) == worse


def test_precision_is_that_of_the_rarer_class_or_of_a_given_one(folder, capsys):
    files = [str(folder / "c.tggm"), str(folder / "ctest.csv")]
    model, table = tggm.load(folder / "c.tggm"), read_table(files[1])
    p, y = model.predict_proba(table), table.words("kind").astype(str)
    labels = read_table(str(folder / "ctrain.csv")).words("kind").tolist()
    rare = min(("cheap", "expensive"), key=labels.count)
    for name, words in ((rare, []), ("cheap", ["--positive", "cheap"])):
        facts = json.loads(answer(capsys, "evaluate", *files, "--json", *words))
        want = metrics.average_precision_score(y == name, p[:, model.classes_ == name])
        assert facts["figures"]["model"]["average_precision"] == pytest.approx(want)
        assert facts["positive"] == name
        assert f"average precision of class {name} " in answer(capsys, "evaluate", *files, *words)
    assert f"average precision of class {rare} " in answer(capsys, "info", files[0])
    wrong = complaint(capsys, "evaluate", *files, "--positive", "dear")
    assert "must be cheap or expensive; got 'dear'" in wrong
    text = answer(capsys, "evaluate", *files, "--costs", "1,20", "--positive", "cheap", "--quiet")
    threshold = float(text.split("threshold ")[1].split()[0])
    words = ["--json", "--positive", "cheap", "--threshold", str(threshold)]
    got = json.loads(answer(capsys, "predict", *files, *words))
    alarm = p[:, 0] >= threshold
    assert [row["kind"] == "cheap" for row in got] == alarm.tolist()
    cost = np.mean(alarm & (y != "cheap")) + 20 * np.mean(~alarm & (y == "cheap"))
    assert f"the lowest cost on these rows, {cost:.4g} per row" in text
    assert "a miss of class cheap costs 20" in text
    text = answer(capsys, "explain", *files, "--row", "1", "--quiet")
    assert f"the prediction of the probability that 'kind' is {model.predict(table)[0]}" in text


def test_coverage_is_shown_by_width_and_by_group(folder, capsys):
    words = ["evaluate", str(folder / "m.tggm"), str(folder / "test.csv"), "--groups", "garden"]
    groups = json.loads(answer(capsys, *words, "--json", "--quiet"))["groups"]
    model, table = tggm.load(folder / "m.tggm"), read_table(words[2])
    low, high = model.predict_interval(table, 0.9)
    inside, width = (low <= table.numbers("price")) & (table.numbers("price") <= high), high - low
    for name, count, covered, mean in groups["group"]:
        at = table.words("garden") == name
        assert (count, covered, mean) == pytest.approx((at.sum(), inside[at].mean(), width[at].mean()))
    wanted = sorted(["yes", "no"], key=lambda n: -(table.words("garden") == n).sum())
    assert [name for name, *_ in groups["group"]] == wanted
    assert [count for _, count, *_ in groups["width"]] == pytest.approx([22.5] * 4, abs=1)
    assert groups["width"][0][3] == pytest.approx(np.sort(width)[: groups["width"][0][1]].mean())
    assert "garden  rows  in 90 % interval  mean width\n" in answer(capsys, *words, "--quiet")


def test_recalibrate_writes_the_model_of_python(folder, tmp_path, capsys):
    words = ["recalibrate", str(folder / "m.tggm"), str(folder / "test.csv"), "-o", str(tmp_path / "n.tggm")]
    assert run(words) == 0
    assert "n.tggm: 90 % intervals contain " in capsys.readouterr().err
    table = read_table(words[2])
    want = tggm.load(words[1]).recalibrate(table, table.numbers("price")).predict_interval(table)
    np.testing.assert_allclose(tggm.load(words[4]).predict_interval(table), want, rtol=1e-6)
    assert "linear model" in answer(capsys, "info", words[4])  # baselines and scores are kept
    few = write(tmp_path / "few.csv", rows(5, 0))
    said = complaint(capsys, *words[:2], few, "-o", str(tmp_path / "x.tggm"), "--quiet")
    assert "few.csv: `recalibrate` needs at least 20 rows; got 5" in said
    classes = ["recalibrate", str(folder / "c.tggm"), str(folder / "ctest.csv"), "-o", f"{tmp_path}/x", Q]
    assert "only regressions can be recalibrated" in complaint(capsys, *classes)


def test_explain_lists_columns_by_their_contributions(folder, tmp_path, capsys):
    words = ["explain", str(folder / "m.tggm"), str(folder / "test.csv"), "--quiet"]
    model, table = tggm.load(words[1]), read_table(words[2])
    found = json.loads(answer(capsys, *words, "--json"))
    part = dict(zip(table.names, np.abs(model.explain(table).parts).mean(0), strict=False))
    assert {row["column"]: row["contribution"] for row in found} == pytest.approx(part)
    assert (found[0]["column"], found[0]["importance"] > 0.3) == ("area", True)
    one = json.loads(answer(capsys, *words, "--json", "--row", "2"))
    want = model.explain(table.take(np.array([1])), table)
    assert sum(row["contribution"] for row in one) == pytest.approx(want.prediction[0] - want.base)
    assert {row["column"]: row["value"] for row in one}["heating"] == table.words("heating")[1]
    assert "row 2: " in answer(capsys, *words, "--row", "2")
    assert "--row 91 is beyond the 90 rows" in complaint(capsys, *words, "--row", "91")


def test_a_threshold_chooses_between_two_classes(folder, capsys):
    files = [str(folder / "c.tggm"), str(folder / "ctest.csv")]
    words = ["--threshold", "0.05", "--json", "--positive", "expensive"]
    facts = json.loads(answer(capsys, "evaluate", *files, *words))["figures"]["model"]
    model, table = tggm.load(folder / "c.tggm"), read_table(files[1])
    y = table.words("kind").astype(str)
    chosen = model.predict_proba(table)[:, 1] >= 0.05
    want = [f(y == "expensive", chosen) for f in SCORES]
    assert [facts[key] for key in ("accuracy", "precision", "recall", "f1")] == pytest.approx(want)
    got = json.loads(answer(capsys, "predict", *files, *words, "--explain"))
    assert [row["kind"] == "expensive" for row in got] == chosen.tolist()
    parts = ("base", *(name for name in got[0] if name.startswith("part(")))
    total = [sum(row[name] for name in parts) for row in got]
    assert total == pytest.approx([row["kind_probability"] for row in got])


def test_info(folder, capsys):
    text = answer(capsys, "info", str(folder / "m.tggm"))
    shown = ("regression of 'price'", "area: number; missing values", "garden: one of no, yes", "72 rows")
    shown += ("names of categories: garden (2), heating (2)", "72 encoded training rows", "a linear model")
    assert all(words in text for words in shown)
    facts = json.loads(answer(capsys, "info", str(folder / "c.tggm"), "--json"))
    assert facts["class"] == "TGGMClassifier"
    assert facts["settings"]["hidden"] == [4]
    assert facts["parameters"] == tggm.load(folder / "c.tggm").n_parameters_
    assert facts["table"]["target"] == {"name": "kind", "task": "classification", "integer": False}


def test_a_model_from_python_keeps_its_table_if_it_has_one(folder, tmp_path, capsys):
    model = tggm.load(folder / "m.tggm")
    tggm.save(model, tmp_path / "again.tggm")
    assert "regression of 'price'" in answer(capsys, "info", str(tmp_path / "again.tggm"))
    array = np.random.default_rng(0).normal(size=(90, 2))
    bare = tggm.TGGMRegressor(hidden=(4, 3), n_members=2, max_epochs=1).fit(array, array[:, 0])
    tggm.save(bare, tmp_path / "bare.tggm")
    assert "was fitted to an array" in complaint(capsys, "info", str(tmp_path / "bare.tggm"))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("fit {d}/train.csv -t prize", "has no column 'prize'; did you mean 'price'?"),
        ("fit {t}/gone.csv -t y", "there is no file"),
        ("fit {t}/notarget.csv -t y", "the target 'y' of {t}/notarget.csv is empty"),
        ("fit TRAIN -t a", "--target/-t: must be one column; got 'price', 'a'"),
        ("fit TRAIN --set weight_deca=3 --quiet", "did you mean weight_decay?"),
        ("fit TRAIN --set weight_decay=-1 --quiet", "--set weight_decay must be"),
        ("fit TRAIN --test-groups 0.2", "--test-groups needs --groups COLUMN"),
        ("fit TRAIN --test-groups 0.2 --test-last 0.2", "not allowed with argument --test-groups"),
        ("fit TRAIN --groups street", "has no column 'street'"),
        ("fit TRAIN --groups area", "--groups area: "),
        ("fit TRAIN -o {t}", "is a folder; name a file in it"),
        ("fit TRAIN -o {t}/no/m.tggm", "there is no folder {t}/no"),
        ("fit TRAIN -o /proc/m.tggm", "/proc cannot be written to"),
        ("fit TRAIN -o {d}/m.tggm", "exists already; pass --force"),
        ("fit TRAIN --task ranking", "--task: invalid choice: 'ranking' (choose from"),
        ("fit TRAIN --members 0 --quiet", "--members: must be an integer of at least 1; got '0'"),
        ("fit TRAIN --hidden many", "--hidden: must be a number of units"),
        ("fit TRAIN --test-size 1.5", "--test-size: must be at least 0"),
        ("predict {d}/m.tggm {t}/short.csv", "has no column 'area', 'garden', 'heating'; it has"),
        ("predict {d}/m.tggm {t}/junk.csv", "has 'big' in row 1 of column 'area'"),
        ("predict {d}/m.tggm {d}/test.csv --interval 90", "--interval: must be a probability"),
        ("predict {d}/m.tggm {d}/test.csv --quantiles 0,1", "--quantiles: must be probabilities"),
        ("predict {d}/c.tggm {d}/ctest.csv --quantiles 0.5", "--quantiles is for numbers, but the model"),
        ("predict {d}/c.tggm {d}/ctest.csv --interval 0.5", "--interval is for numbers, but the model"),
        ("predict {d}/c.tggm {d}/ctest.csv --positive cheap --quiet", "pass --threshold P, too."),
        ("predict {t}/gone.tggm {d}/test.csv", "there is no model file"),
        (
            "predict {d}/m.tggm {d}/test.csv --threshold 0.5 --quiet",
            "--threshold and --costs are for two classes",
        ),
        ("predict {t}/newer.tggm {d}/test.csv", "from a newer version of tggm"),
        ("predict - -", "cannot both come from standard input"),
        ("evaluate {d}/m.tggm {t}/junk2.csv", "{t}/junk2.csv has no value of the target 'price'"),
        ("evaluate {d}/c.tggm {t}/newclass.csv", "the model has no class 'free' of 'kind'; drop such rows"),
    ],
)
def test_errors_that_a_user_can_correct_are_one_sentence(folder, tmp_path, capsys, line, sentence):
    files = {
        "notarget.csv": "x,y\n" + "1,\n" * 12, "short.csv": "x,y\n1,2\n2,3\n3,4\n4,6\n",
        "junk.csv": "area,garden,heating\nbig,no,gas\n",
        "junk2.csv": "area,garden,heating,price\n1,no,gas,NA\n",
        "newclass.csv": "area,garden,heating,kind\n1,no,gas,free\n2,no,oil,expensive\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    newer = (folder / "m.tggm").read_bytes().replace(b'\\"schema\\":1', b'\\"schema\\":9')
    (tmp_path / "newer.tggm").write_bytes(newer)
    places = {"d": folder, "t": tmp_path}
    words = shlex.split(line.replace("TRAIN", "{d}/train.csv -t price"))
    filled = [word.format(**places) for word in words]
    if words[0] == "fit" and "-o" not in words:
        filled += ["-o", str(tmp_path / "new.tggm")]
    assert sentence.format(**places) in complaint(capsys, *filled)
    assert not (tmp_path / "new.tggm").exists()
