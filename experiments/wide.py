"""Tables with many columns: how a regression should start and how much weights should decay.

    TGGM_DATA=... python experiments/wide.py [--quick]

Made-up tables whose target depends on few columns or on all of them, and images with the digit for a target,
from 30 columns on, some with fewer rows than columns. Each is fitted by `TGGMRegressor` as it is ("auto"),
with decays three times larger and smaller, with the decay for narrow tables, from a start that does not know
how many columns there are, and by a ridge regression. Errors are of rows that were held out, divided by the
deviation of the target there: above 1 is worse than the mean. Stores experiments/results/wide.json.
"""

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from datasets import load_mnist
from runs import RESULTS, origin, write
from sklearn.datasets import load_digits, make_friedman1
from sklearn.linear_model import RidgeCV

from tggm import TGGMRegressor
from tggm.estimators.recipe import growing_decay

HELD_OUT = 1000
Table = tuple[str, np.ndarray, np.ndarray]


def tables() -> Iterator[Table]:
    """Name, inputs and targets; the last rows are held out."""
    rng = np.random.default_rng(0)
    for n, d in ((300, 30), (500, 50), (2000, 100), (300, 200)):
        yield (f"Friedman's function, {n} × {d}", *make_friedman1(n + HELD_OUT, d, noise=1.0, random_state=0))
    for n, d in ((300, 100), (2000, 60)):
        X = rng.standard_normal((n + HELD_OUT, d))
        yield (
            f"all columns, linear, {n} × {d}",
            X,
            X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(len(X)),
        )
    for n, d in ((20, 200), (100, 200), (100, 1000)):
        X = rng.standard_normal((n + HELD_OUT, d))
        yield f"two columns, {n} × {d}", X, X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.standard_normal(len(X))
    order = rng.permutation(1797)
    X, y = load_digits(return_X_y=True)
    yield "8×8 digits, 797 × 64", X[order], y[order].astype(float)
    X, y, *_ = load_mnist()
    order = rng.permutation(len(X))[: 1500 + HELD_OUT]
    yield "28×28 digits, 1500 × 784", X[order] / 255.0, y[order].astype(float)


def models(d: int, quick: bool) -> dict[str, Any]:
    """What is compared."""
    decay, epochs = growing_decay(d), 20 if quick else "auto"
    given: dict[str, dict[str, Any]] = {
        "auto": {},
        "decay / 3": {"weight_decay": decay / 3},
        "decay * 3": {"weight_decay": decay * 3},
        "scaled start": {"init": "scaled"},
        "decay 0.1": {"weight_decay": 0.1},
        "decay 0.1, scaled start": {"weight_decay": 0.1, "init": "scaled"},
    }
    ours = {
        name: TGGMRegressor.one_layer(n_members=2, max_epochs=epochs, random_state=0, **settings)
        for name, settings in given.items()
    }
    return {"ridge": RidgeCV(np.logspace(-3, 4, 20)), **ours}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true", help="20 epochs; nothing is stored")
    args = p.parse_args()
    warnings.simplefilter("ignore")  # of undone steps
    record: dict[str, Any] = {}
    for name, X, y in tables():
        seen, unseen = (X[:-HELD_OUT], y[:-HELD_OUT]), (X[-HELD_OUT:], y[-HELD_OUT:])
        errors = {}
        for words, model in models(X.shape[1], args.quick).items():
            error = model.fit(*seen).predict(unseen[0]) - unseen[1]
            errors[words] = float(np.sqrt(np.mean(error**2)) / unseen[1].std())
        record[name] = errors
        print(f"{name:32s}", *(f"{words} {error:.3f} " for words, error in errors.items()), flush=True)
    if not args.quick:
        write(RESULTS / "wide.json", {**origin(), "errors": record})


if __name__ == "__main__":
    main()
