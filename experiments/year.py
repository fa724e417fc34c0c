"""Year Prediction MSD: 463,715 songs to train on and 51,630 to test on, 90 columns each.

The file is used where the folder that TGGM_DATA names has it, as YearPredictionMSD.txt (as published: the
year, then 90 columns, comma-separated) or YearPredictionMSD.npz (X and y). Otherwise data of the same shape
are generated: they show that the code runs at this size and how long it takes, and no error is quoted from
them.
"""

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

TRAIN, TEST, COLUMNS = 463_715, 51_630, 90


class Songs(NamedTuple):
    """A table, its target, the one split of its source, and whether it is made up."""

    X: np.ndarray
    y: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]
    generated: bool


@cache
def load_year(limit: int | None = None) -> Songs:
    """The real table or a generated one; `limit` keeps so many training rows and a ninth as many to test."""
    found = _real()
    X, y = found if found is not None else _generated()
    train, test = np.arange(TRAIN), np.arange(TRAIN, TRAIN + TEST)
    if limit is not None:
        train, test = train[:limit], test[: max(limit // 9, 1)]
    return Songs(X, y, [(train, test)], found is None)


def _real() -> tuple[np.ndarray, np.ndarray] | None:
    folder = Path(os.environ.get("TGGM_DATA", "")).expanduser()
    text, packed = folder / "YearPredictionMSD.txt", folder / "YearPredictionMSD.npz"
    if packed.is_file():
        with np.load(packed) as arrays:
            X, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.float64)
    elif text.is_file():
        table = np.loadtxt(text, delimiter=",", dtype=np.float32).astype(np.float64)
        X, y = table[:, 1:], table[:, 0]
    else:
        return None
    if X.shape != (TRAIN + TEST, COLUMNS):
        raise SystemExit(f"{folder}: YearPredictionMSD has shape {X.shape}; fetch a fresh copy.")
    return X, y


def _generated() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((TRAIN + TEST, COLUMNS), np.float32).astype(np.float64)
    ridge = np.abs(X @ rng.standard_normal((COLUMNS, 5)) / np.sqrt(COLUMNS))
    return X, 1998 + 5 * (ridge.sum(1) + rng.standard_normal(len(X)))
