"""Measure the first fit of a process, with an empty and with a filled cache of compiled programs.

    TGGM_DATA=... python benchmarks/first_fit.py

A new process imports the package, fits Boston housing (455 rows) and predicts the test rows; elapsed and CPU
seconds include the import. A second case only imports JAX and scikit-learn, a third is the second fit of a
process. With a filled cache the best of three is reported. Writes benchmarks/results/first_fit.json.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, keep

IMPORT = "import jax, sklearn.base"
FIT = f"""
import sys, time
sys.path.insert(0, {sys.path[0]!r})
from datasets import load_uci
from tggm import TGGMRegressor
data = load_uci("boston")
train, test = data.splits[0]

def fit():
    TGGMRegressor(random_state=0).fit(data.X[train], data.y[train]).predict(data.X[test])

fit()
"""
AGAIN = """
clock, processor = time.perf_counter(), time.process_time()
fit()
print([time.perf_counter() - clock, time.process_time() - processor])
"""
REPEATS = 3
Seconds = tuple[float, float]  # elapsed, CPU


def process(code: str, folder: str) -> tuple[Seconds, str]:
    """Return the seconds of a fresh process that caches its programs in a folder, and its output."""
    env = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    env["TGGM_COMPILATION_CACHE"] = folder
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, env=env, stdout=subprocess.PIPE, text=True
    )
    elapsed, after = time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (elapsed, busy), done.stdout


def best(code: str, folder: str) -> Seconds:
    return min(process(code, folder)[0] for _ in range(REPEATS))


def main() -> None:
    found: dict[str, Seconds] = {}
    with tempfile.TemporaryDirectory() as folder:
        found["import JAX and scikit-learn"] = best(IMPORT, folder)
    with tempfile.TemporaryDirectory() as folder:
        found["default, empty folder"] = process(FIT, folder)[0]
        found["default, filled folder"] = best(FIT, folder)
        elapsed, cpu = json.loads(process(FIT + AGAIN, folder)[1])
        found["default, second fit of a process"] = elapsed, cpu
    runs = [{"what": name, "elapsed_s": elapsed, "cpu_s": cpu} for name, (elapsed, cpu) in found.items()]
    for run in runs:
        print(run)
    keep(BENCHMARKS / "first_fit.json", runs)


if __name__ == "__main__":
    main()
