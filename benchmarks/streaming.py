"""A fit to more rows than should be in memory: resident memory and throughput against the fit in memory.

    python benchmarks/streaming.py --output benchmarks/results/streaming.json

Ten million rows of 20 columns are written to a temporary folder as float32 (800 MB) and fitted from there,
two passes; a tenth of them is fitted in memory with as many steps. Each fit has a process of its own, whose
largest resident memory is reported. Rows a second are those between the first report of progress and the
last: neither compilation nor the first pass of the stream, which only measures columns. Both fits are
repeated in turn, and the best of each compared: a machine that does other things disturbs them.
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
from record import commit, machine

COLUMNS = 20


def write(folder, rows):
    """X.npy and y.npy, a piece at a time."""
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (rows, COLUMNS))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (rows,))
    rng = np.random.default_rng(0)
    for start in range(0, rows, 2**18):
        Z = rng.standard_normal((min(2**18, rows - start), COLUMNS), dtype=np.float32)
        noise = 0.2 * np.abs(Z[:, 2]) * rng.standard_normal(len(Z), dtype=np.float32)
        X[start : start + len(Z)] = Z
        y[start : start + len(Z)] = np.sin(2 * Z[:, 0]) + np.maximum(Z[:, 1], 0) + noise


def fit(folder, kind, rows, passes):
    """Run in a process of its own; prints what it measured."""
    from tggm import TGGMRegressor
    from tggm.data import from_arrays
    from tggm.training.observer import Observer

    class Watch(Observer):
        """Notes when passes were done."""

        def progressed(self, epochs, trace):
            """Note the time."""
            times.append((epochs, time.perf_counter()))

    mapped = [np.load(Path(folder, name), mmap_mode="r") for name in ("X.npy", "y.npy")]
    model = TGGMRegressor.one_layer(
        n_members=1, max_epochs=passes, batch_size=512, patience=None, random_state=0
    )
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
    parser.add_argument("--output", type=Path)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        return fit(options.folder, options.fit, options.rows, options.passes)
    with tempfile.TemporaryDirectory() as place:
        write(Path(place), options.rows)
        fits = []
        for _ in range(options.repeats):
            fits.append(measured(place, "memory", options.rows // 10, 10 * options.passes))
            fits.append(measured(place, "stream", options.rows, options.passes))
    best = {
        kind: max(f["rows_per_second"] for f in fits if f["fit"] == kind) for kind in ("memory", "stream")
    }
    figures = {
        "commit": commit(),
        "machine": machine(),
        "columns": COLUMNS,
        "fits": fits,
        "best_throughput_of_stream_to_memory": round(best["stream"] / best["memory"], 3),
    }
    if options.output is not None:
        options.output.write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))
    return None


if __name__ == "__main__":
    main()
