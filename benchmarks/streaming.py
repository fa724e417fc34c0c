"""Measure memory and throughput of a fit from a stream and of a fit in memory.

    python benchmarks/streaming.py

Ten million rows of 20 columns are written to a temporary folder as float32 (800 MB) and fitted from there in
two passes; a tenth of them is fitted in memory with as many steps. Each fit runs in a separate process, whose
largest resident memory is reported. Rows per second are measured between the first and the last report of
progress, without compilation and the first pass. Both fits are repeated alternately. Writes
benchmarks/results/streaming.json.
"""

import resource
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, keep

COLUMNS = 20
ROWS, PASSES, REPEATS = 10_000_000, 2, 2


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
    """Fit in this process and return the figures."""
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
    return {
        "fit": kind,
        "rows": rows,
        "passes": passes,
        "seconds": round(seconds, 2),
        "rows_per_second": round(rows * (last - first) / (late - early)),
        "resident_MiB": round(peak / 1024),
        "log_likelihood_last_20000_rows": round(float(model.predict_dist(test[0]).logpdf(test[1]).mean()), 4),
    }


def measured(*task):
    with get_context("spawn").Pool(1) as pool:  # a separate process
        figures = pool.apply(fit, task)
    print(figures, flush=True)
    return figures


def main():
    with tempfile.TemporaryDirectory() as place:
        write(Path(place), ROWS)
        fits = []
        for _ in range(REPEATS):
            fits.append(measured(place, "memory", ROWS // 10, 10 * PASSES))
            fits.append(measured(place, "stream", ROWS, PASSES))
    keep(BENCHMARKS / "streaming.json", fits, columns=COLUMNS)


if __name__ == "__main__":
    main()
