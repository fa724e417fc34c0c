"""Seconds and test figures of a fit, against the libraries people use for the same job.

    TGGM_DATA=... python benchmarks/fit.py [--datasets concrete,power] [--split 0] [--seed 0]

One run, the same training and test rows for all, each library with its own defaults and all cores of the
machine: the default of `tggm` (a first fit, compilation included, and a second), CatBoost with uncertainty,
NGBoost, scikit-learn's boosted trees and its network. Those that give no width get the root mean square of
their training errors. Tables with words go to `tggm` and CatBoost as they are, to the others as numbers.
Missing opponents are left out: ``pip install ngboost catboost``. Prints a table and writes
``benchmarks/results/fit.json``, data set by data set; what is there of others stays. What a fresh process
takes, import included: ``benchmarks/first_fit.py``.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from record import commit, machine, results

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from datasets import UCI, load_uci
from opponent_models import OPPONENTS as KNOWN
from opponents import class_figures
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tables import TABLES, Split
from tggm import TGGMClassifier, TGGMRegressor
from tggm.cli.opponents import Predict, catboost, catboost_classes, constant_width, rms

DATASETS = ("concrete", "power", "protein", "kin40k", "ames", "adult")
Figures = dict[str, Any]


def with_training_width(model: Any, X: Any, y: Any) -> Predict:
    """The network of five folds would take five times as long, and none of it be the fit that is timed."""
    return constant_width(model.fit(X, y), rms(y - model.predict(X)))


def network(X: Any, y: Any, seed: int) -> Predict:
    inner = make_pipeline(StandardScaler(), MLPRegressor(random_state=seed))
    return with_training_width(TransformedTargetRegressor(inner, transformer=StandardScaler()), X, y)


def trees(X: Any, y: Any, seed: int) -> Predict:
    return with_training_width(HistGradientBoostingRegressor(random_state=seed), X, y)


OPPONENTS = {
    "MLP": KNOWN["mlp"]._replace(regression=network),
    "HistGradientBoosting": KNOWN["hgb"]._replace(regression=trees),
    "NGBoost": KNOWN["ngboost"],
    "CatBoost": KNOWN["catboost"]._replace(
        regression=partial(catboost, threads=-1), classification=partial(catboost_classes, threads=-1)
    ),
}


def parts(name: str, split: int) -> tuple[Split, Split, bool]:
    """Rows as numbers, rows as they are, and whether there are classes."""
    if name in UCI:
        data = load_uci(name)
        train, test = data.splits[split]
        found = Split(data.X[train], data.y[train], data.X[test], data.y[test])
        return found, found, False
    known = TABLES[name]
    numbers, is_class = known.split(split), known.task == "classification"
    return numbers, known.raw(split) if known.words else numbers, is_class


def judged(found: Any, split: Split, is_class: bool) -> Figures:
    """RMSE, or the share of wrong labels, and mean log-likelihood."""
    if is_class:
        return class_figures(split.y_test, np.unique(split.y_train), np.asarray(found))
    mean, std = found
    z = (split.y_test - mean) / std
    ll = -0.5 * z**2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    return {"rmse": rms(split.y_test - mean), "ll": float(ll.mean())}


def ours(split: Split, is_class: bool, seed: int) -> Figures:
    clock = time.perf_counter()
    kind = TGGMClassifier if is_class else TGGMRegressor
    model = kind(random_state=seed).fit(split.X_train, split.y_train)
    seconds = time.perf_counter() - clock
    if is_class:
        figures = judged(model.predict_proba(split.X_test), split, True)
    else:
        dist = model.predict_dist(split.X_test)
        figures = {"rmse": rms(split.y_test - dist.mean()), "ll": float(dist.logpdf(split.y_test).mean())}
    return {"seconds": seconds, **figures}


def theirs(fit: Callable[..., Predict], split: Split, is_class: bool, seed: int) -> Figures:
    X = split.X_train
    if not hasattr(X, "columns"):
        import pandas as pd

        X, Z = pd.DataFrame(X), pd.DataFrame(split.X_test)
        split = split._replace(X_train=X, X_test=Z)
    clock = time.perf_counter()
    predict = fit(X, split.y_train, seed)
    seconds = time.perf_counter() - clock
    return {"seconds": seconds, **judged(predict(split.X_test), split, is_class)}


def compare(name: str, k: int, seed: int) -> list[Figures]:
    numbers, raw, is_class = parts(name, k)
    rows = []

    def add(model: str, figures: Figures) -> None:
        rows.append({"dataset": name, "rows": len(numbers.y_train), "model": model, **figures})
        found = figures["seconds"], figures["error" if is_class else "rmse"], figures["ll"]
        print(f"{name:10s} {model:26s} {found[0]:8.2f} {found[1]:10.4g} {found[2]:8.3f}", flush=True)

    for label in ("tggm, default, first fit", "tggm, default"):
        add(label, ours(raw, is_class, seed))
    for label, opponent in OPPONENTS.items():
        fit = opponent.classification if is_class else opponent.regression
        try:
            add(label, theirs(fit, raw if opponent.frames else numbers, is_class, seed))
        except ImportError:
            print(f"  ({label} is not installed)")
    return rows


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--datasets", default=",".join(DATASETS))
    p.add_argument("--split", type=int, default=0)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    warnings.simplefilter("ignore")  # opponents' convergence notes
    print(f"{'data set':10s} {'model':26s} {'seconds':>8s} {'error':>10s} {'LL':>8s}")
    path = results() / "fit.json"
    made_by = {"seed": args.seed, "split": args.split, "commit": commit(), "machine": machine()}
    for name in args.datasets.split(","):
        fits = [made_by | row for row in compare(name, args.split, args.seed)]
        stored = json.loads(path.read_text())["fits"] if path.exists() else []
        fits += [row for row in stored if row["dataset"] != name]
        fits.sort(key=lambda row: DATASETS.index(row["dataset"]))
        path.write_text(json.dumps({"fits": fits}, indent=1) + "\n")


if __name__ == "__main__":
    main()
