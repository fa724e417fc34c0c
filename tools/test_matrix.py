"""Quick tests with the lowest and the newest versions that pyproject.toml allows, on several Pythons.

    python tools/test_matrix.py --pythons 3.11 3.12 3.13 --versions lowest newest

Needs `uv`, which resolves the versions and finds or fetches the interpreters. Each
combination has an environment of its own in `.matrix`. One whose interpreter is not there and cannot be
fetched is reported as missing, and the run fails. Warnings of other packages about each other count as
warnings here, not as errors: old and new versions of them meet.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".matrix"
RESOLUTION = {"lowest": "lowest-direct", "newest": "highest"}
HURRY = ("--xla_backend_optimization_level=0", "--xla_cpu_use_fusion_emitters=false")  # in compiling
TESTS = [
    "tests/files", "tests/tables", "tests/test_gaussian.py", "tests/test_plotting.py",
    "tests/cli/test_errors.py", "tests/estimators/test_laws.py",
    "tests/estimators/test_labels.py", "tests/estimators/test_defaults.py",
]  # fmt: skip


def uv(*words):
    return subprocess.run(["uv", *words], cwd=ROOT, check=False).returncode == 0


def prepared(python, versions):
    """The interpreter of an environment with these versions, or None."""
    folder = PLACE / f"{python}-{versions}"
    interpreter = folder / "bin" / "python"
    made = interpreter.exists() or uv("venv", "-q", "--python", python, str(folder))
    if made and uv(
        "pip", "install", "-q", "--python", str(interpreter), "--resolution", RESOLUTION[versions],
        "-e", ".[dev]",
    ):  # fmt: skip
        return interpreter
    return None


def known_flags(interpreter):
    """Those of `HURRY` that its compiler knows: one that it does not know would end every test."""
    asked = [str(interpreter), "-c", "import jax; jax.devices()"]

    def knows(flag):
        env = os.environ | {"XLA_FLAGS": flag}
        return subprocess.run(asked, env=env, stderr=subprocess.DEVNULL, check=False).returncode == 0

    return " ".join(flag for flag in HURRY if knows(flag))


def passes(interpreter, tests):
    """Whether the tests pass there; programs are kept between runs."""
    programs = str(interpreter.parent.parent / "programs")
    env = os.environ | {"JAX_COMPILATION_CACHE_DIR": programs, "XLA_FLAGS": known_flags(interpreter)}
    command = [str(interpreter), "-m", "pytest", "-q", "-W", "default", *tests]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pythons", nargs="+", default=["3.11", "3.12", "3.13"])
    parser.add_argument("--versions", nargs="+", default=list(RESOLUTION), choices=list(RESOLUTION))
    parser.add_argument("tests", nargs="*", default=TESTS)
    options = parser.parse_args()
    if shutil.which("uv") is None:
        sys.exit("This needs `uv`: python -m pip install uv, in an environment whose bin is on PATH.")
    found = {}
    for python in options.pythons:
        for versions in options.versions:
            interpreter = prepared(python, versions)
            verdict = "missing" if interpreter is None else passes(interpreter, options.tests)
            found[python, versions] = {True: "passed", False: "failed"}.get(verdict, verdict)
    for (python, versions), verdict in found.items():
        print(f"Python {python}, {versions} versions: {verdict}")
    return 0 if set(found.values()) == {"passed"} else 1


if __name__ == "__main__":
    sys.exit(main())
