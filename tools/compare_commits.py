"""Check whether two commits of the package fit the same models.

    PYTHONPATH=old/src python tools/compare_commits.py record old.npz
    PYTHONPATH=new/src python tools/compare_commits.py record new.npz
    python tools/compare_commits.py compare old.npz new.npz

`record` runs a fixed list of fits through the public interface of the package in PYTHONPATH, and stores
their predictions for new rows: log-densities or log-probabilities, means, standard
deviations and CRPS, with the seconds of the fit for development tables. Long training in single precision
amplifies rounding errors until the result depends on the last digits of a step, so most cases take few steps
in double precision; those called "as users run it" do not.
`compare` prints the differences of two recordings: of logs in nats, of means in standard deviations, and for
each development table the mean scores of both over five splits with the paired standard error of the
difference. Real data are read from the folder in TGGM_DATA; without it these cases are left out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from functools import partial
from pathlib import Path

import numpy as np

AS_USERS = "as users run it"
FAST_COMPILE = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
DOUBLE = {"dtype": "float64", "random_state": 0}
SMALL = {**DOUBLE, "n_members": 2, "max_epochs": 6, "batch_size": 32}
UCI = {"Boston": "bostonHousing", "Yacht": "yacht", "Wine": "wine-quality-red"}
UCI |= {"Concrete": "concrete", "Energy": "energy", "Kin8nm": "kin8nm", "Naval": "naval-propulsion-plant"}
UCI |= {"Power": "power-plant", "Protein": "protein-tertiary-structure"}
SPLITS = 5  # of a development table
CASES_A_PROCESS = 30  # a new process releases the memory of compiled programs
CASES = {}


def case(name):
    """Store a function that returns a case's predictions under this name."""
    return partial(CASES.setdefault, name)


