"""Measure how long fits with a time budget take.

    TGGM_DATA=... python benchmarks/time_budget.py

Every fit is the first of its process, with an empty folder of compiled programs, on one core. The clock
counts the CPU seconds of the process, which other processes do not change. Writes
benchmarks/results/time_budget.json.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, keep

FIT = f"""
import json, os, sys, time
time.perf_counter = time.process_time
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
sys.path.insert(0, {sys.path[0]!r})
name, budget = sys.argv[1], float(sys.argv[2])
import tggm
if name == "adult":
    from tables import RAW_TABLES
    X, y = RAW_TABLES[name].raw(0)[:2]
else:
    from datasets import load_uci
    data = load_uci(name)
    X, y = data.X, data.y
model = (tggm.TGGMClassifier if name == "adult" else tggm.TGGMRegressor)(time_budget=budget, random_state=0)
clock = time.perf_counter()
model.fit(X, y)
seconds = time.perf_counter() - clock
print(json.dumps(dict(table=name, rows=len(y), budget=budget, seconds=seconds, epochs=model.n_iter_)))
"""
TABLES, BUDGETS = ("concrete", "protein", "adult"), (5.0, 10.0, 20.0)


def main() -> None:
    runs = []
    for budget in BUDGETS:
        for name in TABLES:
            with tempfile.TemporaryDirectory() as folder:
                env = os.environ | {"TGGM_COMPILATION_CACHE": folder}
                command = [sys.executable, "-W", "ignore", "-c", FIT, name, str(budget)]
                done = subprocess.run(command, check=True, env=env, stdout=subprocess.PIPE, text=True)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
            print(runs[-1], flush=True)
            keep(BENCHMARKS / "time_budget.json", runs)


if __name__ == "__main__":
    main()
