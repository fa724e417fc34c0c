"""Create or repair .venv for `make demo` or `make test`; takes a tenth of a second if nothing has to be done.

Needs only the standard library of Python >= 3.11:  python3 tools/setup_venv.py demo|dev

A stamp in .venv records the folder, the checksum of pyproject.toml and the extra of the last finished set-up.
It is removed before a change and written after success, so an interrupted set-up starts again from an empty
environment. The stamp is valid while the interpreter starts and every installed file has its recorded size.
"""

import csv
import hashlib
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".tggm-setup.json"
SERVED_BY = {"demo": ("demo", "dev"), "dev": ("dev",)}  # a development set-up is sufficient for the demo
REDIRECTIONS = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")  # would install outside .venv


def main(extra: str) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036  (older versions of Python run this file first)
        sys.exit(
            f"tggm needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}.\n"
            "Name a newer one:  make PYTHON=python3.12 demo"
        )
    healthy = stamp()["folder"] == str(ROOT) and interpreter_runs() and files_are_complete()
    if healthy and is_current() and stamp()["extra"] in SERVED_BY[extra]:
        return
    began = time.monotonic()
    if healthy:
        STAMP.unlink()
        print(f"Updating .venv [{extra}]", flush=True)
    else:
        print(f"Creating .venv with Python {sys.version.split()[0]} [{extra}]", flush=True)
        create()
    install(extra)
    STAMP.write_text(json.dumps({"folder": str(ROOT), "pyproject": digest(), "extra": extra}))
    print(f"  ready after {time.monotonic() - began:.0f} s", flush=True)


def stamp() -> dict[str, str]:
    """Return the record of the last finished set-up; empty strings if there is none."""
    try:
        return {"folder": "", "pyproject": "", "extra": "", **json.loads(STAMP.read_text())}
    except (OSError, ValueError, TypeError):
        return {"folder": "", "pyproject": "", "extra": ""}


def digest() -> str:
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()


def is_current() -> bool:
    return stamp()["pyproject"] == digest()


def interpreter_runs() -> bool:
    """Return whether the interpreter of the environment runs."""
    try:
        return subprocess.run([PYTHON, "-c", ""], stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def files_are_complete() -> bool:
    """Return whether every installed file has its recorded size."""
    records = list(VENV.glob("lib/python*/site-packages/*.dist-info/RECORD"))
    return bool(records) and all(recorded_files_exist(record) for record in records)


def recorded_files_exist(record: Path) -> bool:
    site = record.parent.parent
    with record.open(newline="", encoding="utf-8") as lines:
        for name, _, size in csv.reader(lines):
            try:
                if size and os.stat(os.path.join(site, name)).st_size != int(size):
                    return False
            except OSError:
                return False
    return True


def create() -> None:
    done = subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=False)
    if done.returncode:
        sys.exit(f"{sys.executable} cannot create {VENV}; on Debian or Ubuntu: apt install python3-venv")


def install(extra: str) -> None:
    """Install this checkout in editable mode with one extra; print the output of pip if it fails."""
    quiet = ["--no-input", "--progress-bar", "off"]
    command = [PYTHON, "-m", "pip", "install", *quiet, "--editable", f".[{extra}]"]
    kept = {name: value for name, value in os.environ.items() if name not in REDIRECTIONS}
    output: list[str] = []
    names: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, env=kept, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            output.append(line)
            if found := re.match(r"Collecting ([\w.-]+)|Processing \S*?([\w.]+)-\S+\.whl", line):
                names.append(found[1] or found[2])
                if len(names) % 8 == 0:
                    print(f"  fetching {' '.join(names[-8:])}", flush=True)
            elif found := re.match(r"\s+Downloading ([A-Za-z0-9_.]+)-\S+ \((\d\d+)(\.\d+)? MB\)", line):
                print(f"  downloading {found[1]}, {found[2]} MB", flush=True)
            elif line.startswith("Installing collected packages"):
                print(f"  installing {line.count(',') + 1} packages", flush=True)
    if pip.returncode:
        print(textwrap.indent("".join(output[-40:]), "  | "), flush=True)
        sys.exit("The installation failed (see pip's output above). Run the same command to try again.")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in SERVED_BY:
        sys.exit("usage: python3 tools/setup_venv.py demo|dev")
    try:
        main(sys.argv[1])
    except KeyboardInterrupt:
        sys.exit("Interrupted. Run the same command to start again.")