def curve(outputs=1):
    """Return training and test parts of a nonlinear surface; noise grows along the second input."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(180, 3))
    noise = (0.1 + 0.2 * np.abs(X[:, 1:2])) * rng.normal(size=(180, outputs))
    Y = np.abs(X[:, :1]) + np.arange(outputs) * X[:, 2:3] + noise
    Y = Y[:, 0] if outputs == 1 else Y
    return X[:120], Y[:120], X[120:], Y[120:]


def classes(number=3):
    """Return the same inputs with a class instead of the target."""
    X, y, X_test, y_test = curve()
    cuts = np.quantile(y, np.arange(1, number) / number)
    return X, np.digitize(y, cuts), X_test, np.digitize(y_test, cuts)


def density(model, X, y):
    dist = model.predict_dist(X)
    return {"log": dist.logpdf(y), "mean": dist.mean(), "std": dist.std()}


def probability(model, X):
    return {"log": model.predict_log_proba(X)}


def regressor(name, *, outputs=1, preset=None, fit=None, **settings):
    """Add a small fit of a regressor; `fit` returns further arguments, and may replace the targets."""

    @case(name)
    def predictions():
        from tggm import TGGMRegressor

        X, y, X_test, y_test = curve(outputs)
        make = TGGMRegressor if preset is None else getattr(TGGMRegressor, preset)
        more = {} if fit is None else fit(X, y)
        model = make(**{"hidden": 8, **SMALL, **settings}).fit(X, more.pop("y", y), **more)
        return density(model, X_test, y_test)


def classifier(name, *, number=3, preset=None, fit=None, **settings):
    @case(name)
    def predictions():
        from tggm import TGGMClassifier

        X, y, X_test, _ = classes(number)
        make = TGGMClassifier if preset is None else getattr(TGGMClassifier, preset)
        more = {} if fit is None else fit(X, y)
        model = make(**{"hidden": 8, **SMALL, **settings}).fit(X, y, **more)
        return probability(model, X_test)


def uci(label, split, name, preset=None, **settings):
    @case(name)
    def predictions():
        from tggm import TGGMRegressor

        if "TGGM_DATA" not in os.environ:
            return {}
        stored = np.load(Path(os.environ["TGGM_DATA"], f"uci_{UCI[label]}.npz"))
        X, y, test = stored["X"], stored["y"], stored[f"test_index_{split}"].astype(int)
        train = np.setdiff1d(np.arange(len(X)), test)
        make = TGGMRegressor if preset is None else getattr(TGGMRegressor, preset)
        train = train if preset is None else train[:2000]
        model = make(random_state=0, **settings).fit(X[train], y[train])
        return density(model, X[test], y[test])


def experiments():
    """Make the modules of the experiments importable; they read the real data."""
    folder = str(Path(__file__).parents[1] / "experiments")
    if folder not in sys.path:
        sys.path.insert(0, folder)


def development(table, split, *, frame=False):
    """Add the default on one split of a development table, as numbers or as a data frame."""
    how = "frame" if frame else "default"

    @case(f"table {table} {split}, {how}, {AS_USERS}")
    def predictions():
        experiments()
        from tables import TABLES
        from tggm import TGGMClassifier, TGGMRegressor

        known = TABLES[table]
        X, y, X_test, y_test = known.raw(split) if frame else known.split(split)
        make = TGGMClassifier if known.task == "classification" else TGGMRegressor
        clock = time.perf_counter()
        model = make(random_state=split).fit(X, y)
        seconds = np.array([time.perf_counter() - clock])
        if known.task == "classification":
            truth = np.searchsorted(model.classes_, y_test)
            return {**probability(model, X_test), "truth": truth, "seconds": seconds}
        crps = model.predict_dist(X_test).crps(y_test)
        return {**density(model, X_test, y_test), "crps": crps, "truth": y_test, "seconds": seconds}


def command_line(table, target):
    """Add `tggm fit` and `tggm predict` on the CSV file of a development table."""

    @case(f"file {table}, {AS_USERS}")
    def predictions():
        import pandas as pd

        path = Path(os.environ["TGGM_DATA"], "tables", f"{table}.csv")
        with tempfile.TemporaryDirectory() as folder:
            model, out = Path(folder, "model.tggm"), Path(folder, "out.csv")
            words = [path, "--target", target, "--seed", 0, "--epochs", 20, "-o", model]
            for command in (("fit", *words), ("predict", model, path, "-o", out)):
                made = [sys.executable, "-m", "tggm", *map(str, command)]
                subprocess.run(made, check=True, capture_output=True)
            numbers = pd.read_csv(out).select_dtypes("number").to_numpy()
        return {"log": numbers.reshape(len(numbers), -1)}


def paper_cell(data, model, hidden):
    """Add one cell of the paper's Table 2 with few rows and epochs."""

    @case(f"table 2, {data} {model} {hidden}")
    def predictions():
        experiments()
        from table2 import network, problem, settings_of

        part = problem(data, False)
        quick = {"dtype": "float64", "max_epochs": 2}
        estimator = network(hidden, 0, {**settings_of(data, model, hidden), **quick})
        return probability(estimator.fit(part.X[:1000], part.y[:1000]), part.X_test[:500])


def digits(name, **settings):
    @case(name)
    def predictions():
        from sklearn.datasets import load_digits

        from tggm import TGGMClassifier

        X, y = load_digits(return_X_y=True)
        model = TGGMClassifier(random_state=0, **settings).fit(X[:1400], y[:1400])
        return probability(model, X[1400:])


for label in UCI:
    uci(label, 0, f"{label} 0, default, {AS_USERS}")
for label in ("Boston", "Yacht", "Wine"):
    uci(label, 1, f"{label} 1, default, {AS_USERS}")
    for split in (0, 1):
        uci(label, split, f"{label} {split}, default, 20 epochs", dtype="float64", max_epochs=20)
for label in UCI:
    for preset in ("paper_ml", "paper_bp"):
        uci(label, 0, f"{label} 0, {preset}, 4 epochs", preset, dtype="float64", max_epochs=4)
digits(f"digits, default, {AS_USERS}")
digits("digits, default, 5 epochs", dtype="float64", max_epochs=5)


