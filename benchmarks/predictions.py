"""Measure seconds and memory of predictions for many rows.

    python benchmarks/predictions.py

A `TGGMRegressor` of 8 columns, trained on 2,000 rows for a few epochs, predicts mean, three quantiles,
log-density and CRPS in a separate process, without neighbours and without a Gaussian process; the default has
both here. The second call is measured, and the first. Memory is the growth of the
process, results included. The opponent is scikit-learn's `HistGradientBoostingRegressor`, means only. Writes
benchmarks/results/predictions.json.
"""

import resource
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, keep

COLUMNS = 8
SIZES = (1, 100_000, 1_000_000)


def table(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, COLUMNS))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(rows)


def measured(rows: int) -> list[dict[str, Any]]:
    """Measure one size in this process."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    from tggm import TGGMRegressor

    default = TGGMRegressor(max_epochs=5, random_state=0).fit(*table(2000))
    model = TGGMRegressor(max_epochs=5, random_state=0, neighbors=False, gaussian_process=False)
    model.fit(*table(2000))
    trees = HistGradientBoostingRegressor(random_state=0).fit(*table(2000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    X, y = table(rows)
    tasks = {
        "HistGradientBoosting, mean": lambda: trees.predict(X),
        "mean": lambda: model.predict(X),
        "3 quantiles": lambda: model.predict_quantiles(X, (0.05, 0.5, 0.95)),
        "log-density": lambda: model.predict_dist(X).logpdf(y),
        "CRPS": lambda: model.predict_dist(X).crps(y),
        "mean, default": lambda: default.predict(X),
        "3 quantiles, default": lambda: default.predict_quantiles(X, (0.05, 0.5, 0.95)),
    }
    runs = []
    for name, task in tasks.items():
        clock = time.perf_counter()
        task()
        first, clock, cpu = time.perf_counter() - clock, time.perf_counter(), time.process_time()
        task()
        seconds = {"elapsed_s": time.perf_counter() - clock, "cpu_s": time.process_time() - cpu}
        runs.append({"rows": rows, "task": name, "first_s": first, **seconds})
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return [{**run, "MiB": growth} for run in runs]


def main() -> None:
    runs: list[dict[str, Any]] = []
    for rows in SIZES:
        with get_context("spawn").Pool(1) as pool:  # a separate process
            runs += pool.apply(measured, (rows,))
    for run in runs:
        print(run)
    keep(BENCHMARKS / "predictions.json", runs, columns=COLUMNS)


if __name__ == "__main__":
    main()
