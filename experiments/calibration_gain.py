"""What calibration changes: coverage, log-likelihood and CRPS of the default with and without it.

    TGGM_DATA=... python experiments/calibration_gain.py [--data yacht,autos] [--splits 20] [--jobs 16]

The nine UCI sets (all splits), the development tables (five splits) and three tables of classes. One fit
gives both: the pool that held-out rows chose, and the mixture of the same members as it is. Of classes:
log-probability, calibration error and accuracy with and without the temperature. Stores
experiments/results/calibration_gain.json.
"""

import time
import warnings
from typing import Any

import class_calibration
import numpy as np
from datasets import UCI, load_uci
from page import table
from runs import RESULTS, begin, complete, mean_error, options, origin, read

from tables import SPLITS, TABLES, Split
from tggm import TGGMRegressor

RESULT = RESULTS / "calibration_gain.json"
LEVELS = (20, 50, 80, 90, 95)
CLASSES = ("titanic", "penguins", "digits")
REGRESSION = tuple(name for name, known in TABLES.items() if known.task == "regression")
DATA = (*UCI, *REGRESSION, *CLASSES)


def split_of(data: str, k: int) -> tuple[Split, int]:
    """Rows to train and to test on, and how many different rows there are."""
    if data in UCI:
        X, y, splits = load_uci(data)
        train, test = splits[k]
        return Split(X[train], y[train], X[test], y[test]), len(y)
    split = TABLES[data].split(k)
    return split, len(split.y_train) + len(split.y_test)


def figures(dist: Any, y: np.ndarray) -> dict[str, float]:
    """Scores of a predictive distribution, and how many targets its central intervals hold."""
    cdf = dist.cdf(y)
    return {
        "rmse": float(np.sqrt(np.mean((dist.mean() - y) ** 2))),
        "ll": float(dist.logpdf(y).mean()),
        "crps": float(dist.crps(y).mean()),
        **{f"cover{p}": float(np.mean(np.abs(cdf - 0.5) < p / 200)) for p in LEVELS},
    }


def run(data: str, k: int) -> dict[str, Any]:
    """One fit on one split, whose number is also the seed, judged twice."""
    warnings.simplefilter("ignore")
    if data in CLASSES:
        return class_calibration.run(data, k)
    split, rows = split_of(data, k)
    clock = time.perf_counter()
    model = TGGMRegressor(random_state=k).fit(split.X_train, split.y_train)
    seconds, fitted = time.perf_counter() - clock, model.fitted_
    found = figures(model.predict_dist(split.X_test), split.y_test)
    model.fitted_ = fitted._replace(calibration=())
    found |= {f"raw_{k}": v for k, v in figures(model.predict_dist(split.X_test), split.y_test).items()}
    pool = [[each.kind, *each.numbers] for each in fitted.calibration]
    return found | {"fit_s": seconds, "n_test": len(split.y_test), "rows": rows, "pool": pool}


def runs_of(data: str) -> list[dict[str, Any]]:
    """Stored runs of one data set."""
    return [made for name, made in read(RESULT).get("runs", {}).items() if name.split()[0] == data]


def _covers(made: list[dict[str, Any]], prefix: str) -> np.ndarray:
    """Shares of test rows inside the intervals."""
    n = [one["n_test"] for one in made]
    return np.array([np.average([one[f"{prefix}cover{p}"] for one in made], weights=n) for p in LEVELS])


def gain() -> str:
    """Before and after, data set by data set."""
    rows = []
    for data in (*UCI, *REGRESSION):
        if made := runs_of(data):
            scores = []
            for name in ("ll", "crps"):
                before, after = (np.mean([one[p + name] for one in made]) for p in ("raw_", ""))
                change = mean_error([one[name] - one["raw_" + name] for one in made])[1]
                scores += [f"{before:.4g}", f"{after:.4g} ± {change:.2g}"]
            covers = [" ".join(f"{100 * c:.0f}" for c in _covers(made, p)) for p in ("raw_", "")]
            rows.append([data, str(len(made)), str(sum(one["n_test"] for one in made)), *scores, *covers])
    head = ["data", "splits", "test rows", "log-likelihood without", "with", "CRPS without", "with"]
    return table([*head, "held without", "held with"], rows) if rows else "Not run."


def verdict() -> str:
    """On how many data sets scores are at least as good, and how far coverage is off."""
    parts = []
    for title, names in (("UCI sets", tuple(UCI)), ("development tables", REGRESSION)):
        made = {name: runs_of(name) for name in names if runs_of(name)}
        if not made:
            continue
        better = [sum(_better(runs, score) for runs in made.values()) for score in ("ll", "crps")]
        off, within = zip(*(_off(runs) for runs in made.values()), strict=True)
        worst = max(zip(off, made, strict=True), key=lambda pair: abs(pair[0]))
        parts.append(
            f"{title}: log-likelihood at least as good on {better[0]} of {len(made)}, CRPS on {better[1]}; "
            f"coverage within two standard errors in {np.mean(within):.0%} of the cells, "
            f"{100 * worst[0]:+.0f} points at most ({worst[1]})."
        )
    return "\n".join(parts) or "Not run."


def _better(made: list[dict[str, Any]], score: str) -> bool:
    """At least as good, up to the standard error of the difference over splits."""
    sign = 1 if score == "ll" else -1
    mean, error = mean_error([sign * (one[score] - one["raw_" + score]) for one in made])
    return bool(mean >= -np.nan_to_num(error))


def _off(made: list[dict[str, Any]]) -> tuple[float, float]:
    """What coverage is off by at most, and the share of levels where chance explains it.

    A row that is tested in several splits says little new the second time.
    """
    level, held = np.array(LEVELS) / 100, _covers(made, "")
    different = min(sum(one["n_test"] for one in made), max(one["rows"] for one in made))
    off = held - level
    inside = np.abs(off) <= 2 * np.sqrt(level * (1 - level) / different)
    return float(off[np.argmax(np.abs(off))]), float(inside.mean())


def classes() -> str:
    """Scores of class probabilities before and after."""
    rows = []
    for data in CLASSES:
        if made := runs_of(data):
            both = [
                f"{np.mean([one['raw_' + key] for one in made]):.4f} → "
                f"{np.mean([one[key] for one in made]):.4f}"
                for key in class_calibration.KEYS
            ]
            rows.append([data, str(len(made)), *both])
    head = ["data", "splits", "negative log-likelihood", "calibration error", "accuracy"]
    return table(head, rows) if rows else "Not run."


BLOCKS = {"gain": gain, "gain-verdict": verdict, "gain-classes": classes}


def main() -> None:
    p = options(__doc__)
    p.add_argument("--data", default=",".join(DATA), metavar="NAME,...")
    p.add_argument("--splits", type=int, default=20, help="the first so many; tables have five")
    args = p.parse_args()
    begin()
    chosen = args.data.split(",")
    if unknown := set(chosen) - set(DATA):
        raise SystemExit(f"--data must be of {', '.join(DATA)}; got {', '.join(sorted(unknown))}.")
    counts = {name: len(load_uci(name).splits) if name in UCI else SPLITS for name in chosen}
    if not args.render:
        tasks = [(name, k) for k in range(args.splits) for name in chosen if k < counts[name]]
        complete(RESULT, origin(settings={"seed": 0}), run, tasks, args.jobs, force=args.force)
    print(gain(), verdict(), classes(), sep="\n\n")


if __name__ == "__main__":
    main()
