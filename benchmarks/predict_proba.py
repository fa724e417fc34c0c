"""Time predict_proba against scikit-learn's MLPClassifier of the same size, on 10,000 rows of 784 columns.

    python benchmarks/predict_proba.py [--hidden 100] [--repeat 7]

Both models are trained briefly on random data (how long does not matter to what a prediction costs), and
given the same float32 table. Printed: the median of a few runs, and the ratio. The result goes to
benchmarks/results/predict_proba.json.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from record import commit, machine, results
from sklearn.neural_network import MLPClassifier

from tggm import TGGMClassifier


def seconds(model: Any, X: np.ndarray, repeat: int) -> float:
    """Median time of one call, the first not counted."""
    model.predict_proba(X)
    times = []
    for _ in range(repeat):
        clock = time.perf_counter()
        model.predict_proba(X)
        times.append(time.perf_counter() - clock)
    return float(np.median(times))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=10_000)
    p.add_argument("--hidden", type=int, default=100)
    p.add_argument("--members", type=int, default=1)
    p.add_argument("--repeat", type=int, default=41)
    p.add_argument("--out", type=Path, default=results() / "predict_proba.json")
    args = p.parse_args()
    rng = np.random.default_rng(0)
    X = rng.random((args.rows, 784), np.float32)
    y = X[:, :10].argmax(1)
    ours = TGGMClassifier.one_layer(
        hidden=(args.hidden,),
        n_members=args.members,
        max_epochs=2,
        batch_size=500,
        standardize="whole",
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two epochs do not converge
        relu = MLPClassifier((args.hidden,), max_iter=2, batch_size=500, random_state=0).fit(X, y)
    ours.fit(X, y)
    record = {"rows": args.rows, "hidden": args.hidden, "members": args.members}
    for name, model in (("MLPClassifier", relu), ("TGGMClassifier", ours)):
        record[name] = seconds(model, X, args.repeat)
        print(f"{name:16s} {1e3 * record[name]:8.1f} ms")
    record["ratio"] = record["TGGMClassifier"] / record["MLPClassifier"]
    print(f"{'ratio':16s} {record['ratio']:8.2f}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record | {"commit": commit(), "machine": machine()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