if "TGGM_DATA" in os.environ:
    for split in range(SPLITS):
        for table in (
            *("concreteslump", "autos", "servo", "breastcancer", "machine", "pendulum", "solar", "tips"),
            *("penguins", "mpg", "titanic", "diabetes", "friedman1", "friedman2", "friedman3", "linear"),
            *("heavy", "noise", "prices", "wide", "gas", "ames", "sml", "bike", "adult", "kin40k"),
            "tamielectric",
        ):
            development(table, split)
    for table in ("tips", "penguins", "mpg", "titanic", "ames", "adult"):
        development(table, 0, frame=True)
    for table, target in (("tips", "tip"), ("mpg", "mpg"), ("titanic", "survived")):
        command_line(table, target)
    for data in ("mnist", "news", "blogs"):
        for model in ("tggm-bp", "tggm-ml"):
            for hidden in ("100", "200", "100-100", "200-200"):
                paper_cell(data, model, hidden)


def at_limits(X, y):
    """Return targets clipped at quartiles, on both sides."""
    low, high = np.quantile(y, [0.25, 0.75])
    return {"y": np.clip(y, low, high), "censored": (y > high).astype(int) - (y < low)}


def with_gaps(X, y):
    return {"y": np.where(np.random.default_rng(3).uniform(size=y.shape) < 0.3, np.nan, y)}


def weights(X, y):
    return {"sample_weight": np.random.default_rng(4).exponential(size=len(y)).round(1)}


regressor("regressor moments")
for preset in ("paper_ml", "paper_bp"):
    own = {"preset": preset, "max_epochs": 10, "n_members": 1, "patience": None}
    regressor(f"regressor {preset}", **own)
    classifier(f"classifier {preset}", **own)
regressor("censored moments", fit=at_limits)
regressor("two outputs with gaps, moments", outputs=2, fit=with_gaps)
regressor("three outputs, moments", outputs=3)
regressor("directed regressor moments", hidden=(20, 20))
classifier("directed classifier moments", hidden=(20, 20))
classifier("classifier moments")
classifier("classifier of two classes", number=2)
classifier("classifier, balanced classes", class_weight="balanced")
regressor("regressor, sample weights", fit=weights)
classifier("classifier, sample weights", fit=weights)


@case("stream of blocks, regressor")
def _():
    from tggm import TGGMRegressor
    from tggm.data import from_arrays

    X, y, X_test, y_test = curve()
    return density(TGGMRegressor(hidden=8, **SMALL).fit(from_arrays(X, y, block_rows=40)), X_test, y_test)


@case("stream of blocks, classifier")
def _():
    from tggm import TGGMClassifier
    from tggm.data import from_arrays

    X, y, X_test, _ = classes()
    return probability(TGGMClassifier(hidden=8, **SMALL).fit(from_arrays(X, y, block_rows=40)), X_test)


@case("sparse classifier")
def _():
    from scipy import sparse

    from tggm import TGGMClassifier

    X = np.random.default_rng(5).poisson(0.3, size=(200, 30)).astype(np.float64)
    y = (X[:, 0] + X[:, 1] > X[:, 2]).astype(int)
    model = TGGMClassifier(hidden=8, **SMALL).fit(sparse.csr_array(X[:150]), y[:150])
    return probability(model, sparse.csr_array(X[150:]))


