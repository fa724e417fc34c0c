"""Measure coverage for rows of new groups and for later rows, with and without hold-outs that match.

    TGGM_DATA=... python experiments/groups.py [--tables intercepts,bike] [--splits 10]

Each run fits the default twice: members hold out single rows ("rows"), or whole groups or later rows
("matched": `groups=`, or `cv=TimeSeriesSplit()`). Test rows are those of groups that the fit does not have,
or the last fifth of a series. Five families of tables are generated, one for each split. Three are
development tables: house prices by neighbourhood, a fifth of the neighbourhoods held out, and two series,
which end at a different time in each split. The standard error of a coverage is over
splits, because errors within a group or a stretch of time are alike. Results go to
experiments/results/groups.json.
"""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from datasets import path_of
from scores import distribution
from sklearn.model_selection import TimeSeriesSplit
from store import RESULTS, Clock, complete, options, some

from tables import TABLES
from tggm import TGGMRegressor

TRAINING_ROWS, TEST_ROWS = 400, 200
SIZE = 10  # rows of a generated group
SERIES_ROWS = 2_000  # training rows of a real series; a quarter of that is tested
SERIES = {"bike": (6, 2, 1, 0), "sml": (4, 3, 0, 1)}  # columns of the time, the slowest last
Table = tuple[Any, np.ndarray, np.ndarray | None, np.ndarray]  # X, y, groups (None for a series), test mask
Generator = np.random.Generator


def intercepts(rng: Generator, group: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return targets with a level of each group, whose rows are similar."""
    x[:, 1:] = rng.normal(size=(group.max() + 1, 2))[group] + 0.1 * x[:, 1:]
    return np.sin(2 * x[:, 0]) + rng.normal(size=group.max() + 1)[group]


def slopes(rng: Generator, group: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return targets with a slope of each group, whose rows are similar except for the first column."""
    x[:, 1:] = rng.normal(size=(group.max() + 1, 2))[group] + 0.1 * x[:, 1:]
    return x[:, 0] * (1 + rng.normal(size=group.max() + 1)[group])


def panel(rng: Generator, group: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return targets with a random walk over the rows of each group, whose columns change slowly."""
    x[:, 1] = rng.normal(size=group.max() + 1)[group] + 0.1 * x[:, 1]
    walk = 0.5 * rng.normal(size=(group.max() + 1, SIZE)).cumsum(1)
    return x[:, 0] + x[:, 1] + walk.ravel()[: len(x)]


def blocks(rng: Generator, group: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return a rough surface; the rows of a group are near to each other."""
    x[:, :2] = rng.uniform(-3, 3, size=(group.max() + 1, 2))[group] + 0.1 * x[:, :2]
    waves, phase = rng.normal(size=(40, 2)), rng.uniform(0, 2 * np.pi, 40)
    return 0.2 * np.cos(x[:, :2] @ waves.T * 1.5 + phase).sum(1)


def drift(rng: Generator, time: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return targets whose level is a random walk in time; the time is a column."""
    x[:, 1] = time / len(time)
    return np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=len(x)).cumsum()


GROUPED = {"intercepts": intercepts, "slopes": slopes, "panel": panel, "blocks": blocks}
NAMES = (*GROUPED, "drift", "ames", *SERIES)


def table(name: str, split: int) -> Table:
    """Return the rows of a split."""
    rng = np.random.default_rng(split)
    if name == "ames":
        X_train, y_train, X_test, y_test = TABLES["ames"].raw(0)
        X = pd.concat([X_train, X_test], ignore_index=True)
        groups = X["Neighborhood"].to_numpy(str)
        known = np.unique(groups)
        test = np.isin(groups, known[rng.permutation(len(known))[: len(known) // 5]])
        return X.drop(columns=["Neighborhood", "PID"]), np.r_[y_train, y_test], groups, test
    if name in SERIES:
        with np.load(path_of(f"tables/{name}.npz"), allow_pickle=False) as stored:
            X, y = stored["X"].astype(np.float64), stored["y"]
        order = np.lexsort([X[:, j] for j in SERIES[name]])
        size = SERIES_ROWS + SERIES_ROWS // 4
        begin = round(split / 9 * (len(y) - size))
        rows = order[begin : begin + size]
        return X[rows], y[rows], None, np.arange(size) >= SERIES_ROWS
    n = TRAINING_ROWS + TEST_ROWS
    x, group = rng.normal(size=(n, 3)), np.arange(n) // SIZE
    y = drift(rng, np.arange(n), x) if name == "drift" else GROUPED[name](rng, group, x)
    y = y + 0.2 * rng.normal(size=n)
    return x, y, None if name == "drift" else group, np.arange(n) >= TRAINING_ROWS


def work(name: str, holdout: str, split: int) -> dict[str, float]:
    """Score one fit on the rows of new groups, or on later rows."""
    warnings.simplefilter("ignore")
    X, y, groups, test = table(name, split)
    settings: dict[str, Any] = {}
    train = (X[~test] if isinstance(X, np.ndarray) else X.loc[~test], y[~test])
    if holdout == "matched" and groups is None:
        settings["cv"] = TimeSeriesSplit()
    known = groups[~test] if holdout == "matched" and groups is not None else None
    clock = Clock()
    model = TGGMRegressor(random_state=split, **settings).fit(*train, groups=known)
    figures = clock.read()
    found = distribution(model.predict_dist(X[test] if isinstance(X, np.ndarray) else X.loc[test]), y[test])
    return {**found, **figures}


def main() -> None:
    p = options(__doc__)
    p.add_argument("--tables", type=some(NAMES), default=list(NAMES), metavar="NAME,...")
    p.add_argument("--splits", type=int, default=10)
    args = p.parse_args()
    tasks = [
        (name, how, k) for k in range(args.splits) for name in args.tables for how in ("rows", "matched")
    ]
    out = args.out or RESULTS / "groups.json"
    complete(out, ("table", "holdout", "split"), work, tasks, jobs=args.jobs, force=args.force)


if __name__ == "__main__":
    main()
