"""Lateral connections between hidden units: do they help on held-out rows of real data.

    TGGM_DATA=... python experiments/lateral.py --datasets yacht,boston --splits 3

TGGMRegressor trained by EP with lateral connections of rank 0, 1, 2 and 4, everything else alike. The
training part of each split is cut in two; a third of it is the validation set. The test part is not
touched.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from datasets import load_uci
from ledger import origin

from tggm import TGGMRegressor


def judge(rank: int, args: Any, seed: int, train: Any, held: Any) -> dict[str, float]:
    model = TGGMRegressor.one_layer(
        hidden=(args.hidden,), method="ep", lateral=rank, n_members=args.members,
        max_epochs=args.epochs, patience=None, random_state=seed,
    )  # fmt: skip
    clock = time.perf_counter()
    model.fit(*train)
    dist = model.predict_dist(held[0])
    return {
        "ll": float(dist.logpdf(held[1]).mean()),
        "rmse": float(np.sqrt(np.mean((dist.mean() - held[1]) ** 2))),
        "seconds": time.perf_counter() - clock,
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--datasets", default="yacht,boston")
    p.add_argument("--ranks", default="0,1,2,4")
    p.add_argument("--splits", type=int, default=3)
    p.add_argument("--members", type=int, default=3)
    p.add_argument("--hidden", type=int, default=25)
    p.add_argument("--epochs", type=int, default=150)
    p.add_argument("--out", type=Path, default=Path("experiments/results/lateral.json"))
    args = p.parse_args()
    settings = {name: str(value) for name, value in vars(args).items()}
    record: dict[str, Any] = {**origin(), "settings": settings, "runs": []}
    ranks = [int(r) for r in args.ranks.split(",")]
    for dataset in args.datasets.split(","):
        X, y, splits = load_uci(dataset)
        table: dict[int, list[float]] = {rank: [] for rank in ranks}
        for i, (train, _) in enumerate(splits[: args.splits]):
            order = np.random.default_rng(i).permutation(train)
            inner, held = order[len(order) // 3 :], order[: len(order) // 3]
            for rank in ranks:
                found = judge(rank, args, i, (X[inner], y[inner]), (X[held], y[held]))
                table[rank].append(found["ll"])
                record["runs"].append({"dataset": dataset, "split": i, "rank": rank, **found})
                print(f"{dataset} {i} rank {rank}", {k: round(v, 3) for k, v in found.items()}, flush=True)
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(json.dumps(record, indent=1))
        base = np.array(table[0])
        for rank in ranks:
            gain = np.array(table[rank]) - base
            error = gain.std() / np.sqrt(max(len(gain) - 1, 1))
            mean = np.mean(table[rank])
            print(
                f"{dataset:8s} rank {rank}: validation LL {mean:.3f}, gain {gain.mean():+.3f} ± {error:.3f}"
            )


if __name__ == "__main__":
    main()
