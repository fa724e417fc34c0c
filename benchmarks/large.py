"""Measure fits to generated tables of many rows, in memory and as Parquet.

    python benchmarks/large.py [--rows 200000,1000000] [--models tggm,stream,catboost,hgb]

Twenty columns and noise with a standard deviation of 0.2, which is the smallest possible RMSE. The second of
two fits in a process is measured, so that programs are compiled; CatBoost needs `pip install catboost`. Each
case runs in its own process, whose largest resident memory is reported. Writes
benchmarks/results/large.json.
"""

import resource
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, complete, options, some

COLUMNS, TEST = 20, 20_000
MODELS = ("tggm", "stream", "catboost", "hgb")


def table(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets with waves, a product and a kink."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, COLUMNS))
    mean = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.maximum(X[:, 3], 0) + 0.2 * X[:, 4:10].sum(1)
    return X, mean + 0.2 * rng.standard_normal(rows)


def fit_twice(rows: int, model: str) -> dict[str, Any]:
    """Fit twice in this process and score rows that were not used."""
    (X, y), (X_test, y_test) = table(rows, 0), table(TEST, 1)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if model in ("tggm", "stream"):
            from tggm import TGGMRegressor
            from tggm.data import from_parquet

            made: Any = TGGMRegressor(random_state=0)
            data: Any = (X, y)
            if model == "stream":
                import pandas as pd

                names = [f"x{k}" for k in range(COLUMNS)]
                frame = pd.DataFrame(X, columns=names).assign(y=y)
                frame.to_parquet(Path(folder, "part.parquet"), row_group_size=50_000, index=False)
                del frame, X, y
                data = (from_parquet(folder, "y"),)
        elif model == "catboost":
            import catboost

            made, data = catboost.CatBoostRegressor(verbose=False, allow_writing_files=False), (X, y)
        else:
            from sklearn.ensemble import HistGradientBoostingRegressor

            made, data = HistGradientBoostingRegressor(random_state=0), (X, y)
        for name in ("first", "second"):
            clock, cpu = time.perf_counter(), time.process_time()
            made.fit(*data)
            figures |= {f"{name}_s": time.perf_counter() - clock, f"{name}_cpu_s": time.process_time() - cpu}
    errors = y_test - np.asarray(made.predict(X_test))
    figures["rmse"] = float(np.sqrt((errors**2).mean()))
    if model in ("tggm", "stream"):
        figures["ll"] = float(made.predict_dist(X_test).logpdf(y_test).mean())
        figures["epochs"] = made.n_iter_
    return figures | {"resident_MiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


def work(rows: int, model: str) -> dict[str, Any]:
    """Measure in a new process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(fit_twice, (rows, model))


def main() -> None:
    p = options(__doc__)
    p.add_argument("--rows", default="200000,1000000", help="numbers of rows, separated by commas")
    p.add_argument("--models", type=some(MODELS), default=list(MODELS))
    args = p.parse_args()
    tasks = [(int(rows), model) for rows in args.rows.split(",") for model in args.models]
    out = args.out or BENCHMARKS / "large.json"
    complete(out, ("rows", "model"), work, tasks, force=args.force)


if __name__ == "__main__":
    main()
