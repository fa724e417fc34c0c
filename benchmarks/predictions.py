"""Seconds and memory of the default's predictions for many rows.

    python benchmarks/predictions.py [--rows 100000,1000000]

A default `TGGMRegressor` of 8 columns, trained for a few epochs (how long does not matter to what a
prediction costs), predicts in a process of its own: mean, three quantiles, log-density and CRPS, elapsed
seconds and those of all processors. Programs are compiled before the clock starts, by a prediction for as
many rows. Memory is what the largest set of pages of the process was more than before, the table and the
results included. The opponent is scikit-learn's `HistGradientBoostingRegressor`, whose means alone are asked
for. Writes ``benchmarks/results/predictions.json``.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from record import keep

COLUMNS = 8


def table(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, COLUMNS))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(rows)


def measured(rows: int) -> dict[str, Any]:
    """One size, in this process."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    from tggm import TGGMRegressor

    model = TGGMRegressor(max_epochs=5, random_state=0).fit(*table(2000))
    trees = HistGradientBoostingRegressor(random_state=0).fit(*table(2000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    X, y = table(rows)
    tasks = {
        "HistGradientBoosting, mean": lambda: trees.predict(X),
        "mean": lambda: model.predict(X),
        "3 quantiles": lambda: model.predict_quantiles(X, (0.05, 0.5, 0.95)),
        "log-density": lambda: model.score_samples(X, y),
        "CRPS": lambda: model.predict_dist(X).crps(y),
    }
    found: dict[str, Any] = {"rows": rows}
    for name, task in tasks.items():
        task()
        clock, processor = time.perf_counter(), time.process_time()
        task()
        found[name] = time.perf_counter() - clock
        found[f"{name}, all processors"] = time.process_time() - processor
    found["MiB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return found


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", default="100000,1000000", help="sizes, separated by commas")
    p.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.one:
        print(json.dumps(measured(args.one)))
        return
    runs = []
    for rows in args.rows.split(","):
        command = [sys.executable, __file__, "--one", rows]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
        print(*(f"{name} {value:.3g}" for name, value in runs[-1].items()), sep="  ")
    print("stored in", keep("predictions", {"columns": COLUMNS, "runs": runs}))


if __name__ == "__main__":
    main()
