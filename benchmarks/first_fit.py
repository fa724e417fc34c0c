"""Seconds of the first fit of a process, with an empty and with a filled folder of programs.

    TGGM_DATA=... python benchmarks/first_fit.py

A fresh process imports the package, fits Boston housing (455 rows) and predicts the rest: `one_layer()` and
the default, elapsed seconds and those of all processors, import included. Beside it what a process takes that
only imports JAX and scikit-learn, and what a second fit takes in a process that has fitted before. With a
filled folder the best of three counts. Writes ``benchmarks/results/first_fit.json``.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record import keep

EXPERIMENTS = str(Path(__file__).parents[1] / "experiments")  # with the loader of the data
IMPORT = "import jax, sklearn.base"
FIT = f"""
import sys, time
sys.path.insert(0, {EXPERIMENTS!r})
from datasets import load_uci
from tggm import TGGMRegressor
data = load_uci("boston")
train, test = data.splits[0]

def fit():
    made = TGGMRegressor{{made}}
    made.fit(data.X[train], data.y[train]).predict(data.X[test])

fit()
"""
AGAIN = """
clock, processor = time.perf_counter(), time.process_time()
fit()
print([time.perf_counter() - clock, time.process_time() - processor])
"""
MODELS = {"one layer": ".one_layer(random_state=0)", "default": "(random_state=0)"}
REPEATS = 3
Seconds = tuple[float, float]  # elapsed, of all processors


def process(code: str, folder: str) -> tuple[Seconds, str]:
    """Seconds of a fresh process that keeps its programs in a folder, and what it prints."""
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


def measured() -> dict[str, Seconds]:
    """Seconds by what was done."""
    found: dict[str, Seconds] = {}
    with tempfile.TemporaryDirectory() as unused:
        found["import JAX and scikit-learn"] = best(IMPORT, unused)
    for name, made in MODELS.items():
        code = FIT.format(made=made)
        with tempfile.TemporaryDirectory() as folder:
            found[f"{name}, empty folder"] = process(code, folder)[0]
            found[f"{name}, filled folder"] = best(code, folder)
            elapsed, busy = json.loads(process(code + AGAIN, folder)[1])
            found[f"{name}, second fit of a process"] = elapsed, busy
    return found


def main() -> None:
    found = measured()
    for name, (elapsed, busy) in found.items():
        print(f"{name:36s} {elapsed:6.2f} s elapsed, {busy:6.2f} s of processors")
    runs = [{"what": name, "elapsed_s": e, "cpu_s": b} for name, (e, b) in found.items()]
    print("stored in", keep("first_fit", {"runs": runs}))


if __name__ == "__main__":
    main()
