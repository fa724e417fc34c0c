"""Run the tasks of an experiment or benchmark and store their results.

A results file holds the command, the settings and a list of runs. A run is one flat dictionary: the fields
that identify it (data set, model, split, ...), its figures, and the commit and the machine that made it. An
interrupted command continues where it stopped: stored runs are not repeated.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
BENCHMARKS = Path(os.environ.get("TGGM_RESULTS") or ROOT / "benchmarks" / "results")
IMAGES = ROOT / "docs" / "images"
ONE_CORE = {
    "JAX_PLATFORMS": "cpu", "NPROC": "1", "PJRT_NPROC": "1", "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip
Run = dict[str, Any]
Record = dict[str, Any]


@cache
def origin() -> dict[str, str]:
    """Return the commit (TGGM_COMMIT if there is no repository) and the machine of this process."""
    import jax

    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude", "*"]
    commit = (
        os.environ.get("TGGM_COMMIT") or subprocess.run(git, capture_output=True, text=True).stdout.strip()
    )
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    model = names[0].split(":")[1].strip() if names else platform.machine()
    device = jax.devices()[0]
    accelerator = "" if device.platform == "cpu" else f"{device.device_kind}, "
    return {"commit": commit, "machine": f"{accelerator}{model}, {os.cpu_count()} cores"}


def command() -> str:
    """Return the command line of this process."""
    script = Path(sys.argv[0]).resolve()
    name = script.relative_to(ROOT) if script.is_relative_to(ROOT) else script.name
    return " ".join(["python", str(name), *sys.argv[1:]])


def read(path: Path) -> Record:
    """Return a stored record; one without runs if the file does not exist."""
    return json.loads(path.read_text()) if path.exists() else {"runs": []}


def write(path: Path, record: Record) -> None:
    """Write a record with one line per run, and replace the old file as a whole."""
    head = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items() if key != "runs"]
    runs = ",\n".join(f"  {json.dumps(run)}" for run in record["runs"])
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text("{\n" + ",\n".join([*head, f' "runs": [\n{runs}\n ]']) + "\n}\n")
    part.replace(path)


def keep(path: Path, runs: list[Run], **settings: Any) -> None:
    """Store the runs of a command that makes all of them at once."""
    write(path, {"command": command(), "settings": settings, "runs": [{**run, **origin()} for run in runs]})
    print("stored in", path)


def complete(
    path: Path,
    fields: Sequence[str],
    work: Callable[..., Run],
    tasks: Sequence[tuple[Any, ...]],
    *,
    jobs: int = 1,
    force: bool = False,
    **settings: Any,
) -> None:
    """Make the missing runs of a record, and write its file after each run.

    Parameters
    ----------
    path : Path
        A results file, or a folder with one file per value of the first field.
    fields : sequence of str
        Names of the arguments of `work`, which identify a run.
    work : callable
        Takes one task and returns the figures of its run.
    tasks : sequence of tuple
    jobs : int
        Number of processes; more than one use one core each.
    force : bool
        Repeat stored runs.
    **settings
        Stored with the record. The command ends if the file was made with other settings.
    """
    files = {task: path if path.suffix else path / f"{task[0]}.json" for task in tasks}
    records = {file: read(file) for file in set(files.values())}
    settings = json.loads(json.dumps(settings))
    for file, record in records.items():
        if record.get("settings", settings) != settings and not force:
            sys.exit(
                f"{file.name} was made with other settings, {record['settings']}; --force replaces its runs."
            )
    for number in (signal.SIGINT, signal.SIGTERM):  # KeyboardInterrupt would end a fit early and store it
        signal.signal(number, lambda *_: sys.exit(130))
    known = {file: {_identity(run, fields) for run in record["runs"]} for file, record in records.items()}
    wanted = [task for task in tasks if force or task not in known[files[task]]]
    for task, figures in _results(work, wanted, jobs):
        file = files[task]
        run = {**dict(zip(fields, task, strict=True)), **figures, **origin()}
        others = [old for old in records[file]["runs"] if _identity(old, fields) != task]
        records[file] = {"command": command(), "settings": settings, "runs": [*others, run]}
        write(file, records[file])
        print(*task, *(f"{k} {v:.4g}" for k, v in figures.items() if isinstance(v, float)), flush=True)


def _identity(run: Run, fields: Sequence[str]) -> tuple[Any, ...]:
    return tuple(run.get(field) for field in fields)


def _results(
    work: Callable[..., Run], tasks: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[tuple[tuple[Any, ...], Run]]:
    if jobs <= 1:
        yield from ((task, work(*task)) for task in tasks)
        return
    from joblib import Parallel, delayed

    os.environ.update(ONE_CORE)  # for the workers
    yield from Parallel(jobs, return_as="generator_unordered", batch_size=1)(
        delayed(_paired)(work, task) for task in tasks
    )


def _paired(work: Callable[..., Run], task: tuple[Any, ...]) -> tuple[tuple[Any, ...], Run]:
    return task, work(*task)


def options(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all experiments share."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="processes of one core each")
    parser.add_argument("--force", action="store_true", help="repeat stored runs")
    parser.add_argument("--out", type=Path, help="another results file")
    return parser


def some(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return an argument type: some of the known names, separated by commas."""

    def names(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return text.split(",")

    return names


class Clock:
    """Measure elapsed and CPU seconds since its creation."""

    def __init__(self) -> None:
        self._elapsed, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Return both as figures of a run."""
        return {"fit_s": time.perf_counter() - self._elapsed, "cpu_s": time.process_time() - self._cpu}


def mean_error(values: Any) -> tuple[float, float]:
    """Return the mean and its standard error (NaN for fewer than two values)."""
    v = np.asarray(values, float)
    return float(v.mean()), float(v.std(ddof=1) / np.sqrt(len(v))) if len(v) > 1 else float("nan")
