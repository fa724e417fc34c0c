"""Run tests with the lowest and the newest dependencies on several versions of Python.

    python tools/test_matrix.py [--pythons 3.11,3.12,3.13] [--resolutions lowest-direct,highest]
        [--folder FOLDER] [--out FILE] [TESTS ...]

Needs uv (`pip install uv`), which creates an environment for each pair. A version of Python that cannot be
found is reported as missing and is no failure. TESTS are arguments of pytest, by default all tests. Results
go to benchmarks/results/test_matrix.json, beside those of other tests.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "test_matrix.json"
SHOWN = ("jax", "numpy", "scipy", "scikit-learn", "safetensors", "narwhals", "pandas", "pyarrow", "starlette")


def run(python: str, resolution: str, tests: list[str], folder: Path) -> dict[str, object]:
    """Create the environment of a pair, run the tests, and return what happened."""
    place = folder / f"{Path(python).name}-{resolution}"
    found = {"python": re.sub(r".*python(?=\d)", "", python), "resolution": resolution}
    environment = os.environ | {"VIRTUAL_ENV": str(place)}
    for name in ("PYTHONPATH", "PYTHONHOME"):
        environment.pop(name, None)

    def call(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    if call("uv", "venv", "--quiet", "--clear", "--python", python, str(place)).returncode:
        return found | {"result": "this Python is missing"}
    done = call("uv", "pip", "install", "--quiet", "--resolution", resolution, "-e", ".[dev]")
    if done.returncode:
        return found | {"result": f"cannot be installed: {done.stderr.strip()[-500:]}"}
    listed = json.loads(call("uv", "pip", "list", "--format", "json").stdout)
    versions = {each["name"]: each["version"] for each in listed if each["name"] in SHOWN}
    done = call(str(place / "bin" / "python"), "-m", "pytest", "-n", "2", "--dist", "loadfile", *tests)
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-500:]]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    result = re.sub(" in .*", "", lines[-1])
    return found | versions | {"result": result, "failures": failed, "code": done.returncode}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pythons", default="3.11,3.12,3.13", help="versions or paths")
    parser.add_argument("--resolutions", default="lowest-direct,highest")
    parser.add_argument("--folder", type=Path, help="for the environments; a temporary one by default")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    if shutil.which("uv") is None:
        sys.exit("uv is missing; install it: pip install uv")
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        for python in options.pythons.split(","):
            for resolution in options.resolutions.split(","):
                results.append(run(python, resolution, options.tests, options.folder or Path(temporary)))
                print(json.dumps(results[-1], indent=1), flush=True)
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude", "*"]
    machine = f"{platform.system()} {platform.machine()}"
    made = {"commit": subprocess.check_output(git, text=True).strip(), "machine": machine}
    made["tests"] = " ".join(options.tests) or "all"
    before = json.loads(options.out.read_text())["runs"] if options.out.exists() else []
    runs = [run for run in before if run["tests"] != made["tests"]] + [run | made for run in results]
    record = {"command": "make test-matrix", "settings": {}, "runs": runs}
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if any(result.get("code", "installed" in str(result["result"])) for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
