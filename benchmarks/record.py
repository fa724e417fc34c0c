"""Where figures of benchmarks are kept, and what is kept with them: commit, machine, versions."""

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def results() -> Path:
    """The folder of stored figures; TGGM_RESULTS names another, for trials that should not replace them."""
    folder = Path(os.environ.get("TGGM_RESULTS") or ROOT / "benchmarks" / "results")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def commit() -> str:
    """Of this repository; TGGM_COMMIT says it for a copy without its history."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return found or os.environ.get("TGGM_COMMIT", "unknown")


def machine() -> str:
    """The processor, how many cores of it, and what JAX computes on."""
    import jax

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), platform.machine())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    device = jax.devices()[0]
    where = "" if device.platform == "cpu" else f"; {jax.device_count()} x {device.device_kind}"
    return f"{model}, {cores} cores{where}"


def keep(name: str, figures: dict[str, Any]) -> Path:
    """Write figures as `name`.json, with what they depend on."""
    import jax

    facts = {"commit": commit(), "machine": machine(), "jax": jax.__version__}
    path = results() / f"{name}.json"
    path.write_text(json.dumps(facts | figures, indent=1) + "\n")
    return path
