"""Censored targets: a fit that knows the limits against fits that drop them or take them for values.

    python experiments/censored.py [--seeds 5]

y = sin 2x + x/2 + 0.5 ε on x ∈ [−2, 2]; each row has its own random limit c and shows min(y, c): 40 % of the
targets are censored. Two errors of the predicted mean, beside that of a fit to the uncensored targets: RMSE
against new, uncensored targets, and against the true mean. NGBoost's survival fit (log-normal times e^y)
stands beside them where it is installed.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from ledger import origin

from tggm import TGGMRegressor

NOISE = 0.5


def truth(x: np.ndarray) -> np.ndarray:
    return np.sin(2 * x) + x / 2


def draw(rows: int, seed: int) -> tuple[np.ndarray, ...]:
    """Inputs, targets, what is seen of them, and 1 where that is a limit."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, rows)
    y = truth(x) + NOISE * rng.standard_normal(rows)
    spread = 0.7 * rng.standard_normal(rows)
    # the offset of the limits that leaves 40 % of the targets above them
    limit = np.quantile(y - spread, 0.6) + spread
    return x[:, None], y, np.minimum(y, limit), (y > limit).astype(int)


def fit(seed: int, method: str, *data: Any, **more: Any) -> Any:
    model = TGGMRegressor.one_layer(hidden=(30,), method=method, n_members=5, random_state=seed)
    return model.fit(*data, **more).predict


def ngboost(X: np.ndarray, seen: np.ndarray, side: np.ndarray, seed: int) -> Any:
    from ngboost import NGBSurvival
    from ngboost.distns import LogNormal

    model = NGBSurvival(Dist=LogNormal, n_estimators=300, random_state=seed, verbose=False)
    model.fit(X, np.exp(seen), 1 - side)
    return lambda grid: np.log(model.pred_dist(grid).params["scale"])


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--rows", type=int, default=1000)
    p.add_argument("--method", default="moments")
    p.add_argument("--out", type=Path, default=Path("experiments/results/censored.json"))
    args = p.parse_args()
    results: dict[str, list[dict[str, float]]] = {}
    clock = time.perf_counter()
    for seed in range(args.seeds):
        X, y, seen, side = draw(args.rows, seed)
        new_X, new_y, *_ = draw(2000, seed + 1000)
        kept = side == 0
        fits = {
            "uncensored": lambda X=X, y=y, s=seed: fit(s, args.method, X, y),
            "censored": lambda X=X, t=seen, c=side, s=seed: fit(s, args.method, X, t, censored=c),
            "dropped": lambda X=X[kept], t=seen[kept], s=seed: fit(s, args.method, X, t),
            "limits as values": lambda X=X, t=seen, s=seed: fit(s, args.method, X, t),
            "ngboost survival": lambda X=X, t=seen, c=side, s=seed: ngboost(X, t, c, s),
        }
        for name, train in fits.items():
            try:
                mean = train()(new_X)
            except ImportError:
                continue
            error = mean - truth(new_X[:, 0])
            measured = {"rmse": rms(mean - new_y), "rmse_mean": rms(error), "bias": float(error.mean())}
            results.setdefault(name, []).append(measured)
        print(f"seed {seed}: {100 * side.mean():.0f} % censored", flush=True)
    for name, runs in results.items():
        line = f"{name:18s}"
        for measure in ("rmse", "rmse_mean", "bias"):
            value, reference = (np.mean([run[measure] for run in r]) for r in (runs, results["uncensored"]))
            line += f"  {measure} {value:+.4f}" + (
                "" if measure == "bias" else f" (×{value / reference:.3f})"
            )
        print(line)
    record = {**origin(), "rows": args.rows, "method": args.method, "seeds": args.seeds,
              "runs": results, "seconds": time.perf_counter() - clock}  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
