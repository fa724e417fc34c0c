"""Fit two correlated outputs with half of the targets missing at random.

    python experiments/missing.py [--seeds 5]

y1 = sin 2x + e, y2 = cos 2x + e', with noise of standard deviation 0.3 and correlation 0.9. One fit has both
outputs, with NaN for missing targets; two separate fits have the rows with the target. The score is the mean
log-density of both outputs on complete test rows. Results go to experiments/results/missing.json.
"""

import numpy as np
from scipy.stats import multivariate_normal
from store import RESULTS, complete, options

from tggm import TGGMRegressor

COV = 0.3**2 * np.array([[1.0, 0.9], [0.9, 1.0]])


def draw(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, outputs, and the true means of the outputs."""
    x = rng.uniform(-2, 2, rows)
    mean = np.stack([np.sin(2 * x), np.cos(2 * x)], 1)
    return x[:, None], mean + rng.multivariate_normal(np.zeros(2), COV, rows), mean


def work(seed: int) -> dict[str, float]:
    """Score the joint fit, the separate fits and the true model."""
    rng = np.random.default_rng(seed)
    X, Y, _ = draw(800, rng)
    test_X, test_Y, test_mean = draw(1000, rng)
    seen = np.where(rng.uniform(size=Y.shape) < 0.5, np.nan, Y)
    model = TGGMRegressor(hidden=(30,), n_members=3, random_state=seed)
    joint = model.fit(X, seen).predict_dist(test_X).logpdf(test_Y)
    separate = np.zeros(len(test_X))
    for j in range(2):
        known = ~np.isnan(seen[:, j])
        separate += model.fit(X[known], seen[known, j]).predict_dist(test_X).logpdf(test_Y[:, j])
    best = multivariate_normal(np.zeros(2), COV).logpdf(test_Y - test_mean)
    return {"joint": float(joint.mean()), "separate": float(separate.mean()), "truth": float(best.mean())}


if __name__ == "__main__":
    p = options(__doc__)
    p.add_argument("--seeds", type=int, default=5)
    args = p.parse_args()
    out = args.out or RESULTS / "missing.json"
    tasks = [(seed,) for seed in range(args.seeds)]
    complete(out, ("seed",), work, tasks, jobs=args.jobs, force=args.force)
