"""Test figures of TGGMRegressor on the UCI benchmark splits.

    TGGM_DATA=... python experiments/uci.py --datasets boston,concrete,energy,yacht --methods moments,bp,ep

For each data set and method it prints RMSE, log-likelihood, CRPS, coverage of the central 50 % and 90 %
intervals (mean over splits ± standard error) and seconds, and writes the figures of every split to
experiments/results/uci_METHOD.json, beside those of other data sets. One default configuration serves all
sets; "paper-bp" and "paper-ml" are the presets that follow the paper.
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from datasets import load_uci

from tggm import TGGMRegressor, fit_together

PRESETS = {"paper-bp": TGGMRegressor.paper_bp, "paper-ml": TGGMRegressor.paper_ml}
MEASURES = ("rmse", "ll", "crps", "cover50", "cover90", "fit_s", "predict_s")


def make(method: str, dataset: str, **settings: Any) -> TGGMRegressor:
    """The model under test: 50 hidden units, 100 for protein as in the paper."""
    settings["hidden"] = (100,) if dataset == "protein" else (50,)
    if method in PRESETS:
        if dataset == "protein":
            settings["batch_size"] = 100
        return PRESETS[method](**settings)
    return TGGMRegressor.one_layer(method=method, **settings)


def judge(
    model: TGGMRegressor, X: np.ndarray, y: np.ndarray, test: np.ndarray, fit_s: float
) -> dict[str, Any]:
    """Measure a fitted model on rows it has not seen.

    "pit" counts in which twentieth of its predictive distribution each target falls.
    """
    clock = time.perf_counter()
    dist = model.predict_dist(X[test])
    log_density, cdf, crps = dist.logpdf(y[test]), dist.cdf(y[test]), dist.crps(y[test])
    done = time.perf_counter()
    return {
        "rmse": float(np.sqrt(np.mean((dist.mean() - y[test]) ** 2))),
        "ll": float(np.mean(log_density)),
        "crps": float(np.mean(crps)),
        "cover50": float(np.mean(np.abs(cdf - 0.5) < 0.25)),
        "cover90": float(np.mean(np.abs(cdf - 0.5) < 0.45)),
        "fit_s": fit_s,
        "predict_s": done - clock,
        "pit": np.histogram(cdf, 20, (0.0, 1.0))[0].tolist(),
    }


def run(models: list[TGGMRegressor], data: Any, at_once: bool) -> list[dict[str, Any]]:
    """Fit every model on its split, one after the other or all at once, and measure them."""
    X, y, splits = data
    seconds = []
    if at_once:
        clock = time.perf_counter()
        fit_together(models, X, y, [train for train, _ in splits])
        seconds = [(time.perf_counter() - clock) / len(models)] * len(models)
    else:
        for model, (train, _) in zip(models, splits, strict=True):
            clock = time.perf_counter()
            model.fit(X[train], y[train])
            seconds.append(time.perf_counter() - clock)
    return [judge(m, X, y, test, s) for m, (_, test), s in zip(models, splits, seconds, strict=True)]


def summary(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Mean over splits and its standard error, for each measure."""
    table = {name: np.array([row[name] for row in rows]) for name in MEASURES}
    return {k: (v.mean(), v.std() / np.sqrt(max(len(v) - 1, 1))) for k, v in table.items()}


def keep(folder: Path, method: str, dataset: str, run: dict[str, Any]) -> None:
    """Write one result beside those of other data sets, in the method's file."""
    path = folder / f"uci_{method}.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    record[dataset] = run
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--datasets", default="boston,concrete,energy,yacht")
    p.add_argument("--methods", default="moments")
    p.add_argument("--splits", type=int, default=20, help="the first so many")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--at-once", action="store_true", help="train all splits in one program (for a GPU)")
    p.add_argument(
        "--set", action="append", default=[], metavar="NAME=JSON", help="a setting of the estimator"
    )
    p.add_argument("--out", type=Path, default=Path("experiments/results"))
    args = p.parse_args()
    settings = {name: json.loads(value) for name, value in (item.split("=", 1) for item in args.set)}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    origin = {
        "commit": os.environ.get("TGGM_COMMIT", commit.stdout.strip()),
        "device": f"{jax.devices()[0].device_kind}, {os.cpu_count()} cores",
        "seed": args.seed,
        "settings": settings,
    }
    print(f"{'dataset':10s} {'method':10s} n  " + "".join(f"{name:>19s}" for name in MEASURES))
    for dataset in args.datasets.split(","):
        X, y, splits = load_uci(dataset)
        splits = splits[: args.splits]
        for method in args.methods.split(","):
            models = [
                make(method, dataset, random_state=args.seed + i, **settings) for i in range(len(splits))
            ]
            rows = run(models, (X, y, splits), args.at_once)
            keep(args.out, method, dataset, {**origin, "splits": rows})
            line = f"{dataset:10s} {method:10s} {len(rows):<3d}"
            line += "".join(f"{mean:11.4f} ± {error:.3f}" for mean, error in summary(rows).values())
            print(line, flush=True)


if __name__ == "__main__":
    main()
