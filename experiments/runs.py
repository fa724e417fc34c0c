"""What the experiments on figures and claims share: their records, and runs spread over processes.

A record is a JSON file: settings, seed, commit, device and seconds beside a table of runs. A run has a key,
the words that describe it; runs that a record already holds are not made again, so a command that was cut
goes on where it stopped, and a larger command adds to what a smaller one made.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import ledger
import numpy as np
from page import RESULTS, ROOT, load
from pool import Pool

__all__ = ["IMAGES", "RESULTS", "begin", "complete", "key", "made", "mean_error", "origin", "read", "write"]
IMAGES = ROOT / "docs" / "images"


def begin() -> None:
    """What a command does first.

    It computes on the CPU unless JAX_PLATFORMS says otherwise: single small networks are fastest there. And
    Ctrl-C ends it: as KeyboardInterrupt it would end a fit early, which would be stored as though complete.
    """
    if not os.environ.get("JAX_PLATFORMS"):
        jax.config.update("jax_platforms", "cpu")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(130))


def options(about: str | None) -> argparse.ArgumentParser:
    """What all of these commands can be told."""
    p = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=1, help="processes")
    p.add_argument("--render", action="store_true", help="only draw what is stored")
    p.add_argument("--force", action="store_true", help="replace what is stored with other settings")
    return p


def origin(**more: Any) -> dict[str, Any]:
    """Where figures come from: the command, commit, device, and `more`."""
    command = " ".join(["python", f"experiments/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    return {"command": command, **ledger.origin(), **more}


def read(path: Path) -> dict[str, Any]:
    """A stored record, empty if there is none."""
    return load(path) if path.exists() else {}


def write(path: Path, record: dict[str, Any]) -> None:
    """Store a record so that a reader sees the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(_text(record))
    part.replace(path)


def _text(record: dict[str, Any]) -> str:
    """JSON with one line for each entry, and one for each run."""
    lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in record.items() if k != "runs"]
    if "runs" in record:
        runs = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in record["runs"].items())
        lines.append(f' "runs": {{\n{runs}\n }}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def spare(path: Path, settings: dict[str, Any], force: bool) -> None:
    """End the command if it would replace a record that was made with other settings."""
    known = read(path).get("settings")
    if known not in (None, json.loads(json.dumps(settings))) and not force:
        sys.exit(f"{path.name} has results of other settings, {known}; --force replaces them.")


def complete(
    path: Path,
    made_by: dict[str, Any],
    work: Callable[..., dict[str, Any]],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int,
    *,
    force: bool = False,
) -> dict[str, Any]:
    """Make the runs of a record that are missing, in `jobs` processes of one core each; write it after each.

    A run's key is its task, joined by spaces. Runs made with other settings than `made_by` has are dropped
    if `force` says so; without it the command ends.
    """
    record = read(path)
    spare(path, made_by["settings"], force)
    if record.get("settings") != made_by["settings"]:
        record = {"settings": made_by["settings"], "seconds": 0.0, "runs": {}}
    known, before, clock = record["runs"], record["seconds"], time.perf_counter()
    missing = [task for task in tasks if key(task) not in known]

    def store(task: tuple[Any, ...], run: dict[str, Any]) -> None:
        with lock:
            known[key(task)] = {**run, **ledger.origin()}
            record.update(made_by, seconds=round(before + time.perf_counter() - clock, 1))
            write(path, record)
            print(key(task), *(f"{k} {v:.4g}" for k, v in run.items() if isinstance(v, float)), flush=True)

    lock = threading.Lock()
    if jobs <= 1:
        for task in missing:
            store(task, work(*task))
    else:
        with Pool(min(jobs, len(missing))) as pool:
            for task in missing:
                pool.submit(work, *task, then=partial(store, task))
            pool.wait()
    return record


def key(task: Sequence[Any]) -> str:
    """The name of a run in its record."""
    return " ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in task)


def mean_error(values: Any) -> tuple[float, float]:
    """Mean and its standard error (NaN for fewer than two values)."""
    v = np.asarray(values, float)
    return float(v.mean()), float(v.std(ddof=1) / np.sqrt(len(v))) if len(v) > 1 else float("nan")


def made(record: dict[str, Any]) -> str:
    """The end of a caption: command, seed, commits, devices, seconds."""
    parts = [record, *record.get("runs", {}).values()]
    commits = ", ".join(sorted({part["commit"] for part in parts if "commit" in part}))
    devices = "; ".join(sorted({part["device"] for part in parts if "device" in part}))
    return (
        f"Made by `{record['command']}` (seed {record['settings']['seed']}; commit {commits}; {devices}; "
        f"{record['seconds']:.0f} s)."
    )
