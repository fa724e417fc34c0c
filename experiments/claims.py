"""The claims of the paper's text, tested; the answers are on the results page.

    TGGM_DATA=... python experiments/claims.py                    # all that they need besides Table 1
    TGGM_DATA=... python experiments/claims.py --only relu,gauge

1. ML beats BP: the runs of Table 1 (`tggm reproduce table1`).
2. σ0 → 0 gives ReLU: experiments/figure1.py and figure2.py; and `relu` here, which replaces g by max(0, ·)
   in networks fitted with several σ0² and compares predictions.
3. The best σ0 is larger for ML: figure2.py; and `gauge` here, which carries one fitted network into other
   gauges and compares exact log-densities of test rows.
4. BP's gradient approximates ML's: experiments/gradients.py.
5. Starting the prior from the posterior helps: experiments/prior_start.py.

This runs `relu` and `gauge` and then, with their default options and `--jobs`, the scripts named above that
have stored nothing yet. Writes experiments/results/claims.json.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from datasets import load_uci
from gauge import change_of_density
from networks import member, rows_of
from runs import RESULTS, begin, origin, read, write

from tggm import TGGMRegressor

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
        model = TGGMRegressor.one_layer(n_members=1, noise=noise, random_state=seed).fit(X[train], y[train])
        found[words] = change_of_density(member(model), rows_of(model, X[test], y[test]), OTHERS)
    return found


def relu(dataset: str, seed: int) -> list[dict[str, float]]:
    """Root mean square change of test predictions when max(0, ·) takes the place of g, in units of y."""
    X, y, splits = load_uci(dataset)
    train, test = splits[0]
    found = []
    for s0 in (1e-6, 1e-4, 1e-2, 1.0):
        model = TGGMRegressor.paper_bp(sigma0=s0**0.5, max_epochs=300, random_state=seed)
        model.fit(X[train], y[train])
        hidden = np.maximum(X[test] @ model.W0_[0].T + model.b0_[0], 0)
        change = model.predict(X[test]) - (hidden @ model.W1_[0].T + model.b1_[0])[:, 0]
        found.append({"s0": s0, "change": float(np.sqrt(np.mean(change**2)) / y[train].std())})
    return found


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="relu,gauge," + ",".join(SCRIPTS), help="names, separated by commas")
    p.add_argument("--dataset", default="concrete", help="for relu and gauge")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=1, help="processes")
    args = p.parse_args()
    begin()
    only = args.only.split(",")
    measured = {name: make for name, make in (("relu", relu), ("gauge", gauge)) if name in only}
    if measured:
        clock = time.perf_counter()
        found = {name: make(args.dataset, args.seed) for name, make in measured.items()}
        seconds = round(time.perf_counter() - clock, 1)
        write(RESULT, {**read(RESULT), **origin(settings={"seed": args.seed}, seconds=seconds), **found})
        print(found)
    for name in [name for name in SCRIPTS if name in only]:
        if (RESULTS / f"{name}.json").exists():
            print(f"experiments/results/{name}.json is there; run experiments/{name}.py itself to add to it")
            continue
        script = Path(__file__).with_name(f"{name}.py")
        options = ["--jobs", str(args.jobs)] if SCRIPTS[name] else []
        subprocess.run([sys.executable, str(script), *options], check=True)


if __name__ == "__main__":
    main()
