"""Measure the coverage of guaranteed intervals and sets on small samples.

    python experiments/guarantee.py [--fits 60] [--noise cauchy normal skewed groups classes]

Each repetition draws a sample, fits a small model with `guarantee=0.9` and few epochs, and counts how many of
20 new rows are inside their intervals, or have their class in their sets. Noise is heavy-tailed; "groups" has
groups of five rows that share most of their noise, and new rows of new groups. New rows of one repetition
share its calibration rows, so the standard error is over repetitions. "mapie" has the classes, too, and the
sets of MAPIE (adaptive, not randomised) by the same fit and the same 100 calibration rows; it needs pip
install mapie. Results go to experiments/results/guarantee.json.
"""

import numpy as np
from store import RESULTS, complete, options

from tggm import TGGMClassifier, TGGMRegressor
from tggm.predictive.conformal import class_scores, class_set

LEVEL = 0.9
NEW = 20  # new rows per repetition
CALIBRATION = 100  # rows, of "mapie"
SMALL = {"hidden": (8, 8), "n_members": 3, "max_epochs": 20, "guarantee": LEVEL}
DRAWS = {"normal": "standard_normal", "cauchy": "standard_cauchy", "skewed": "standard_exponential"}


def sample(rng: np.random.Generator, n: int, noise: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return rows of three columns, targets and groups; the noise grows with the first column."""
    X = rng.standard_normal((n, 3))
    mean, scale = np.sin(2 * X[:, 0]) + X[:, 1], 0.3 * (1 + np.abs(X[:, 0]))
    if noise == "groups":
        groups = np.arange(n) // 5
        return X, mean + rng.standard_t(2, n // 5)[groups] + scale * rng.standard_normal(n), groups
    if noise in ("classes", "mapie"):
        return X, np.digitize(mean + rng.standard_normal(n), [-1.0, 0.0, 1.0]), None
    return X, mean + scale * getattr(rng, DRAWS[noise])(n), None


def work(n: int, noise: str, fits: int) -> dict[str, float]:
    """Return the mean coverage and its distance from the level in standard errors."""
    rng, inside = np.random.default_rng([0, n]), []
    if noise == "mapie":
        return beside_mapie(rng, n, fits)
    for _ in range(fits):
        X, y, groups = sample(rng, n + NEW, noise)
        seed, known = int(rng.integers(2**31)), None if groups is None else groups[:n]
        if noise == "classes":
            model = TGGMClassifier(**SMALL, linear=False, random_state=seed).fit(X[:n], y[:n])
            found = model.predict_set(X[n:], LEVEL)[:, :, None] & (
                model.classes_[:, None] == y[n:, None, None]
            )
            inside.append(found.any((1, 2)).mean())
            continue
        model = TGGMRegressor(**SMALL, random_state=seed).fit(X[:n], y[:n], groups=known)
        low, high = model.predict_interval(X[n:], LEVEL, guarantee=True)
        inside.append(np.mean((low <= y[n:]) & (y[n:] <= high)))
    error = max(float(np.std(inside)), 1e-9) / np.sqrt(fits)
    mean = float(np.mean(inside))
    return {"level": LEVEL, "inside": mean, "errors_above": (mean - LEVEL) / error}


def beside_mapie(rng: np.random.Generator, n: int, fits: int) -> dict[str, float]:
    """Compare coverage and sizes of the sets with those of MAPIE; n rows train."""
    from mapie.classification import SplitConformalClassifier

    found = []
    for _ in range(fits):
        X, y, _ = sample(rng, n + CALIBRATION + NEW, "mapie")
        settings = {**SMALL, "guarantee": None, "max_epochs": 60, "random_state": int(rng.integers(2**31))}
        model = TGGMClassifier(**settings).fit(X[:n], y[:n])
        held, new = slice(n, n + CALIBRATION), slice(n + CALIBRATION, None)
        label = np.searchsorted(model.classes_, y)
        scores = class_scores(model.predict_proba(X[held]))[np.arange(CALIBRATION), label[held]]
        own = class_set(model.predict_proba(X[new]), np.sort(scores), LEVEL)
        other = SplitConformalClassifier(model, LEVEL, conformity_score="aps", prefit=True)
        options = {"include_last_label": True}
        theirs = other.conformalize(X[held], y[held]).predict_set(X[new], options)[1][:, :, 0]
        rows = np.arange(NEW), label[new]
        found.append([own[rows].mean(), theirs[rows].mean(), own.sum(1).mean(), theirs.sum(1).mean()])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(fits)
    figures = dict(zip(("inside", "inside_mapie", "classes", "classes_mapie"), map(float, mean), strict=True))
    return {"level": LEVEL, "errors_above": float((mean[0] - LEVEL) / error[0]), **figures}


if __name__ == "__main__":
    p = options(__doc__)
    p.add_argument("--fits", type=int, default=60)
    p.add_argument("--noise", nargs="+", default=[*DRAWS, "groups", "classes"])
    args = p.parse_args()
    sizes = {"groups": (100, 200), "classes": (50, 200), "mapie": (200,)}
    tasks = [(n, noise, args.fits) for noise in args.noise for n in sizes.get(noise, (20, 50, 200))]
    out = args.out or RESULTS / "guarantee.json"
    complete(out, ("n", "noise", "fits"), work, tasks, jobs=args.jobs, force=args.force)
