"""Fit censored targets: with the limits, without these rows, and with limits as values.

    python experiments/censored.py [--seeds 5]

y = sin 2x + x/2 + 0.5 ε on x ∈ [−2, 2]. Each row has a random limit c, and its target is min(y, c); 40 % of
the targets are censored. Scores of the predicted mean: RMSE against new uncensored targets and against the
true mean, and its bias. NGBoost's survival fit (log-normal, for e^y) is included if it is installed. Results
go to experiments/results/censored.json.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np
from scores import rms
from store import RESULTS, complete, options

from tggm import TGGMRegressor

FITS = ("uncensored", "censored", "dropped", "limits as values", "ngboost survival")


def truth(x: np.ndarray) -> np.ndarray:
    return np.sin(2 * x) + x / 2


def draw(rows: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return inputs, true targets, observed targets, and 1 where the observed target is a limit."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, rows)
    y = truth(x) + 0.5 * rng.standard_normal(rows)
    spread = 0.7 * rng.standard_normal(rows)
    limit = np.quantile(y - spread, 0.6) + spread  # 40 % of the targets are above
    return x[:, None], y, np.minimum(y, limit), (y > limit).astype(int)


def ngboost(X: np.ndarray, seen: np.ndarray, side: np.ndarray, seed: int) -> Any:
    from ngboost import NGBSurvival
    from ngboost.distns import LogNormal

    model = NGBSurvival(Dist=LogNormal, n_estimators=300, random_state=seed, verbose=False)
    model.fit(X, np.exp(seen), 1 - side)
    return lambda grid: np.log(model.pred_dist(grid).params["scale"])


def work(fit: str, seed: int) -> dict[str, float]:
    """Fit to 1,000 rows and score on 2,000."""
    X, y, seen, side = draw(1000, seed)
    new_X, new_y, *_ = draw(2000, seed + 1000)
    model = TGGMRegressor(hidden=(30,), n_members=5, random_state=seed)
    if fit == "uncensored":
        predict = model.fit(X, y).predict
    elif fit == "censored":
        predict = model.fit(X, seen, censored=side).predict
    elif fit == "dropped":
        predict = model.fit(X[side == 0], seen[side == 0]).predict
    elif fit == "limits as values":
        predict = model.fit(X, seen).predict
    else:
        predict = ngboost(X, seen, side, seed)
    mean = predict(new_X)
    error = mean - truth(new_X[:, 0])
    return {"rmse": rms(mean - new_y), "rmse_mean": rms(error), "bias": float(error.mean())}


if __name__ == "__main__":
    p = options(__doc__)
    p.add_argument("--seeds", type=int, default=5)
    args = p.parse_args()
    fits = FITS if find_spec("ngboost") else FITS[:-1]
    tasks = [(fit, seed) for seed in range(args.seeds) for fit in fits]
    out = args.out or RESULTS / "censored.json"
    complete(out, ("fit", "seed"), work, tasks, jobs=args.jobs, force=args.force)
