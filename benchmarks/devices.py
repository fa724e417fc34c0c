"""Rows a second of a fit on one device, on two, and in two processes.

    python benchmarks/devices.py [--quick]

A table of 20 columns in memory, 50 units, one member, mini-batches of several sizes. On a CPU the devices are
virtual ones: each has one thread of its own but for large products, which may use all cores on one device
too. Rows a second are those between the first report of progress and the last, without compilation; each is
the best of a few fits. Beside it the mean log-density of other rows: thousands of steps in float32 lead to
parameters that differ, and models that do not. Writes ``benchmarks/results/devices.json``.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from record import keep

COLUMNS, UNITS, TEST = 20, 50, 10_000
WAYS = {
    "one device": (1, 1),
    "two devices": (2, 1),
    "two processes": (1, 2),
}  # devices of a process, processes


def fit(rows: int, batch: int, epochs: int, repeats: int, process: int, processes: int, port: int) -> None:
    """Run in a process of its own; writes what it measured to standard output."""
    if processes > 1:
        import tggm.distributed

        tggm.distributed.initialize(f"127.0.0.1:{port}", processes, process)
    import jax
    from tggm.distributed import use_devices

    from tggm import TGGMRegressor
    from tggm.training.observer import Observer

    class Watch(Observer):
        """Notes when epochs were done."""

        def __init__(self) -> None:
            self.times: list[tuple[int, float]] = []

        def progressed(self, epochs: int, trace: Any) -> None:
            """Note the time."""
            self.times.append((epochs, time.perf_counter()))

    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows + TEST, COLUMNS), dtype=np.float32)
    noise = 0.2 * np.abs(X[:, 2]) * rng.standard_normal(len(X), np.float32)
    y = np.sin(2 * X[:, 0]) + np.maximum(X[:, 1], 0) + noise
    speeds = []
    for _ in range(repeats):
        model = TGGMRegressor.one_layer(
            hidden=UNITS, n_members=1, max_epochs=epochs, batch_size=batch, patience=None, random_state=0
        )
        watch = Watch()
        with use_devices(jax.devices()):
            model.fit(X[:rows], y[:rows], observer=watch)
        (first, early), (last, late) = watch.times[0], watch.times[-1]
        speeds.append(round(0.9 * rows) * (last - first) / (late - early))  # a tenth is held out
    if process == 0:
        density = float(model.score_samples(X[rows:], y[rows:]).mean())
        print(json.dumps({"speeds": speeds, "log_density": density}))


def measured(way: str, *numbers: int) -> dict[str, Any]:
    """The fits of all processes of a way; what the first of them says."""
    devices, processes = WAYS[way]
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, __file__, "--fit", *map(str, numbers)]
    with tempfile.TemporaryFile("w+") as said:
        started = [
            subprocess.Popen(
                [*words, str(k), str(processes), str(port)],
                stdout=said if k == 0 else subprocess.DEVNULL,
                env=os.environ | {"XLA_FLAGS": flags},
                cwd=Path(__file__).parent,
            )
            for k in range(processes)
        ]
        codes = [process.wait() for process in started]
        if any(codes):
            raise RuntimeError(f"the fit in {way} failed")
        said.seek(0)
        return json.loads(said.read())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one size of mini-batches, one fit of each")
    parser.add_argument("--fit", type=int, nargs=7, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        fit(*options.fit)
        return
    rows, fits = 2**16, []
    for batch in (4096,) if options.quick else (512, 4096, 32768):
        for way in WAYS:
            found = measured(way, rows, batch, 16 if options.quick else 40, 1 if options.quick else 3)
            if way == "one device":
                alone = found
            fits.append(
                {
                    "way": way,
                    "batch": batch,
                    "rows_per_second": round(max(found["speeds"])),
                    "ratio": round(max(found["speeds"]) / max(alone["speeds"]), 2),
                    "log_density": found["log_density"],
                }
            )
            line = "{way:14s} batch {batch:6d}  {rows_per_second:9d} rows/s  {ratio:5.2f}  {log_density:.4f}"
            print(line.format(**fits[-1]), flush=True)
    keep("devices", {"rows": rows, "columns": COLUMNS, "units": UNITS, "fits": fits})


if __name__ == "__main__":
    main()
