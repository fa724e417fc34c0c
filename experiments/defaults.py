"""The default on the development tables, what each of its parts is worth, and the default on the UCI splits.

    TGGM_DATA=... python -m experiments.defaults [--tables autos,ames] [--variants default,former] [--jobs 2]
    TGGM_DATA=... python -m experiments.defaults --uci boston,yacht
    python -m experiments.defaults --show

For every table (`experiments.tables`), variant and split: RMSE or the share of wrong labels, log-likelihood
in the units of the target, CRPS and coverage, with calibration and ("raw_") without, and seconds of the fit.
A variant is the default less one part.
`--uci` runs the default on the test parts of the benchmark's splits, which chose nothing. Figures go to
experiments/results/defaults.json, or uci_default.json, as they come; what is stored is not made again.
`--show` prints them beside those of `experiments.opponents`.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from classify import some
from datasets import UCI, load_uci
from opponents import class_figures
from runs import RESULTS, begin, complete, key, mean_error, origin, read

from tables import SPLITS, TABLES, Split
from tggm import TGGMClassifier, TGGMRegressor
from tggm.estimators import linear_part

Figures = dict[str, Any]
LEVELS = (20, 50, 80, 90, 95)
USUAL_SHARE = linear_part.LEAST_SHARE


def _without_fallback(**settings: Any) -> TGGMRegressor:
    linear_part.LEAST_SHARE = 2.0  # no share is so large; a worker makes runs of other variants, too
    return TGGMRegressor(**settings)


def _default(**settings: Any) -> TGGMRegressor:
    linear_part.LEAST_SHARE = USUAL_SHARE
    return TGGMRegressor(**settings)


class WholeCycles(TGGMRegressor):
    """Trains every cycle to its end."""

    rules = TGGMRegressor.rules._replace(fall=np.inf)


def _whole_cycles(**settings: Any) -> TGGMRegressor:
    linear_part.LEAST_SHARE = USUAL_SHARE
    return WholeCycles(**settings)


VARIANTS: dict[str, tuple[Callable[..., TGGMRegressor], dict[str, Any]]] = {
    "default": (_default, {}),
    "no-features": (_default, {"features": None}),
    "no-linear": (_default, {"linear": False}),
    "no-fallback": (_without_fallback, {}),
    "one-layer": (_default, {"hidden": (50,)}),
    "one-member": (_default, {"n_members": 1}),
    "no-transform": (_default, {"target_transform": None}),
    "not-calibrated": (_default, {"calibrate": False}),
    "plain-scale": (_default, {"standardize": True}),
    "adam": (_default, {"optimizer": "adam"}),
    "whole-cycles": (_whole_cycles, {}),
    "no-patience": (_default, {"patience": None}),
    "former": (TGGMRegressor.one_layer, {}),
}


def regression(make: Callable[..., TGGMRegressor], settings: dict[str, Any], split: Split) -> Figures:
    """Fit and judge one regressor."""
    clock = time.perf_counter()
    model = make(**settings).fit(split.X_train, split.y_train)
    fitted = time.perf_counter()
    figures = judged(model.predict_dist(split.X_test), split.y_test)
    predicted = time.perf_counter()
    pool = [[each.kind, *each.numbers] for each in model.fitted_.calibration]
    if pool:
        model.fitted_ = model.fitted_._replace(calibration=())
        raw = judged(model.predict_dist(split.X_test), split.y_test)
        figures |= {f"raw_{name}": value for name, value in raw.items()}
    return figures | {
        "fit_s": fitted - clock,
        "predict_s": predicted - fitted,
        "epochs": model.n_iter_,
        "n_test": len(split.y_test),
        "rows": len(split.y_train) + len(split.y_test),
        "pool": pool,
    }


def judged(dist: Any, y: np.ndarray) -> Figures:
    """Scores of a predictive distribution, and how many targets its central intervals hold."""
    cdf = dist.cdf(y)
    return {
        "rmse": float(np.sqrt(np.mean((y - dist.mean()) ** 2))),
        "ll": float(dist.logpdf(y).mean()),
        "crps": float(dist.crps(y).mean()),
        **{f"cover{p}": float(np.mean(np.abs(cdf - 0.5) < p / 200)) for p in LEVELS},
    }


def classification(settings: dict[str, Any], split: Split) -> Figures:
    """Fit and judge one classifier."""
    clock = time.perf_counter()
    model = TGGMClassifier(**settings).fit(split.X_train, split.y_train)
    fitted = time.perf_counter()
    figures = class_figures(split.y_test, model.classes_, model.predict_proba(split.X_test))
    return figures | {"fit_s": fitted - clock, "epochs": model.n_iter_, "n_test": len(split.y_test)}


def work(table: str, variant: str, k: int) -> Figures:
    """One variant on one split, whose number is also the seed."""
    warnings.simplefilter("ignore")
    known, (make, settings) = TABLES[table], VARIANTS[variant]
    if known.task == "classification":
        return classification({**settings, "random_state": k}, known.split(k))
    return regression(make, {**settings, "random_state": k}, known.split(k))


def work_uci(dataset: str, variant: str, k: int) -> Figures:
    """One variant on one split of the benchmark."""
    data = load_uci(dataset)
    train, test = data.splits[k]
    split = Split(data.X[train], data.y[train], data.X[test], data.y[test])
    make, settings = VARIANTS[variant]
    return regression(make, {**settings, "random_state": k}, split)


def plan(tables: list[str], variants: list[str], splits: int) -> list[tuple[str, str, int]]:
    """Splits first, so that a run that is cut has something of all tables."""
    pairs = [(table, variant) for variant in variants for table in tables if _applies(table, variant)]
    return [(table, variant, k) for k in range(splits) for table, variant in pairs]


def _applies(table: str, variant: str) -> bool:
    """Classifiers know neither transform nor calibration nor fallback."""
    return TABLES[table].task == "regression" or variant in (
        "default", "no-features", "no-linear", "one-layer", "one-member",
    )  # fmt: skip


def show(record: dict[str, Any], others: dict[str, Any], tables: list[str], variants: list[str]) -> None:
    """Means over the splits that both have; RMSE or share of errors, and log-likelihood."""
    ours, theirs = record.get("runs", {}), others.get("runs", {})
    models = sorted({name.split()[1] for name in theirs})
    for names, title in ((("rmse", "error"), "RMSE or share of errors"), (("ll",), "log-likelihood")):
        print(f"\n{title:24s}" + "".join(f"{name:>15s}" for name in [*variants, *models]))
        for table in tables:
            line = ""
            for runs, columns in ((ours, variants), (theirs, models)):
                for column in columns:
                    made = [runs.get(key((table, column, k)), {}) for k in range(SPLITS)]
                    values = [run[name] for run in made for name in names if name in run]
                    line += f"{np.mean(values):15.4g}" if values else f"{'-':>15s}"
            print(f"{table:24s}{line}")


def show_uci(record: dict[str, Any]) -> None:
    """Means and standard errors over splits."""
    runs = record.get("runs", {})
    for dataset in UCI:
        made = [run for name, run in runs.items() if name.split()[0] == dataset]
        if made:
            cells = [mean_error([run[name] for run in made]) for name in ("rmse", "ll", "crps")]
            cover = [np.average([run[f"cover{p}"] for run in made]) for p in LEVELS]
            figures = "  ".join(f"{mean:.4g} ± {error:.2g}" for mean, error in cells)
            print(f"{dataset:10s} {len(made):3d} splits  {figures}  cover", *(f"{c:.2f}" for c in cover))


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tables", type=some(tuple(TABLES)), default=list(TABLES), metavar="NAME,...")
    p.add_argument("--variants", type=some(tuple(VARIANTS)), default=["default"], metavar="NAME,...")
    p.add_argument("--uci", type=some(tuple(UCI)), metavar="NAME,...", help="benchmark sets instead")
    p.add_argument("--splits", type=int, default=SPLITS, help="the first so many")
    p.add_argument("--jobs", type=int, default=1, help="processes of one core each")
    p.add_argument("--out", type=Path, help="file of the stored results")
    p.add_argument("--show", action="store_true", help="only print what is stored")
    p.add_argument("--force", action="store_true", help="replace what is stored with other settings")
    return p.parse_args(words)


def main() -> None:
    args = arguments()
    begin()
    out = args.out or RESULTS / ("uci_default.json" if args.uci else "defaults.json")
    if not args.show:
        made_by = origin(settings={"seed": "number of the split"})
        if args.uci:
            counts = {name: len(load_uci(name).splits) for name in args.uci}
            tasks = [(d, "default", k) for k in range(args.splits) for d in args.uci if k < counts[d]]
            complete(out, made_by, work_uci, tasks, jobs=args.jobs, force=args.force)
        else:
            tasks = plan(args.tables, args.variants, args.splits)
            complete(out, made_by, work, tasks, jobs=args.jobs, force=args.force)
    if args.uci:
        show_uci(read(out))
    else:
        show(read(out), read(RESULTS / "opponents.json"), args.tables, args.variants)


if __name__ == "__main__":
    main()
