"""Measure predictions for rows unlike the training rows: gap splits and tail splits.

    python experiments/gaps.py [--sets boston,mpg,...] [--columns 4] [--epochs 300] [--members 5]

A gap split sorts the rows by one column, trains on the outer thirds and tests on the middle third. A tail
split trains on the middle and tests on the outer sixths. Columns with fewer than five values are left out.
UCI sets have splits by every column; development tables by `--columns` columns, and the rows of their first
split's training part (at most 2,000). Each run also scores the same fit without the rule that widens
predictions away from the training rows ("narrow"). "random" is the first split of the source.
Results go to experiments/results/gaps.json.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from datasets import UCI, load_uci
from scores import distribution
from store import RESULTS, Clock, complete, options, read, some

from tables import TABLES
from tggm import TGGMRegressor

SETS = ("boston", "concrete", "energy", "yacht", "wine")
DEVELOPMENT = (
    *("concreteslump", "autos", "servo", "machine", "pendulum", "mpg"),
    *("diabetes", "friedman1", "friedman3", "prices"),
)
MOST_ROWS, LEAST_VALUES = 2000, 5
FIGURES = ("ll", "crps", "cover90")


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows of a UCI set, or the training rows of a development table."""
    if name in UCI:
        data = load_uci(name)
        return data.X, data.y
    split = TABLES[name].split(0)
    chosen = np.random.default_rng(0).permutation(len(split.y_train))[:MOST_ROWS]
    return split.X_train[chosen], split.y_train[chosen]


def columns_of(name: str, most: int) -> list[int]:
    """Return the columns that rows are sorted by; `most` of a development table."""
    X, _ = rows_of(name)
    found = [j for j in range(X.shape[1]) if len(np.unique(X[:, j])) >= LEAST_VALUES]
    if name in UCI or len(found) <= most:
        return found
    return [found[k] for k in np.linspace(0, len(found) - 1, most).astype(int)]


def parts(name: str, kind: str, column: int) -> tuple[Any, Any, Any, Any]:
    """Return training inputs and targets, and test inputs and targets."""
    X, y = rows_of(name)
    if kind == "random":
        if name not in UCI:
            split = TABLES[name].split(0)
            return X, y, split.X_test, split.y_test
        train, test = load_uci(name).splits[0]
    else:
        order, n = np.argsort(X[:, column], kind="stable"), len(y)
        size = n // 3 if kind == "gap" else n // 6
        outer, middle = np.r_[order[:size], order[n - size :]], order[size : n - size]
        train, test = (outer, middle) if kind == "gap" else (middle, outer)
    return X[train], y[train], X[test], y[test]


def work(name: str, kind: str, column: int, members: int, epochs: int) -> dict[str, float]:
    """Score one fit, with and without wider predictions away from the training rows."""
    warnings.simplefilter("ignore")
    X, y, X_new, y_new = parts(name, kind, column)
    clock = Clock()
    model = TGGMRegressor(n_members=members, max_epochs=epochs, random_state=0).fit(X, y)
    figures = clock.read()
    scores = distribution(model.predict_dist(X_new), y_new)
    model.fitted_ = replace(model.fitted_, train=None)
    narrow = distribution(model.predict_dist(X_new), y_new)
    unit = float(np.std(y))  # scores in units of the deviation of the training targets can be averaged
    for found, label in ((scores, ""), (narrow, "narrow_")):
        scale = {"ll": (1.0, np.log(unit)), "crps": (1 / unit, 0.0), "cover90": (1.0, 0.0)}
        figures |= {label + name: scale[name][0] * found[name] + scale[name][1] for name in FIGURES}
    return figures


def show(runs: list[dict[str, Any]]) -> None:
    """Print means over columns, and the worst column."""
    print("| set | split | columns | coverage (worst) | before | LL | before | CRPS | before |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, kind in dict.fromkeys((run["set"], run["split"]) for run in runs):
        some_runs = [run for run in runs if (run["set"], run["split"]) == (name, kind)]
        names = [before + figure for before in ("", "narrow_") for figure in FIGURES]
        mean = {figure: np.mean([run[figure] for run in some_runs]) for figure in names}
        worst, before = (min(run[f] for run in some_runs) for f in ("cover90", "narrow_cover90"))
        covers = f"{mean['cover90']:.0%} ({worst:.0%}) | {mean['narrow_cover90']:.0%} ({before:.0%})"
        scores = " | ".join(f"{mean[f]:.3f} | {mean['narrow_' + f]:.3f}" for f in ("ll", "crps"))
        print(f"| {name} | {kind} | {len(some_runs)} | {covers} | {scores} |")


def main() -> None:
    p = options(__doc__)
    p.add_argument("--sets", type=some((*UCI, *TABLES)), default=[*SETS, *DEVELOPMENT], metavar="NAME,...")
    p.add_argument("--columns", type=int, default=4)
    p.add_argument("--members", type=int, default=5)
    p.add_argument("--epochs", type=int, default=300)
    args = p.parse_args()
    end = args.members, args.epochs
    tasks = [
        (name, kind, j, *end)
        for name in args.sets
        for j in columns_of(name, args.columns)
        for kind in ("gap", "tail")
    ]
    tasks += [(name, "random", -1, *end) for name in args.sets]
    out = args.out or RESULTS / "gaps.json"
    fields = ("set", "split", "column", "members", "epochs")
    complete(out, fields, work, tasks, jobs=args.jobs, force=args.force)
    show(read(out)["runs"])


if __name__ == "__main__":
    main()
