"""What other libraries make of the development tables, each with its defaults.

    TGGM_DATA=... python -m experiments.opponents [--tables autos,ames] [--models ridge,catboost] [--show]

For every table, model and split: RMSE, or the share of wrong labels; log-likelihood in the units of the
target; for regression CRPS and the coverage of the central 50 % and 90 %; seconds of one core. Figures go to
experiments/results/opponents.json as they come, and what is stored is not made again. Small tables come
first; on large ones the models that take longest come last. CatBoost sees words as they are, all others what
`tggm fit` makes of them. Opponents that are not installed are left out: pip install catboost ngboost
"""

import argparse
import time
import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from classify import some
from opponent_models import OPPONENTS, Predict
from runs import RESULTS, begin, complete, key, origin, read
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from tables import LARGE, SPLITS, TABLES, Split

SLOW = ("mlp", "ngboost")
LEAST = 1e-15  # probability of a label, so that one row cannot make a likelihood infinite
Task = tuple[str, str, int]
Figures = dict[str, Any]


def gaussian_figures(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> Figures:
    """Figures of Gaussian predictions; CRPS by Gneiting and Raftery (2007), section 4.2."""
    z = (y - mean) / std
    crps = std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "ll": float(norm.logpdf(y, mean, std).mean()),
        "crps": float(crps.mean()),
        "cover50": float(np.mean(np.abs(z) < norm.ppf(0.75))),
        "cover90": float(np.mean(np.abs(z) < norm.ppf(0.95))),
    }


def class_figures(y: np.ndarray, labels: np.ndarray, probability: np.ndarray) -> Figures:
    own = probability[np.arange(len(y)), np.searchsorted(labels, y)]
    wrong = labels[probability.argmax(axis=1)] != y
    return {"error": float(wrong.mean()), "ll": float(np.log(np.maximum(own, LEAST)).mean())}


def judge(predict: Predict, split: Split, is_class: bool) -> Figures:
    found = predict(split.X_test)
    if is_class:
        return class_figures(split.y_test, np.unique(split.y_train), np.asarray(found))
    return gaussian_figures(split.y_test, *found)


def work(table: str, model: str, k: int) -> Figures:
    """Fit and judge one model on one split, whose number is also the seed; or why that cannot be done."""
    known, opponent = TABLES[table], OPPONENTS[model]
    split = known.raw(k) if opponent.frames else known.split(k)
    is_class = known.task == "classification"
    fit = opponent.classification if is_class else opponent.regression
    assert fit is not None  # by `plan`
    clock = time.perf_counter()
    try:
        with threadpool_limits(1):  # seconds of one core; threads that wait for each other cost far more
            predict = fit(split.X_train, split.y_train, k)
            fitted = time.perf_counter()
            figures = judge(predict, split, is_class)
    except Exception as error:  # whatever it is, that an opponent fails is a result, and others are waiting
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    return {**figures, "fit_s": fitted - clock, "predict_s": time.perf_counter() - fitted}


def plan(tables: list[str], models: list[str], splits: int) -> list[Task]:
    """All that can be made, in the order in which it should be."""
    pairs = [(table, model) for table in tables for model in models if _fits(table, model)]
    order = sorted(pairs, key=lambda pair: pair[0] in LARGE and 1 + (pair[1] in SLOW))
    return [(table, model, k) for table, model in order for k in range(splits)]


def _fits(table: str, model: str) -> bool:
    opponent, known = OPPONENTS[model], TABLES[table]
    if known.task == "classification" and opponent.classification is None:
        return False
    return opponent.most_rows == float("inf") or len(known.split(0).y_train) <= opponent.most_rows


def installed(models: list[str]) -> list[str]:
    """Those of the models whose packages are there; says how to get the others."""
    absent = [m for m in models if OPPONENTS[m].package and find_spec(OPPONENTS[m].package) is None]
    for model in absent:
        print(f"{model} is left out, as it is not installed: pip install {OPPONENTS[model].package}")
    return [model for model in models if model not in absent]


def show(record: dict[str, Any], tables: list[str], models: list[str]) -> None:
    """Means over splits: RMSE (or share of errors) and log-likelihood, one line a table each."""
    runs = record.get("runs", {})
    for names, title in ((("rmse", "error"), "RMSE, or share of errors"), (("ll",), "log-likelihood")):
        print(f"\n{title:24s}" + "".join(f"{model:>13s}" for model in models))
        for table in tables:
            cells = []
            for model in models:
                made = [runs.get(key((table, model, k)), {}) for k in range(SPLITS)]
                values = [run[name] for run in made for name in names if name in run]
                cells.append(f"{np.mean(values):.4g}" + "*" * (len(values) < SPLITS) if values else "-")
            print(f"{table:24s}" + "".join(f"{cell:>13s}" for cell in cells))
    print("\n* not all splits; - none")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tables", type=some(tuple(TABLES)), default=list(TABLES), metavar="NAME,...")
    p.add_argument("--models", type=some(tuple(OPPONENTS)), default=list(OPPONENTS), metavar="NAME,...")
    p.add_argument(
        "--splits", type=int, default=SPLITS, choices=range(1, SPLITS + 1), help="the first so many"
    )
    p.add_argument("--out", type=Path, default=RESULTS / "opponents.json", help="file of the stored results")
    p.add_argument("--show", action="store_true", help="only print what is stored")
    return p.parse_args(words)


def main() -> None:
    args = arguments()
    begin()
    if not args.show:
        models = installed(args.models)
        packages = ["scikit-learn", *(OPPONENTS[m].package for m in models if OPPONENTS[m].package)]
        versions = read(args.out).get("versions", {}) | {name: version(name) for name in packages}
        made_by = origin(settings={"seed": "number of the split"}, versions=versions)
        warnings.simplefilter("ignore")  # of opponents that did not converge, or meet a constant column
        complete(args.out, made_by, work, plan(args.tables, models, args.splits), jobs=1)
    show(read(args.out), args.tables, args.models)


if __name__ == "__main__":
    main()
