"""What limits mean-field training of classifiers: what its bound prefers, and where it starts.

    TGGM_DATA=... python experiments/bound.py [--rows 10000] [--epochs 20]

Handwritten digits, 100 hidden units. A model is trained by `moments`; then mean field goes on from it, and
other mean-field models start from scratch, from the usual weights and from weights a tenth of them (there
with the settings that experiments/mnist.py --validate found best). For each, on training images: the mean
log-probability of the label, mean field's bound on it and EP's estimate of it (E-steps converged); and the
accuracy on held-out training images. If the bound rises while probability and accuracy fall, its looseness is
to blame; where it ends lower than from another start, so is optimisation. Test images are not used.
Writes experiments/results/bound.json.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from classify import merits, write
from datasets import load_mnist
from networks import log_densities, member

from tggm import TGGMClassifier
from tggm.estimators.sources import prepared
from tggm.training import METHODS, Options, Rows

SMALL = {"init": "small", "sigma0": 0.5, "learning_rate": 3e-3, "weight_decay": 0.1}
JUDGED = 1000  # training images on which bounds are compared


def values(model: TGGMClassifier, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Means over rows of what each method takes for the log-probability of the label."""
    network = member(model, np.float32)
    rows = Rows(prepared(X, model.fitted_.scales.x, np.float32), y.astype(np.int32))
    return {
        name: float(np.mean(log_densities(METHODS[name](Options()), network, rows)))
        for name in ("moments", "meanfield", "ep")
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=10_000)
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", type=Path, default=Path("experiments/results/bound.json"))
    args = p.parse_args()
    X, y, _, _ = load_mnist()
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order].astype(np.float32) / 255, y[order]
    train, held = (X[: args.rows], y[: args.rows]), (X[-10_000:], y[-10_000:])
    common = {
        "batch_size": 500, "max_epochs": args.epochs, "standardize": "whole", "random_state": args.seed,
        "early_stopping": False, "weight_decay": 1.0, "average": 0.99, "learning_rate": 5e-3,
    }  # fmt: skip
    runs: list[dict[str, Any]] = []

    def report(name: str, model: TGGMClassifier) -> None:
        row = {"model": name, **values(model, train[0][:JUDGED], train[1][:JUDGED])}
        row["accuracy"] = merits(model.predict_proba(held[0]), held[1])["accuracy"]
        runs.append(row)
        print(
            "{model:28s} {moments:9.4f} {meanfield:9.4f} {ep:9.4f} {accuracy:9.2f}".format(**row), flush=True
        )

    print(f"{'trained by':28s} {'log P':>9s} {'bound':>9s} {'EP':>9s} {'held %':>9s}")
    model = TGGMClassifier.one_layer(hidden=(100,), method="moments", **common).fit(*train)
    report("moments", model)
    model.set_params(method="meanfield", warm_start=True).fit(*train)
    report("moments, then mean field", model)
    report("mean field", TGGMClassifier.one_layer(hidden=(100,), method="meanfield", **common).fit(*train))
    small = TGGMClassifier.one_layer(hidden=(100,), method="meanfield", **{**common, **SMALL}).fit(*train)
    report("mean field, small start", small)
    write(args.out, {"rows": args.rows, "epochs": args.epochs, "seed": args.seed, "runs": runs})


if __name__ == "__main__":
    main()
