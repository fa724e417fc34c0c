"""Targets with limits and steps: CRPS and coverage with support=None and support="auto".

Generated targets have 2,000 training and 4,000 test rows; of Wine, the training part of each split is divided
at random into 80 % and 20 %, and the test part is not used. Results go to experiments/results/targets.json.

    python experiments/targets.py [wine,counts] [--splits 3]
"""

from functools import partial
from typing import Any

import numpy as np
import store
from datasets import load_uci

from tggm import TGGMRegressor

PATH = store.RESULTS / "targets.json"
LEVELS = (0.5, 0.8, 0.9)
ROWS, TEST, COLUMNS = 2000, 4000, 6
Pair = tuple[np.ndarray, np.ndarray]


def signal(X: np.ndarray) -> np.ndarray:
    """Return a smooth function of three columns, with mean 0 and deviation 1."""
    return (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 1]) / 1.35


def claims(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw 92 % zeros; the other values are lognormal (a compound Poisson process)."""
    count = rng.poisson(np.exp(0.8 * signal(X) - 2.8))
    sizes = np.exp(6 + 0.5 * X[:, 3] + rng.standard_normal(len(X)))
    return np.where(count > 0, count * sizes, 0.0)


def spending(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a latent normal, 0 where it is negative."""
    return np.maximum(signal(X) + 0.7 * rng.standard_normal(len(X)), 0.0)


def rain(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw gamma values and, independently of their size, 60 % zeros."""
    wet = rng.random(len(X)) < 1 / (1 + np.exp(0.5 - 1.5 * X[:, 4]))
    return np.where(wet, rng.gamma(1.5, np.exp(0.6 * signal(X))), 0.0)


def counts(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw Poisson counts of a mean around 2."""
    return rng.poisson(np.exp(0.7 + 0.6 * signal(X))).astype(float)


def overdispersed(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw negative binomial counts."""
    return rng.poisson(rng.gamma(1.5, np.exp(1.5 + 0.8 * signal(X)) / 1.5)).astype(float)


def rates(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw shares with zeros and ones."""
    return np.clip(0.5 + 0.4 * signal(X) + 0.25 * rng.standard_normal(len(X)), 0.0, 1.0)


def capped(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw lognormal prices, capped at 50."""
    return np.minimum(np.exp(3 + 0.5 * signal(X) + 0.25 * rng.standard_normal(len(X))), 50.0)


def grades(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw whole numbers around a mean of 6, with a deviation of 0.6."""
    return np.round(6 + 0.6 * signal(X) + 0.6 * rng.standard_normal(len(X)))


GENERATED = {f.__name__: f for f in (claims, spending, rain, counts, overdispersed, rates, capped, grades)}
NAMES = [*GENERATED, "wine"]


def rows_of(name: str, split: int) -> tuple[Pair, Pair]:
    """Return training and test rows."""
    rng = np.random.default_rng([split, 38])
    if name == "wine":
        data = load_uci("wine")
        part = data.splits[split][0]
        X, y = data.X[part], data.y[part]
        order = rng.permutation(len(y))
        train, test = np.split(order, [round(0.8 * len(y))])
        return (X[train], y[train]), (X[test], y[test])
    X = rng.standard_normal((ROWS + TEST, COLUMNS))
    y = GENERATED[name](X, rng)
    return (X[:ROWS], y[:ROWS]), (X[ROWS:], y[ROWS:])


def measure(name: str, split: int, support: str, *, epochs: int | str) -> store.Run:
    """Fit, and return scores on the test rows."""
    (X, y), (X_new, y_new) = rows_of(name, split)
    clock = store.Clock()
    given = "auto" if support == "auto" else None
    model = TGGMRegressor(support=given, random_state=0, max_epochs=epochs).fit(X, y)
    seconds = clock.read()
    law: Any = model.predict_dist(X_new)
    found: store.Run = {"chosen": str(model.support_), "crps": float(law.crps(y_new).mean())}
    for level in LEVELS:
        low, high = law.interval(level)
        found[f"inside{level:.0%}"] = float(np.mean((low <= y_new) & (y_new <= high)))
    found["rmse"] = float(np.sqrt(np.mean((law.mean() - y_new) ** 2)))
    pit = np.sort(law.pit(y_new))
    found["pit"] = float(np.abs(pit - (np.arange(len(pit)) + 0.5) / len(pit)).max())  # Kolmogorov's distance
    if model.support_ is not None and model.support_[2] is not None:
        found["log_density"] = float(law.logpdf(y_new).mean())
    return found | seconds


def main() -> None:
    """Run the command."""
    parser = store.options(__doc__)
    parser.add_argument("names", nargs="?", type=store.some(NAMES), default=NAMES, help="targets: a,b,...")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--epochs", type=int, help="instead of the default program")
    given = parser.parse_args()
    tasks = [(n, k, s) for n in given.names for k in range(given.splits) for s in ("None", "auto")]
    work, path = partial(measure, epochs=given.epochs or "auto"), given.out or PATH
    store.complete(
        path, ("name", "split", "support"), work, tasks,
        jobs=given.jobs, force=given.force, epochs=given.epochs,
    )  # fmt: skip


if __name__ == "__main__":
    main()
