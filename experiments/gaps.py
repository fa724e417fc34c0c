"""Measure predictions for rows unlike the training rows: gap splits and tail splits.

    python experiments/gaps.py [--sets boston,mpg,...] [--columns 4] [--epochs 300] [--members 5]
                               [--models default,catboost-early,ngboost,gp]

A gap split sorts the rows by one column, trains on the outer thirds and tests on the middle third. A tail
split trains on the middle and tests on the outer sixths. Columns with fewer than five values are left out.
UCI sets have splits by every column; development tables by `--columns` columns, and the rows of their first
split's training part (at most 2,000). Each run of the default also scores the same fit without the rule that
widens predictions away from the training rows ("narrow"), and as the plain mixture of its members
("mixture"). "random" is the first split of the source. Results go to experiments/results/gaps.json.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from datasets import UCI, load_uci
from learners import LEARNERS
from scores import distribution
from store import RESULTS, Clock, complete, options, some
from threadpoolctl import threadpool_limits

from tables import TABLES
from tggm import TGGMRegressor

SETS = ("boston", "concrete", "energy", "yacht", "wine")
DEVELOPMENT = (
    *("concreteslump", "autos", "servo", "machine", "pendulum", "mpg"),
    *("diabetes", "friedman1", "friedman3", "prices"),
)
MOST_ROWS, LEAST_VALUES = 2000, 5
MODELS = ("default", "catboost-early", "ngboost", "gp")
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


def work(name: str, kind: str, column: int, model: str, members: int, epochs: int) -> dict[str, float]:
    """Score one fit; the default also without parts of it."""
    warnings.simplefilter("ignore")
    X, y, X_new, y_new = parts(name, kind, column)
    unit = float(np.std(y))  # scores in units of the deviation of the training targets can be averaged
    clock = Clock()
    if model == "default":
        ours = TGGMRegressor(n_members=members, max_epochs=epochs, random_state=0).fit(X, y)
        figures, found = clock.read(), {"": distribution(ours.predict_dist(X_new), y_new)}
        ours.fitted_ = replace(ours.fitted_, train=None)
        found["narrow_"] = distribution(ours.predict_dist(X_new), y_new)
        ours.fitted_ = replace(ours.fitted_, calibration=(), neighbors=None, supports=())
        found["mixture_"] = distribution(ours.predict_dist(X_new), y_new)
    else:
        with threadpool_limits(1):
            predict = LEARNERS[model].regression(X, y, 0)
        figures, found = clock.read(), {"": distribution(predict(X_new), y_new)}
    for label, scores in found.items():
        scale = {"ll": (1.0, np.log(unit)), "crps": (1 / unit, 0.0), "cover90": (1.0, 0.0)}
        figures |= {label + name: scale[name][0] * scores[name] + scale[name][1] for name in FIGURES}
    return figures


def main() -> None:
    p = options(__doc__)
    p.add_argument("--sets", type=some((*UCI, *TABLES)), default=[*SETS, *DEVELOPMENT], metavar="NAME,...")
    p.add_argument("--columns", type=int, default=4)
    p.add_argument("--members", type=int, default=5)
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--models", type=some(MODELS), default=list(MODELS), metavar="NAME,...")
    args = p.parse_args()
    tasks: list[tuple[Any, ...]] = []
    for model in args.models:
        end = (args.members, args.epochs) if model == "default" else (0, 0)
        for name in args.sets:
            tasks += [
                (name, kind, j, model, *end)
                for j in columns_of(name, args.columns)
                for kind in ("gap", "tail")
            ]
            tasks += [(name, "random", -1, model, *end)]
    out = args.out or RESULTS / "gaps.json"
    fields = ("set", "split", "column", "model", "members", "epochs")
    complete(out, fields, work, tasks, jobs=args.jobs, force=args.force)


if __name__ == "__main__":
    main()
