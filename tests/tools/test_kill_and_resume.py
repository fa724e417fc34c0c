"""A few kills of real processes; tools/kill_and_resume.py --kills 60 is the full count."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_killed_fits_end_as_if_nothing_had_happened(tmp_path):
    figures = tmp_path / "figures.json"
    words = [sys.executable, "tools/kill_and_resume.py", "--kills", "2", "--seed", "7", "--output", figures]
    shorter = os.environ | {"EPOCHS": "800"}
    done = subprocess.run(words, cwd=ROOT, env=shorter, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(figures.read_text())
    assert (found["kills"], found["losses"]) == (2, 0)
    assert found["resumed"] > 0
