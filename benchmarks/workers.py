"""Measure fits with members in parallel workers, against one worker and against the default process.

    TGGM_DATA=... python benchmarks/workers.py [--datasets protein,kin40k] [--backends dask,loky]

A worker has one thread. Dask's scheduler and workers are started by their commands on the loopback device;
loky starts its own, and with one worker the fit runs in this process, which may use one core. Each process
may use two cores otherwise. Workers compile in the first of two fits only. Equal `digest` means predictions
that are equal to the bit. Writes benchmarks/results/workers.json.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from datasets import load_uci
from store import BENCHMARKS, complete, options, some

from tables import TABLES, Split

DATASETS, BACKENDS = ("protein", "kin40k", "concrete"), ("default", "dask", "loky")
CORES = 2


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """Start a scheduler and workers by their commands, and return the address of the scheduler."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "scheduler.json")
        begin = [sys.executable, "-m", "dask"]
        address = ["--host", "127.0.0.1"]
        words = ["--no-dashboard", "--scheduler-file", file]
        where = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running = [subprocess.Popen([*begin, "scheduler", *address, "--port", "0", *words], **where)]
        one = [*begin, "worker", "--nthreads", "1", *address, *words]
        running += [subprocess.Popen(one, **where) for _ in range(workers)]
        try:
            yield file
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait()


def fits(dataset: str, backend: str, workers: int) -> dict[str, Any]:
    """Fit twice in this process."""
    os.environ["NPROC"] = os.environ["PJRT_NPROC"] = str(CORES if backend != "loky" or workers > 1 else 1)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(os.environ["NPROC"])])
    from joblib import parallel_config
    from joblib.externals.loky import get_reusable_executor

    from tggm import TGGMRegressor

    split = TABLES[dataset].split(0) if dataset in TABLES else None
    if split is None:
        data = load_uci(dataset)
        train, test = data.splits[0]
        split = Split(data.X[train], data.y[train], data.X[test], data.y[test])
    model = TGGMRegressor(n_jobs=None if backend == "default" else workers, random_state=0)
    figures: dict[str, Any] = {"rows": len(split.y_train)}
    with parallel_config(backend="loky" if backend == "default" else backend):
        for name in ("first_s", "second_s"):
            clock = time.perf_counter()
            model.fit(split.X_train, split.y_train)
            figures[name] = time.perf_counter() - clock
    dist = model.predict_dist(split.X_test)
    if backend == "loky":  # its idle processes would delay the end of this one
        get_reusable_executor().shutdown()
    figures["digest"] = hashlib.sha256(dist.ppf(0.9).tobytes()).hexdigest()[:12]
    return figures | {"ll": float(dist.logpdf(split.y_test).mean())}


def with_cluster(dataset: str, backend: str, workers: int) -> dict[str, Any]:
    """Connect to a new cluster and fit twice."""
    from dask.distributed import Client

    with cluster(workers) as file, Client(scheduler_file=file) as client:
        client.wait_for_workers(workers, timeout=60)
        return fits(dataset, backend, workers)


def work(dataset: str, backend: str, workers: int) -> dict[str, Any]:
    """Measure in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # its process may start loky's
        task = with_cluster if backend == "dask" else fits
        return pool.submit(task, dataset, backend, workers).result()


def main() -> None:
    p = options(__doc__)
    p.add_argument("--datasets", type=some(DATASETS), default=["protein", "kin40k"])
    p.add_argument("--backends", type=some(BACKENDS), default=list(BACKENDS))
    args = p.parse_args()
    counts = {"default": (1,), "dask": (1, 2), "loky": (1, 2)}
    tasks = [(name, kind, n) for name in args.datasets for kind in args.backends for n in counts[kind]]
    out = args.out or BENCHMARKS / "workers.json"
    sys.argv[1:] = []  # the record names the command that makes all of its runs
    complete(out, ("dataset", "backend", "workers"), work, tasks, force=args.force)


if __name__ == "__main__":
    main()
