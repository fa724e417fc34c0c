"""What the experiments on figures and claims share: their records, and runs spread over processes.

A record is a JSON file: settings, seed, commit, device and seconds beside a table of runs. A run has a key,
the words that describe it; runs that a record already holds are not made again, so a command that was cut
goes on where it stopped, and a larger command adds to what a smaller one made.
"""

import json
import multiprocessing
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import jax
import numpy as np

if not os.environ.get("JAX_PLATFORMS"):
    jax.config.update("jax_platforms", "cpu")  # single small networks: nothing here is worth an accelerator

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
IMAGES = ROOT / "docs" / "images"


def origin(**more: Any) -> dict[str, Any]:
    """Where figures come from: commit (TGGM_COMMIT where there is no repository), device, and `more`."""
    commit = os.environ.get("TGGM_COMMIT", "")
    if not commit:
        git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    return {"commit": commit, "device": f"{jax.devices()[0].device_kind}, {os.cpu_count()} cores", **more}


def read(path: Path) -> dict[str, Any]:
    """A stored record, empty if there is none."""
    return json.loads(path.read_text()) if path.exists() else {}


def write(path: Path, record: dict[str, Any]) -> None:
    """Store a record so that a reader sees the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1) + "\n")
    part.replace(path)


def spread(
    work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[tuple[Any, Any]]:
    """Pairs of a task and its result as they come, made by `jobs` processes of one core each."""
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, work(*task)
        return
    context = multiprocessing.get_context("spawn")
    numbers = context.Value("i", 0)
    with ProcessPoolExecutor(jobs, context, _pin, (numbers,)) as pool:
        waiting = {pool.submit(work, *task): task for task in tasks}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _pin(numbers: Any) -> None:
    """Keep a worker to one core, so that its numerical threads do not get into the others' way."""
    cores = sorted(os.sched_getaffinity(0))
    with numbers.get_lock():
        mine, numbers.value = numbers.value, numbers.value + 1
    os.sched_setaffinity(0, {cores[mine % len(cores)]})


def complete(
    path: Path,
    made_by: dict[str, Any],
    work: Callable[..., dict[str, Any]],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int,
) -> dict[str, Any]:
    """Make the runs of a record that are missing; write it after each (at most once a second).

    A run's key is its task, joined by spaces. Runs made with other settings than `made_by` has are dropped.
    """
    record = read(path)
    if record.get("settings") != made_by["settings"]:
        record = {"settings": made_by["settings"], "seconds": 0.0, "runs": {}}
    known = record["runs"]
    missing = [task for task in tasks if key(task) not in known]
    clock = kept = time.perf_counter()
    before = record["seconds"]
    for task, run in spread(work, missing, jobs):
        known[key(task)] = run
        print(key(task), *(f"{k} {v:.4g}" for k, v in run.items() if isinstance(v, float)), flush=True)
        now = time.perf_counter()
        record |= {**made_by, "seconds": round(before + now - clock, 1)}
        if now - kept > 1:
            write(path, record)
            kept = now
    write(path, record)
    return record


def key(task: Sequence[Any]) -> str:
    """The name of a run in its record."""
    return " ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in task)


def mean_error(values: Any) -> tuple[float, float]:
    """Mean and its standard error (NaN for fewer than two values)."""
    v = np.asarray(values, float)
    return float(v.mean()), float(v.std(ddof=1) / np.sqrt(len(v))) if len(v) > 1 else float("nan")


def made(record: dict[str, Any], command: str) -> str:
    """The end of a caption: command, seed, commit, device, seconds."""
    return (
        f"Made by `{command}` with seed {record['settings']['seed']} at {record['commit']} "
        f"on {record['device']}, {record['seconds']:.0f} s."
    )
