"""Tables as they come, straight into estimators, beside libraries that take them or nearly so.

    TGGM_DATA=... python -m experiments.raw_tables [--tables titanic,towns] [--models tggm,catboost] [--show]
    python -m experiments.raw_tables --join FILE     # add runs that another machine made

The tables of `raw_inputs`, the six CSV files among them as `pandas.read_csv` gives them. `tggm` is the
estimator with its defaults on the table as it was read; the others are those of `raw_opponents`. Titanic's
`alive`, the target in words, is taken out for all: opponents would use it. Figures as in `opponents`, five
splits; seconds and CPU seconds on one core, those of a first fit for the width among them. Results go to
experiments/results/raw_tables.json as they come. `--models tggm` needs no data frame library; others need
pandas, and what they are themselves: pip install catboost lightgbm
"""

import argparse
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from classify import some
from opponents import class_figures, gaussian_figures, show
from raw_inputs import TABLES, RawSplit, raw_split, task_of
from runs import RESULTS, begin, complete, origin, read, write
from threadpoolctl import threadpool_limits

from tables import SPLITS
from tggm import TGGMClassifier, TGGMRegressor

PACKAGES = {
    "tggm": "", "catboost": "catboost", "catboost-ll": "catboost", "hgb": "", "lightgbm": "lightgbm",
    "linear": "",
}  # fmt: skip
MODELS = tuple(PACKAGES)


def work(table: str, model: str, k: int) -> dict[str, Any]:
    """Fit and judge one model on one split, whose number is also the seed."""
    split, is_class = raw_split(table, k), task_of(table) == "classification"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns left out, and of opponents that did not converge
        return ours(split, k, is_class) if model == "tggm" else theirs(model, split, k, is_class)


def ours(split: RawSplit, k: int, is_class: bool) -> dict[str, Any]:
    clock = Clock()
    if is_class:
        model = TGGMClassifier(random_state=k).fit(split.train, split.y_train)
        took = clock.read()
        return class_figures(split.y_test, model.classes_, model.predict_proba(split.test)) | took
    model = TGGMRegressor(random_state=k).fit(split.train, split.y_train)
    took = clock.read()
    dist, y = model.predict_dist(split.test), split.y_test
    inside = np.abs(2 * dist.cdf(y) - 1)
    return {
        "rmse": float(np.sqrt(np.mean((y - dist.mean()) ** 2))),
        "ll": float(dist.logpdf(y).mean()),
        "crps": float(dist.crps(y).mean()),
        "cover50": float(np.mean(inside < 0.5)),
        "cover90": float(np.mean(inside < 0.9)),
        **took,
    }


def theirs(model: str, split: RawSplit, k: int, is_class: bool) -> dict[str, Any]:
    from raw_opponents import FITS, matrix  # needs pandas

    X = matrix(split.train)
    clock = Clock()
    with threadpool_limits(1):  # seconds of one core
        predict = FITS[model](X, split.y_train, k, is_class)
        took = clock.read()
        found = predict(matrix(split.test, X).values)
    if is_class:
        return class_figures(split.y_test, np.unique(split.y_train), np.asarray(found)) | took
    return gaussian_figures(split.y_test, *found) | took


class Clock:
    """Seconds, and CPU seconds of this process, since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Both, by the names that results have."""
        return {"fit_s": time.perf_counter() - self._wall, "cpu_s": time.process_time() - self._cpu}


def plan(tables: list[str], models: list[str], splits: int) -> list[tuple[str, str, int]]:
    """All that can be made: an opponent must be installed, and one of them knows no classes."""
    there = [m for m in models if not PACKAGES[m] or find_spec(PACKAGES[m])]
    return [
        (table, model, k)
        for table in tables
        for model in there
        for k in range(splits)
        if model != "catboost-ll" or task_of(table) == "regression"
    ]


def join(path: Path, others: list[Path]) -> None:
    """Add the runs of other files, which replace those of the same names."""
    record = read(path)
    for other in map(read, others):
        seconds = record.get("seconds", 0.0) + other["seconds"]
        runs = record.get("runs", {}) | other["runs"]
        record = other | record | {"seconds": round(seconds, 1), "runs": dict(sorted(runs.items()))}
    write(path, record)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tables", type=some(TABLES), default=list(TABLES), metavar="NAME,...")
    p.add_argument("--models", type=some(MODELS), default=list(MODELS), metavar="NAME,...")
    p.add_argument("--splits", type=int, default=SPLITS, choices=range(1, SPLITS + 1))
    p.add_argument("--jobs", type=int, default=1, help="processes")
    p.add_argument("--out", type=Path, default=RESULTS / "raw_tables.json", help="file of the stored results")
    p.add_argument("--join", type=Path, nargs="+", default=[], metavar="FILE", help="add the runs of files")
    p.add_argument("--show", action="store_true", help="only print what is stored")
    return p.parse_args(given)


def main() -> None:
    args = arguments()
    begin()
    if args.join:
        join(args.out, args.join)
    elif not args.show:
        tasks = plan(args.tables, args.models, args.splits)
        complete(args.out, origin(settings={"seed": "number of the split"}), work, tasks, jobs=args.jobs)
    show(read(args.out), args.tables, args.models)


if __name__ == "__main__":
    main()
