"""Missing targets: two correlated outputs, half of the targets missing at random.

    python experiments/missing.py [--seeds 5]

y1 = sin 2x + e, y2 = cos 2x + e', with noise of standard deviation 0.3 that the two share to 90 %. One fit to
both outputs with NaN where a target is missing, against two separate fits to the rows that have the target.
Mean log-density of both outputs together on complete test rows.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from ledger import origin
from scipy.stats import multivariate_normal

from tggm import TGGMRegressor

COV = 0.3**2 * np.array([[1.0, 0.9], [0.9, 1.0]])


def draw(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, outputs, and the outputs' true means."""
    x = rng.uniform(-2, 2, rows)
    mean = np.stack([np.sin(2 * x), np.cos(2 * x)], 1)
    return x[:, None], mean + rng.multivariate_normal(np.zeros(2), COV, rows), mean


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--rows", type=int, default=800)
    p.add_argument("--method", default="moments")
    p.add_argument("--out", type=Path, default=Path("experiments/results/missing.json"))
    args = p.parse_args()
    runs = []
    clock = time.perf_counter()
    for seed in range(args.seeds):
        rng = np.random.default_rng(seed)
        X, Y, _ = draw(args.rows, rng)
        test_X, test_Y, test_mean = draw(1000, rng)
        seen = np.where(rng.uniform(size=Y.shape) < 0.5, np.nan, Y)
        model = TGGMRegressor.one_layer(hidden=(30,), method=args.method, n_members=3, random_state=seed)
        joint = model.fit(X, seen).score_samples(test_X, test_Y)
        apart = np.zeros(len(test_X))
        for j in range(2):
            there = ~np.isnan(seen[:, j])
            apart += model.fit(X[there], seen[there, j]).score_samples(test_X, test_Y[:, j])
        best = multivariate_normal(np.zeros(2), COV).logpdf(test_Y - test_mean)
        run = {"joint": joint.mean(), "separate": apart.mean(), "truth": best.mean(),
               "difference_se": (joint - apart).std() / np.sqrt(len(joint))}  # fmt: skip
        runs.append({name: float(value) for name, value in run.items()})
        print(f"seed {seed}:", {name: round(value, 3) for name, value in runs[-1].items()}, flush=True)
    for name in ("joint", "separate", "truth"):
        values = np.array([run[name] for run in runs])
        error = values.std() / np.sqrt(max(len(runs) - 1, 1))
        print(f"{name:9s} log-likelihood a row {values.mean():.3f} ± {error:.3f}")
    record = {**origin(), "rows": args.rows, "method": args.method, "runs": runs,
              "seconds": time.perf_counter() - clock}  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
