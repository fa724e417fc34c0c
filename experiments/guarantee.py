"""Measure the coverage of guaranteed intervals on small samples with heavy-tailed noise.

    python experiments/guarantee.py [--fits 60]

Each repetition draws a sample, fits `TGGMRegressor(guarantee=0.9)` with few epochs, and counts how many of 20
new rows are inside their intervals. New rows of one repetition share its calibration rows, so the standard
error is over repetitions. Results go to experiments/results/guarantee.json.
"""

import numpy as np
from store import RESULTS, complete, options

from tggm import TGGMRegressor

LEVEL = 0.9
NEW = 20  # new rows per repetition


def sample(rng: np.random.Generator, n: int, noise: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of three columns; the noise grows with the first."""
    X = rng.standard_normal((n, 3))
    draws = {"normal": rng.standard_normal, "cauchy": rng.standard_cauchy, "skewed": rng.standard_exponential}
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * (1 + np.abs(X[:, 0])) * draws[noise](n)


def work(n: int, noise: str, fits: int) -> dict[str, float]:
    """Return the mean coverage and its distance from the level in standard errors."""
    rng, inside = np.random.default_rng([0, n]), []
    for _ in range(fits):
        X, y = sample(rng, n + NEW, noise)
        seed = int(rng.integers(2**31))
        model = TGGMRegressor((8, 8), n_members=3, max_epochs=20, guarantee=LEVEL, random_state=seed)
        low, high = model.fit(X[:n], y[:n]).predict_interval(X[n:], LEVEL, guarantee=True)
        inside.append(np.mean((low <= y[n:]) & (y[n:] <= high)))
    error = max(float(np.std(inside)), 1e-9) / np.sqrt(fits)
    mean = float(np.mean(inside))
    return {"level": LEVEL, "inside": mean, "errors_above": (mean - LEVEL) / error}


if __name__ == "__main__":
    p = options(__doc__)
    p.add_argument("--fits", type=int, default=60)
    args = p.parse_args()
    tasks = [(n, noise, args.fits) for noise in ("cauchy", "normal", "skewed") for n in (20, 50, 200)]
    out = args.out or RESULTS / "guarantee.json"
    complete(out, ("n", "noise", "fits"), work, tasks, jobs=args.jobs, force=args.force)