@case("save and load")
def _():
    from tggm import TGGMRegressor, load, save

    X, y, X_test, y_test = curve(2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.tggm")
        save(TGGMRegressor(hidden=8, **SMALL).fit(X, y), path)
        return density(load(path), X_test, y_test)


def run(names, out):
    """Run these cases and store their predictions."""
    arrays = {}
    warnings.simplefilter("ignore")
    for name in names:
        start = time.monotonic()
        try:
            arrays |= {f"{name}|{what}": values for what, values in CASES[name]().items()}
        except Exception:
            traceback.print_exc(limit=-3)
            print(f"failed: {name}", flush=True)
        print(f"{time.monotonic() - start:6.1f} s  {name}", flush=True)
    np.savez_compressed(out, **arrays)


def record(out, only=""):
    """Run all cases whose names contain `only`; short ones are compiled without optimisation."""
    names = [name for name in CASES if only in name]
    groups = {"": [n for n in names if AS_USERS in n], FAST_COMPILE: [n for n in names if AS_USERS not in n]}
    arrays = {}
    with tempfile.TemporaryDirectory() as folder:
        for flags, group in groups.items():
            for start in range(0, len(group), CASES_A_PROCESS):
                part = Path(folder, "part.npz")
                command = [sys.executable, __file__, "run", part, *group[start : start + CASES_A_PROCESS]]
                subprocess.run(command, env=os.environ | {"XLA_FLAGS": flags}, check=True)
                arrays |= dict(np.load(part))
    np.savez_compressed(out, **arrays)
    done = {key.split("|")[0] for key in arrays}
    print(f"{len(done)} of {len(names)} cases recorded")
    return len(names) - len(done)


def differences(old, new):
    """Return rows, largest and median difference of logs, largest difference of means in deviations."""
    logs = np.abs(old["log"] - new["log"])
    means = np.abs(old["mean"] - new["mean"]) / old["std"] if "mean" in old else np.zeros(1)
    return len(logs), logs.max(), np.median(logs), means.max()


def scores(recording):
    """Return mean scores of one split: error, log-likelihood, CRPS (regression), seconds."""
    truth, logs = recording["truth"], recording["log"]
    seconds = float(recording["seconds"][0])
    if "mean" not in recording:
        own = logs[np.arange(len(truth)), truth]
        return np.mean(logs.argmax(1) != truth), own.mean(), np.nan, seconds
    error = np.sqrt(np.mean((truth - recording["mean"]) ** 2))
    return error, logs.mean(), recording["crps"].mean(), seconds


def print_scores(old, new):
    """Print mean scores over splits of each development table, and differences in paired standard errors."""
    tables = {}
    for name in old:
        if name.startswith("table ") and "default" in name and name in new:
            tables.setdefault(name.split()[1], []).append((scores(old[name]), scores(new[name])))
    for table, pairs in tables.items():
        before, after = np.transpose(pairs, (1, 0, 2))
        gap = after - before
        error = gap.std(0, ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.full(4, np.nan)
        cells = (
            f"{what} {a:.4g} -> {b:.4g} ({d:+.1e} ± {e:.1e})"
            for what, a, b, d, e in zip(
                ("error", "LL", "CRPS", "s"), before.mean(0), after.mean(0), gap.mean(0), error, strict=True
            )
        )
        print(f"{table:14s}", "  ".join(cells))


def stored(path):
    """Return predictions by case."""
    cases = {}
    with np.load(path) as archive:
        for key in archive.files:
            name, what = key.split("|")
            cases.setdefault(name, {})[what] = archive[key]
    return cases


def compare(one, other):
    """Print a line for every case, and the number of cases in both recordings."""
    old, new = stored(one), stored(other)
    print(f"{'':52}{'rows':>6}{'largest':>10}{'median':>10}{'means':>10}")
    both = [name for name in old if name in new]
    for name in both:
        rows, largest, median, means = differences(old[name], new[name])
        print(f"{name:52}{rows:6d}{largest:10.1e}{median:10.1e}{means:10.1e}")
    print_scores(old, new)
    missing = sorted(set(old) ^ set(new))
    print(f"{len(both)} cases compared" + "".join(f"\nonly in one: {name}" for name in missing))
    return len(missing)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    words = commands.add_parser("record", help="run the fits and store their predictions")
    words.add_argument("out", type=Path)
    words.add_argument("--only", default="", help="cases whose names contain this")
    words = commands.add_parser("run", help="run the cases of these names only, in this process")
    words.add_argument("out", type=Path)
    words.add_argument("names", nargs="*")
    words = commands.add_parser("compare", help="print the differences of two recordings")
    words.add_argument("one", type=Path)
    words.add_argument("other", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        return record(options.out, options.only)
    if options.command == "run":
        return run(options.names, options.out)
    return compare(options.one, options.other)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
