"""The claims of the paper's text, tested; the answers are on the results page.

    TGGM_DATA=... python experiments/claims.py                    # all that they need besides Table 1
    TGGM_DATA=... python experiments/claims.py --only gauge

1. ML beats BP: the runs of Table 1 (`tggm reproduce table1`).
2. σ0 → 0 gives ReLU: experiments/figure1.py and figure2.py.
3. The best σ0 is larger for ML: figure2.py; and `gauge` here, which carries one fitted network into other
   gauges and compares exact log-densities of test rows.
4. BP's gradient approximates ML's: experiments/gradients.py.
5. Starting the prior from the posterior helps: experiments/prior_start.py.

This runs `gauge` and then, with their default options and `--jobs`, the scripts named above; what they have
stored they do not make again. Writes experiments/results/claims.json.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from gauge import change_of_density
from runs import RESULTS, on_cpu, origin, write

from tggm import TGGMRegressor
from tggm.datasets import load_uci

RESULT = RESULTS / "claims.json"
OTHERS = [1e-4, 1e-2, 0.5, 10.0]
SCRIPTS = {
    "figure1": False,
    "figure2": True,
    "gradients": True,
    "prior_start": True,
}  # whether it takes --jobs


def gauge(dataset: str, seed: int) -> dict[str, Any]:
    """How much exact log-densities of test rows change when a fitted network is carried to other σ0²."""
    X, y, splits = load_uci(dataset)
    train, test = splits[0]
    found: dict[str, Any] = {"dataset": dataset, "s0": OTHERS, "rows": len(test)}
    for words, noise in (("noise learned", None), ("noise fixed at 0.5", 0.5)):
        model = TGGMRegressor(n_members=1, noise=noise, random_state=seed).fit(X[train], y[train])
        params = jax.tree.map(lambda a: np.asarray(a[0], np.float64), model._params)
        rows = model._x.apply(X[test]), model._y.apply(y[test][:, None])[:, 0]
        found[words] = change_of_density(params, *rows, model.sigma0**2, OTHERS)
    return found


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="gauge," + ",".join(SCRIPTS), help="names, separated by commas")
    p.add_argument("--dataset", default="concrete", help="for gauge")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=1, help="processes")
    args = p.parse_args()
    on_cpu()
    only = args.only.split(",")
    if "gauge" in only:
        clock = time.perf_counter()
        found = gauge(args.dataset, args.seed)
        seconds = round(time.perf_counter() - clock, 1)
        write(RESULT, origin(settings={"seed": args.seed}, gauge=found, seconds=seconds))
        print(found)
    for name in [name for name in SCRIPTS if name in only]:
        script = Path(__file__).with_name(f"{name}.py")
        options = ["--jobs", str(args.jobs)] if SCRIPTS[name] else []
        subprocess.run([sys.executable, str(script), *options], check=True)


if __name__ == "__main__":
    main()
