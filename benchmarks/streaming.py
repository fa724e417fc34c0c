"""Memory and throughput of a fit from a stream, beside a fit in memory.

    python benchmarks/streaming.py [--rows 10000000]

Ten million rows of 20 columns are written to a temporary folder as float32 (800 MB) and fitted from there in
two passes; a tenth of them is fitted in memory with as many steps. Each fit has a process of its own, whose
largest resident memory is reported. Rows per second are measured between the first and the last report of
progress, without compilation and the first pass. Both fits are repeated in turn. Writes
benchmarks/results/streaming.json.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, keep

COLUMNS = 20


def write(folder, rows):
    """Write X.npy and y.npy in pieces."""
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (rows, COLUMNS))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (rows,))
    rng = np.random.default_rng(0)
    for start in range(0, rows, 2**18):
        Z = rng.standard_normal((min(2**18, rows - start), COLUMNS), dtype=np.float32)
        noise = 0.2 * np.abs(Z[:, 2]) * rng.standard_normal(len(Z), dtype=np.float32)
        X[start : start + len(Z)] = Z
        y[start : start + len(Z)] = np.sin(2 * Z[:, 0]) + np.maximum(Z[:, 1], 0) + noise


def fit(folder, kind, rows, passes):
    """Fit in this process and print the figures."""
    from tggm import TGGMRegressor
    from tggm.data import from_arrays
    from tggm.training import Observer

    class Watch(Observer):
        """Record the times of finished passes."""

        def progressed(self, epochs, trace):
            """Record the time."""
            times.append((epochs, time.perf_counter()))

    mapped = [np.load(Path(folder, name), mmap_mode="r") for name in ("X.npy", "y.npy")]
    model = TGGMRegressor(hidden=(50,), n_members=1, max_epochs=passes, batch_size=512, random_state=0)
    times = []
    begin = time.perf_counter()
    if kind == "stream":
        model.fit(from_arrays(*mapped), observer=Watch())
    else:
        model.fit(*(np.array(a[:rows]) for a in mapped), observer=Watch())
    seconds = time.perf_counter() - begin
    (first, early), (last, late) = times[0], times[-1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    test = [np.array(a[-20_000:], np.float64) for a in mapped]
    figures = {
        "fit": kind,
        "rows": rows,
        "passes": passes,
        "seconds": round(seconds, 2),
        "rows_per_second": round(rows * (last - first) / (late - early)),
        "resident_MiB": round(peak / 1024),
        "log_likelihood_last_20000_rows": round(float(model.score_samples(*test).mean()), 4),
    }
    print(json.dumps(figures))


def measured(folder, kind, rows, passes):
    words = [sys.executable, __file__, "--fit", kind, "--folder", folder, "--rows", rows, "--passes", passes]
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="", flush=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        fit(options.folder, options.fit, options.rows, options.passes)
        return
    with tempfile.TemporaryDirectory() as place:
        write(Path(place), options.rows)
        fits = []
        for _ in range(options.repeats):
            fits.append(measured(place, "memory", options.rows // 10, 10 * options.passes))
            fits.append(measured(place, "stream", options.rows, options.passes))
    keep(BENCHMARKS / "streaming.json", fits, columns=COLUMNS)


if __name__ == "__main__":
    main()
