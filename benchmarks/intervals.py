"""Intervals with a guarantee beside MAPIE's (`pip install mapie`): coverage, width and seconds, same model.

    python benchmarks/intervals.py [--rows 400] [--repetitions 3]

The table is generated: noise of three degrees of freedom that grows with a column, 2,000 test rows. Ours sets
a tenth of the rows aside and scales by predicted deviations; MAPIE's split conformal prediction of the same
model and as many rows has one width for all; its cross-conformal one (CV+) fits the model ten times. The mean
score of an interval (Gneiting and Raftery, 2007) is its width plus 2/α times what falls outside: small is
good.
Writes benchmarks/results/intervals.json.
"""

import argparse
import time
from importlib import metadata
from typing import Any

import numpy as np
from record import keep

from tggm import TGGMRegressor

LEVEL = 0.9
SETTINGS: dict[str, Any] = {"hidden": (20, 20), "n_members": 4, "max_epochs": 100}


def table(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(-2, 2, (n, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * np.exp(0.5 * X[:, 2]) * rng.standard_t(3, n)


def judged(low: np.ndarray, high: np.ndarray, y: np.ndarray, seconds: float) -> dict[str, float]:
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return {
        "inside": float(np.mean(outside == 0)),
        "width": float(np.mean(high - low)),
        "score": float(np.mean(high - low + 2 / (1 - LEVEL) * outside)),
        "seconds": seconds,
    }


def ours(X: np.ndarray, y: np.ndarray, at: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    model = TGGMRegressor(**SETTINGS, guarantee=LEVEL, random_state=seed).fit(X, y)
    return model.predict_interval(at, LEVEL, guarantee=True)


def mapie_split(X: np.ndarray, y: np.ndarray, at: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from mapie.regression import SplitConformalRegressor

    aside = np.zeros(len(y), bool)
    aside[np.random.default_rng(seed).permutation(len(y))[: len(y) // 10]] = True
    model = TGGMRegressor(**SETTINGS, random_state=seed).fit(X[~aside], y[~aside])
    other = SplitConformalRegressor(model, confidence_level=LEVEL, prefit=True)
    ends = other.conformalize(X[aside], y[aside]).predict_interval(at)[1]
    return ends[:, 0, 0], ends[:, 1, 0]


def mapie_plus(X: np.ndarray, y: np.ndarray, at: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from mapie.regression import CrossConformalRegressor

    model = TGGMRegressor(**SETTINGS, random_state=seed)
    other = CrossConformalRegressor(model, confidence_level=LEVEL, method="plus", cv=10)
    ends = other.fit_conformalize(X, y).predict_interval(at)[1]
    return ends[:, 0, 0], ends[:, 1, 0]


WAYS = {"tggm guarantee": ours, "MAPIE split": mapie_split, "MAPIE CV+": mapie_plus}


def main(rows: int, repetitions: int) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        (X, y), (at, truth) = table(rng, rows), table(rng, 2000)
        if not seed:
            ours(X, y, at, seed)  # compiled before the clock runs
        for name, way in WAYS.items():
            clock = time.perf_counter()
            low, high = way(X, y, at, seed)
            found[name].append(judged(low, high, truth, time.perf_counter() - clock))
    means = {
        name: {key: float(np.mean([each[key] for each in runs])) for key in runs[0]}
        for name, runs in found.items()
    }
    for name, each in means.items():
        print(f"{name:<16}" + "".join(f"  {key} {value:.3f}" for key, value in each.items()))
    return {
        "rows": rows, "repetitions": repetitions, "level": LEVEL, "mapie": metadata.version("mapie"), **means
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--repetitions", type=int, default=3)
    given = parser.parse_args()
    keep("intervals", main(given.rows, given.repetitions))
