"""Interrupt `tggm fit` at random moments, and count crashes, tracebacks and untrue sentences.

    python tools/interrupts.py [--count 200] [--seed 0] [--out FILE]

Each fit gets Ctrl-C (SIGINT) after a random processor time between 0.1 s, when the interpreter has started,
and its usual end. Every third gets a second one soon after. A fit must end without a traceback, by itself or
by the signal. What it says about the model file must be true: a written model loads, and there is no file
otherwise, nor a temporary one. Files end up whole or absent, whatever was said. Needs Linux (/proc). Counts
go to benchmarks/results/interrupts.json after each fit, beside those of other seeds.
"""

import argparse
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tggm import load

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "experiments"))
from store import BENCHMARKS, origin, read, write

FIRST, SECOND = 0.1, 0.5  # processor seconds: earliest interrupt, and longest time to the second one
SAID = {  # last line of standard error and whether a model file must exist
    r"tggm: interrupted; nothing was written": False,
    r"tggm: interrupted; \S+ was written": True,
    r"interrupted: the (best model so far|whole model) is written": True,
}


def command(folder: Path) -> list[str]:
    """Write a small table, and return a fit to it that takes a few seconds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=400)
    np.savetxt(folder / "t.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
    fit = [sys.executable, "-m", "tggm", "fit", str(folder / "t.csv"), "-t", "y", "--members", "2"]
    return [*fit, "--epochs", "20000", "--hidden", "10"]


def seconds(child: subprocess.Popen[str]) -> float:
    """Return the processor time of a running process."""
    words = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def interrupted(fit: list[str], moments: list[float], path: Path) -> tuple[int, str]:
    """Run a fit with interrupts after these processor times; return its exit code and standard error."""
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen([*fit, "-o", str(path)], stdout=subprocess.DEVNULL, stderr=said, text=True)
        for moment in moments:
            while child.poll() is None and seconds(child) < moment:
                time.sleep(0.002)
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
        child.wait(timeout=600)
        said.seek(0)
        return child.returncode, said.read()


def verdict(code: int, said: str, path: Path) -> str:
    """Return what happened; violations start with "violation"."""
    temporary = [name for name in os.listdir(path.parent) if name.endswith(".tmp")]
    last = (said.strip().splitlines() or [""])[-1]
    wanted = next((exists for text, exists in SAID.items() if re.fullmatch(text, last)), None)
    if "Traceback" in said or code not in (0, 130, -signal.SIGINT):
        return f"violation: exit code {code}, {said[-500:]!r}"
    if path.exists():
        load(path)  # raises for a damaged file
    if (code == 130 and wanted is None) or wanted not in (None, path.exists()):
        return f"violation: exit code {code} with {last!r}, file exists: {path.exists()}"
    if temporary and code != -signal.SIGINT:
        return f"violation: {temporary} remains"
    by = {0: "finished", 130: last.replace(str(path), "FILE"), -signal.SIGINT: "ended by the signal"}
    return by[code]


def run(count: int, seed: int = 0, out: Path | None = None) -> Counter[str]:
    """Interrupt this many fits; store and return the counts of verdicts with their exit codes."""
    before = [] if out is None else [each for each in read(out)["runs"] if each["seed"] != seed]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # children must not inherit that it is ignored
    counts, rng = Counter[str](), random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        fit = [*command(Path(name)), "--force"]
        for _ in range(2):  # the first one stores compiled programs
            begin = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert interrupted(fit, [], Path(name, "whole.tggm"))[0] == 0
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        usual = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
        for k in range(count):
            folder = Path(name, str(k))
            folder.mkdir()
            first = rng.uniform(FIRST, usual)
            moments = [first] + [first + rng.uniform(0, SECOND)] * (k % 3 == 2)
            code, said = interrupted(fit, moments, folder / "m.tggm")
            found = verdict(code, said, folder / "m.tggm")
            if found.startswith("violation"):
                print(f"{k}: after {moments} s: {found}", flush=True)
            counts[found if found.startswith("violation") else f"exit code {code}: {found}"] += 1
            if out is not None:
                runs = [{"verdict": each, "fits": n, "seed": seed, **origin()} for each, n in counts.items()]
                write(out, {"command": "python tools/interrupts.py", "settings": {}, "runs": before + runs})
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=BENCHMARKS / "interrupts.json")
    options = parser.parse_args()
    counts = run(options.count, options.seed, options.out)
    print(json.dumps(counts, indent=1))
    return 1 if any(name.startswith("violation") for name in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
