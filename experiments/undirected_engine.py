"""Whether mean field or EP should predict for trained undirected models.

    TGGM_DATA=... python experiments/undirected_engine.py [--tables energy] [--methods meanfield,bp,ep]

Random undirected models are predicted far better by EP (benchmarks/deep_accuracy.py). Trained ones have been
fitted to what their engine says. Two networks of two layers of ten units on 400 rows of the first training
part of a UCI set, judged on 100 others of it: RMSE and mean log-density of single networks, standard units,
by either engine; the difference of their means in deviations, median and largest. Stores
experiments/results/undirected_engine.json.
"""

import warnings
from typing import Any

import numpy as np
from datasets import load_uci
from page import table
from runs import RESULTS, begin, complete, options, origin, read

from tggm import TGGMRegressor
from tggm.predictive.moments import member_moments
from tggm.training.engine import Inference

RESULT = RESULTS / "undirected_engine.json"
ENGINES = ("mean_field", "ep")
SETTINGS: dict[str, Any] = {
    "deep": "undirected", "hidden": (10, 10), "features": None, "linear": False, "n_members": 2,
    "max_epochs": 60, "calibrate": False, "target_transform": None, "random_state": 0,
}  # fmt: skip


def run(name: str, method: str) -> dict[str, float]:
    """One model, predicted twice."""
    warnings.simplefilter("ignore")
    X, y, splits = load_uci(name)
    rows = np.random.default_rng(0).permutation(splits[0][0])
    test, train = rows[:100], rows[100:500]
    model = TGGMRegressor(**SETTINGS, method=method).fit(X[train], y[train])
    scales = model.fitted_.scales
    Z, target = scales.x.apply(X[test]), scales.y.apply(y[test][:, None])[:, 0]
    found, means = {}, []
    for engine in ENGINES:
        mean, var = (
            a[:, :, 0] for a in member_moments(model.fitted_.model, Z, Inference(engine), np.float32)
        )
        error = target - mean
        found[f"{engine}_rmse"] = float(np.sqrt(np.mean(error**2)))
        found[f"{engine}_ll"] = float(np.mean(-0.5 * error**2 / var - 0.5 * np.log(2 * np.pi * var)))
        means.append(mean)
    apart = np.abs(means[0] - means[1]) / np.sqrt(var)
    return {**found, "median": float(np.median(apart)), "largest": float(apart.max())}


def block() -> str:
    """The table of the documentation."""
    rows = []
    for key, r in read(RESULT)["runs"].items():
        both = [f"{r[f'{engine}_rmse']:.4f} / {r[f'{engine}_ll']:.4f}" for engine in ENGINES]
        rows.append([*key.split(), *both, f"{r['median']:.3f} ({r['largest']:.3f})"])
    return table(["set", "trained by", "mean field: RMSE / log-density", "EP", "means apart"], rows)


if __name__ == "__main__":
    begin()
    parser = options(__doc__)
    parser.add_argument("--tables", default="energy")
    parser.add_argument("--methods", default="meanfield,bp,ep")
    given = parser.parse_args()
    tasks = [(name, method) for name in given.tables.split(",") for method in given.methods.split(",")]
    complete(RESULT, origin(settings={"seed": 0}), run, tasks, given.jobs, force=given.force)
    print(block())
