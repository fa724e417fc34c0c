"""Seconds of explanations on adult: what each column is worth, and the parts of 1,000 predictions.

    TGGM_DATA=... python benchmarks/explanations.py [--rows 1000]

The default classifier, trained for three epochs: explanations cost what predictions cost, however long the
training. Seconds of the clock include compilation. Writes ``benchmarks/results/explanations.json``.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from record import keep

from tggm import TGGMClassifier

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    clock = time.perf_counter()
    return call(), time.perf_counter() - clock


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=1000)
    options = p.parse_args()
    if not os.environ.get("TGGM_DATA"):
        p.error("set TGGM_DATA to the folder of the benchmark data: adult is read from it")
    from tables import TABLES

    split = TABLES["adult"].raw(0)
    model = TGGMClassifier(max_epochs=3, random_state=0).fit(split.X_train, split.y_train)
    _, importances_s = timed(lambda: model.feature_importances_)
    rows = split.X_test[: options.rows]
    found, explain_s = timed(lambda: model.explain(rows, split.X_train))
    gap = np.abs(np.squeeze(found.base + found.parts.sum(1)) - model.predict_proba(rows)[:, 1]).max()
    figures = {
        "training_rows": len(split.X_train),
        "columns": split.X_train.shape[1],
        "importances_s": importances_s,
        "explained_rows": len(rows),
        "explain_s": explain_s,
        "largest_gap": float(gap),
    }
    print(figures)
    keep("explanations", figures)


if __name__ == "__main__":
    main()
