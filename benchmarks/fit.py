"""Seconds and test figures of a fit, against the libraries people use for the same job.

    TGGM_DATA=... python benchmarks/fit.py [--datasets concrete,power] [--split 0] [--seed 0]

One run, the same training and test rows for all: `TGGMRegressor.one_layer()` (the first fit of a fresh
process, compilation included, a second fit, and 300 epochs), `TGGMRegressor()` (a first fit, compilation
included, and a second), scikit-learn's `MLPRegressor`
(the spread of its training errors as a constant width) and `GaussianProcessRegressor` (at most 2,000 rows),
NGBoost and CatBoost with uncertainty, each with its own defaults. Missing opponents are left out: `pip
install ngboost catboost`. Prints tables and writes ``benchmarks/results/fit.json``. What a fresh process
takes, import included: ``benchmarks/first_fit.py``.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from record import results

from tggm.estimators.presets import ONE_LAYER

ROOT = Path(__file__).parents[1]
EXPERIMENTS = str(ROOT / "experiments")  # with the loader of the data
GP_ROWS = 2000
Figures = dict[str, Any]
Predict = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # rows -> mean, standard deviation


def gaussian_figures(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> Figures:
    ll = -0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    return {"rmse": float(np.sqrt(np.mean((y - mean) ** 2))), "ll": float(ll.mean())}


def fit_mlp(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(50,), max_iter=2000, random_state=seed)
    )
    model = TransformedTargetRegressor(network, transformer=StandardScaler()).fit(X, y)
    width = np.std(y - model.predict(X))
    return lambda rows: (model.predict(rows), np.full(len(rows), width))


def fit_gp(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.preprocessing import StandardScaler

    rows = np.random.default_rng(seed).permutation(len(X))[:GP_ROWS]
    scale = StandardScaler().fit(X)
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True).fit(scale.transform(X[rows]), y[rows])
    return lambda rows: model.predict(scale.transform(rows), return_std=True)


def fit_ngboost(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    from ngboost import NGBRegressor

    model = NGBRegressor(verbose=False, random_state=seed).fit(X, y)

    def predict(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dist = model.pred_dist(rows)
        return dist.params["loc"], dist.params["scale"]

    return predict


def fit_catboost(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    from catboost import CatBoostRegressor

    with tempfile.TemporaryDirectory() as folder:
        model = CatBoostRegressor(
            loss_function="RMSEWithUncertainty",
            verbose=False,
            random_seed=seed,
            thread_count=2,
            train_dir=folder,
        ).fit(X, y)

    def predict(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, var = model.predict(rows).T
        return mean, np.sqrt(var)

    return predict


OURS: dict[str, dict[str, Any]] = {
    "tggm, first fit": ONE_LAYER,
    "tggm, second fit": ONE_LAYER,
    "tggm, 300 epochs": {**ONE_LAYER, "max_epochs": 300},
    "tggm, default, first fit": {},
    "tggm, default": {},
}
OPPONENTS = {
    "MLPRegressor": fit_mlp,
    "GaussianProcess": fit_gp,
    "NGBoost": fit_ngboost,
    "CatBoost": fit_catboost,
}


def compare(name: str, split: int, seed: int) -> list[Figures]:
    sys.path.insert(0, EXPERIMENTS)
    from datasets import load_uci

    from tggm import TGGMRegressor

    data = load_uci(name)
    train, test = data.splits[split]
    X, y, Z, z = data.X[train], data.y[train], data.X[test], data.y[test]
    rows: list[Figures] = []
    for label, settings in OURS.items():
        clock = time.perf_counter()
        model = TGGMRegressor(random_state=seed, **settings).fit(X, y)
        seconds = time.perf_counter() - clock
        rmse = float(np.sqrt(np.mean((z - model.predict(Z)) ** 2)))
        ll = float(model.score_samples(Z, z).mean())
        rows.append({"model": label, "seconds": seconds, "rmse": rmse, "ll": ll})
    for label, fit in OPPONENTS.items():
        clock = time.perf_counter()
        try:
            predict = fit(X, y, seed)
        except ImportError:
            print(f"  ({label} is not installed)")
            continue
        seconds = time.perf_counter() - clock
        rows.append({"model": label, "seconds": seconds, **gaussian_figures(z, *predict(Z))})
    return [{"dataset": name, "rows": len(X), **r} for r in rows]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--datasets", default="concrete,power")
    p.add_argument("--split", type=int, default=0)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    warnings.simplefilter("ignore")  # opponents' convergence notes

    table: list[Figures] = []
    print(f"{'data set':10s} {'model':18s} {'seconds':>8s} {'RMSE':>8s} {'LL':>8s}")
    for name in args.datasets.split(","):
        for row in compare(name, args.split, args.seed):
            table.append(row)
            print("{dataset:10s} {model:18s} {seconds:8.2f} {rmse:8.3f} {ll:8.3f}".format(**row), flush=True)

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    record = {
        "seed": args.seed, "split": args.split, "commit": commit.stdout.strip(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores", "python": platform.python_version(),
        "fits": table,
    }  # fmt: skip
    (results() / "fit.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
