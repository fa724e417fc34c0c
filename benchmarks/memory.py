"""Measure the largest resident memory of a fit and a prediction, each in a new process.

    python benchmarks/memory.py

The defaults are fitted to 1,000 rows of 10 columns, to 20,000 rows of 20 columns in ten classes, and to
100,000 rows of 50 columns; 1,000 rows are predicted. Each fit is measured twice: the first process compiles
its programs, the second loads them. The first cases are what no fit can avoid: JAX with one
compiled program, and scikit-learn with what it imports (SciPy, and pandas if it is installed). Writes
benchmarks/results/memory.json.
"""

import os
import resource
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, keep

FLOORS = ("JAX, one program", "and scikit-learn", "and this package")
CASES = {
    **dict.fromkeys(FLOORS, (0, 0, 0)), "1,000 rows": (1000, 10, 0),
    "ten classes, 20,000 rows": (20_000, 20, 10), "100,000 rows": (100_000, 50, 0),
}  # fmt: skip


def measured(case: str) -> dict[str, Any]:
    """Fit one table in this process; `rows`, columns and classes are those of the case."""
    rows, columns, classes = CASES[case]
    clock = time.process_time()
    import jax

    jax.block_until_ready(jax.jit(lambda x: x @ x.T)(np.ones((100, 100), np.float32)))
    if case != FLOORS[0]:
        import sklearn.base  # noqa: F401
    if case not in FLOORS[:2]:
        from tggm import TGGMClassifier, TGGMRegressor
    if rows:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((rows, columns))
        scores = np.sin(2 * X) @ rng.standard_normal((columns, max(classes, 1)))
        noise = 0.5 * rng.standard_normal(scores.shape)
        if classes:
            TGGMClassifier(random_state=0).fit(X, (scores + noise).argmax(1)).predict_proba(X[:1000])
        else:
            TGGMRegressor(random_state=0).fit(X, (scores + noise)[:, 0]).predict(X[:1000])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"case": case, "resident_MiB": round(peak / 1024), "cpu_s": time.process_time() - clock}


def main() -> None:
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TGGM_COMPILATION_CACHE"] = folder
        for case in CASES:
            for programs in ("none",) if case in FLOORS else ("compiled", "stored"):
                with get_context("spawn").Pool(1) as pool:  # a separate process
                    runs.append({**pool.apply(measured, (case,)), "programs": programs})
                print(runs[-1], flush=True)
    keep(BENCHMARKS / "memory.json", runs)


if __name__ == "__main__":
    main()
